//! Prepares a daemon for its start: checks its tools, builds it, and reads its version.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::DaemonError;
use super::guard;
use super::log::Log;
use super::process_name::ProcessName;
use super::step::{self, Step};
use super::{environment, tool};
use crate::manifest::placeholders::{self, Phase};
use crate::manifest::{self, BEHIND, Manifest, ManifestError, Root, Roots};
use load::clock;
use load::trust;

/// Number of log lines that an error shows.
pub(super) const LAST_LINES: usize = 20;
/// Number of log lines that an error of a test shows: a failed test explains itself above the summary.
const LAST_LINES_OF_TESTS: usize = 100;

/// The file in a build directory that exists once the daemon was built.
const BUILT: &str = "built";

/// Time between two attempts to lock a build that another program is making.
const LOCK_INTERVAL: Duration = Duration::from_millis(500);

/// A daemon that is built and can be started any number of times.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(super) name: ProcessName,
    pub(super) manifest: Manifest,
    pub(super) paths: Paths,
    pub(super) version: Option<String>,
    pub(super) services: Vec<Prepared>,
}

/// The directories behind a manifest's placeholders.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    root: Root,
    dir: PathBuf,
    target: PathBuf,
    build: PathBuf,
    program: Option<PathBuf>,
}

impl Prepared {
    pub(super) fn new(
        roots: &Roots,
        name: &str,
        serves: &str,
        on_step: &mut dyn FnMut(&Step<'_>),
    ) -> Result<Self, DaemonError> {
        let mut prepared = Self::from_manifest(roots, name, find(roots, name, serves)?)?;
        prepared.require_tools()?;
        for daemon in prepared.daemons() {
            if daemon.paths.root.is_built() {
                daemon.require_build()?
            } else {
                daemon.build_own(on_step)?
            }
        }
        prepared.version = prepared.read_version();
        for service in &mut prepared.services {
            service.version = service.read_version();
        }
        Ok(prepared)
    }

    /// Creates a daemon from its manifest, without building it.
    pub(super) fn from_manifest(
        roots: &Roots,
        name: &str,
        manifest: Manifest,
    ) -> Result<Self, DaemonError> {
        let daemon = ProcessName::from_daemon(name);
        let paths = Paths::new(
            manifest::root_of(roots, name),
            name,
            manifest.program.as_deref(),
        )
        .map_err(DaemonError::io(&daemon, "finding its directories"))?;
        let services = manifest.services.iter().map(|(name, service)| {
            let service = service.to_manifest(name, &manifest);
            Self::from_parts(daemon.with_service(name), service, paths.clone())
        });
        let behind = manifest.behind.iter();
        let behind = behind.map(|other| Self::behind(roots, &daemon, other));
        let services = behind.chain(services).collect::<Result<_, _>>()?;
        let prepared = Self::from_parts(daemon, manifest, paths)?;
        Ok(Self {
            services,
            ..prepared
        })
    }

    /// Creates the daemon `other` as a service of the one in front of it.
    fn behind(roots: &Roots, front: &ProcessName, other: &str) -> Result<Self, DaemonError> {
        let manifest = Manifest::load(roots, other)?;
        if manifest.behind.is_some() || !manifest.services.is_empty() {
            return Err(DaemonError::BadManifest(ManifestError {
                file: manifest::file(roots, front.daemon()),
                key: Some(BEHIND.to_owned()),
                problem: format!("`{other}` needs another server itself"),
                remedy: "name a daemon without services and without a daemon behind it".to_owned(),
            }));
        }
        Ok(Self {
            name: front.with_service(other),
            ..Self::from_manifest(roots, other, manifest)?
        })
    }

    /// Returns the daemon, and the one behind it, which has a build of its own.
    fn daemons(&self) -> impl Iterator<Item = &Self> {
        let has_own_build = |service: &&Self| service.paths.build != self.paths.build;
        std::iter::once(self).chain(self.services.iter().filter(has_own_build))
    }

    /// Creates a daemon without services, or a service.
    fn from_parts(
        name: ProcessName,
        manifest: Manifest,
        paths: Paths,
    ) -> Result<Self, DaemonError> {
        let prepared = Self {
            name,
            manifest,
            paths,
            version: None,
            services: Vec::new(),
        };
        prepared.require_trust()?;
        Ok(prepared)
    }

    /// Refuses a folder in which commands run, or a project file that they name, if somebody else may have written it.
    /// Build products are the caller's own.
    fn require_trust(&self) -> Result<(), DaemonError> {
        let directory = self.directory();
        let is_sources = |path: &PathBuf| {
            path.starts_with(&self.paths.root.path) && !path.starts_with(&self.paths.target)
        };
        let named = self
            .manifest
            .every_command()
            .flat_map(|words| self.expanded(words))
            .map(|word| directory.join(word))
            .filter(|path| path.is_file());
        let folder = Some(directory.clone()).filter(|folder| folder.is_dir());
        folder
            .into_iter()
            .chain(named)
            .filter(is_sources)
            .try_for_each(|path| trust::require(&path))
            .map_err(|error| DaemonError::BadManifest(error.into()))
    }

    /// Returns its program, and the program of the daemon behind it, if they belong to this project.
    pub fn programs(&self) -> impl Iterator<Item = &Path> {
        let programs = self.daemons().map(|daemon| daemon.paths.program.as_deref());
        programs.flatten()
    }

    /// Returns the name of the daemon's directory.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.own()
    }

    /// Returns the version that the daemon reports, if it reports one.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Returns the daemon's manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the directory in which the daemon's commands run.
    pub(super) fn directory(&self) -> PathBuf {
        let cwd = self
            .manifest
            .cwd
            .as_ref()
            .map(|cwd| placeholders::expand(cwd, |name| self.paths.value(name)));
        self.paths.dir.join(cwd.unwrap_or_default())
    }

    /// Returns the environment of commands other than `run`. Variables that the manifest sets from the placeholders of
    /// a run are left out: they have no value yet.
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let mut environment = environment::for_tools(&self.manifest.pass_env);
        let of_a_run = |name| placeholders::check(name, Phase::Build, &[]).is_err();
        let own = self
            .manifest
            .env
            .iter()
            .filter(|(_, value)| !placeholders::names(value).any(of_a_run))
            .map(|(name, value)| {
                let value = placeholders::expand(value, |name| self.paths.value(name));
                (name.into(), value.into())
            });
        environment.extend(own);
        environment.insert("CARGO_TARGET_DIR".into(), self.paths.target.clone().into());
        environment
    }

    fn expanded(&self, words: &[String]) -> Vec<String> {
        words
            .iter()
            .map(|word| placeholders::expand(word, |name| self.paths.value(name)))
            .collect()
    }

    pub(super) fn require_tools(&self) -> Result<(), DaemonError> {
        if let (Some(program), None) = (&self.manifest.program, &self.paths.program) {
            return Err(DaemonError::ProgramMissing {
                name: self.name.daemon().to_owned(),
                program: program.clone(),
            });
        }
        let cargo = self
            .built_program()
            .map(|_| vec!["cargo".to_owned(), "--version".to_owned()]);
        for words in cargo.iter().chain(&self.manifest.needs) {
            let words = self.expanded(words);
            let problem = match tool::output(&words, &self.directory(), &self.environment()) {
                Ok((status, _)) if status.success() => continue,
                Ok((status, output)) => format!(
                    "`{}` {}: {}",
                    tool::shown(&words),
                    tool::ending(status),
                    output.trim()
                ),
                Err(error) if is_missing(&error) => {
                    "no executable program of this name in PATH".to_owned()
                }
                Err(error) => format!("`{}`: {error}", tool::shown(&words)),
            };
            return Err(DaemonError::ToolMissing {
                name: self.name.daemon().to_owned(),
                tool: words[0].clone(),
                problem,
            });
        }
        self.services.iter().try_for_each(Self::require_tools)
    }

    /// Runs the daemon's own tests, if its manifest names any, and returns the file with their output. Blocks until
    /// they have finished.
    ///
    /// # Errors
    /// A command can't be started or fails.
    pub fn test(&self) -> Result<PathBuf, DaemonError> {
        let log = self.run_steps(
            "testing",
            "test.log",
            &self.manifest.test,
            LAST_LINES_OF_TESTS,
            &mut |_| (),
        )?;
        Ok(log.path().to_owned())
    }

    /// Returns the program of the manifest, if cargo builds it from the sources.
    fn built_program(&self) -> Option<&str> {
        let program = self.manifest.program.as_deref();
        program.filter(|_| self.paths.root.is_checkout() && !self.paths.root.is_built())
    }

    /// Returns the commands of its build. A program is always a release build, even if the driver is a debug build: it
    /// is the subject.
    fn build_commands(&self) -> Vec<Vec<String>> {
        let cargo = self.built_program().map(|program| {
            let words = [
                "cargo",
                "build",
                "--release",
                "--locked",
                "--bin",
                program,
                "--target-dir",
                "{target}",
            ];
            words.map(str::to_owned).to_vec()
        });
        cargo
            .into_iter()
            .chain(self.manifest.build.clone())
            .collect()
    }

    /// Builds the daemon, and the one behind it.
    pub(super) fn build(&self, on_step: &mut dyn FnMut(&Step<'_>)) -> Result<(), DaemonError> {
        self.daemons()
            .try_for_each(|daemon| daemon.build_own(on_step))
    }

    /// Runs the commands of its build. The file [`BUILT`] then says that they have succeeded.
    fn build_own(&self, on_step: &mut dyn FnMut(&Step<'_>)) -> Result<(), DaemonError> {
        let commands = self.build_commands();
        if commands.is_empty() {
            return Ok(());
        }
        self.create_build_directory()?;
        // Two programs that start at once must not build into the same directory at the same time.
        let _lock = self
            .lock_build(on_step)
            .map_err(DaemonError::io(&self.name, self.logging()))?;
        self.run_steps("building", "build.log", &commands, LAST_LINES, on_step)?;
        File::create(self.paths.build.join(BUILT))
            .map(drop)
            .map_err(DaemonError::io(&self.name, self.logging()))
    }

    /// Refuses a daemon of a checkout that is built already, if its own build was forgotten.
    fn require_build(&self) -> Result<(), DaemonError> {
        if self.build_commands().is_empty() || self.paths.build.join(BUILT).is_file() {
            return Ok(());
        }
        Err(DaemonError::NotBuilt {
            name: self.name.daemon().to_owned(),
        })
    }

    /// Runs the commands of a build or of tests one after the other. Returns the log with their output.
    fn run_steps(
        &self,
        doing: &'static str,
        log: &str,
        commands: &[Vec<String>],
        shown_lines: usize,
        on_step: &mut dyn FnMut(&Step<'_>),
    ) -> Result<Log, DaemonError> {
        let (log, mut file) = self.log(log)?;
        for words in commands {
            let words = self.expanded(words);
            let command = tool::shown(&words);
            let what = format!("{doing} {}", self.name());
            let mut report = |elapsed, detail: &str| {
                on_step(&Step {
                    what: &what,
                    command: Some(&command),
                    elapsed,
                    detail,
                });
            };
            report(Duration::ZERO, "");
            let on_second = &mut |elapsed| {
                report(
                    elapsed,
                    &step::last_line(&log.last_lines(1), &self.paths.target),
                );
            };
            if let Err(status) = self.step(&words, &mut file, on_second) {
                return Err(DaemonError::StepFailed {
                    name: self.name().to_owned(),
                    doing,
                    problem: format!("`{command}` {status}"),
                    last_lines: log.last_lines(shown_lines),
                    log: log.path().to_owned(),
                });
            }
        }
        Ok(log)
    }

    /// Creates the build directory. A daemon without commands of a build needs none, and the user of an installed one
    /// may have no home.
    fn create_build_directory(&self) -> Result<(), DaemonError> {
        let build = &self.paths.build;
        std::fs::create_dir_all(build).map_err(DaemonError::io(
            &self.name,
            format!("creating the build directory {}", build.display()),
        ))
    }

    fn logging(&self) -> String {
        format!("writing a log in {}", self.paths.build.display())
    }

    fn log(&self, name: &str) -> Result<(Log, File), DaemonError> {
        self.create_build_directory()?;
        Log::create(self.paths.build.join(name))
            .map_err(DaemonError::io(&self.name, self.logging()))
    }

    /// Runs a command with its output in a log. The error says how the command ended.
    fn step(
        &self,
        words: &[String],
        file: &mut File,
        on_second: &mut dyn FnMut(Duration),
    ) -> Result<(), String> {
        let run = || {
            writeln!(file, "$ {}", tool::shown(words))?;
            let mut command = tool::command(words, &self.directory(), &self.environment());
            command.stdout(file.try_clone()?).stderr(file.try_clone()?);
            guard::output(&mut command, on_second)
        };
        match { run }().map(|output| output.status) {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(tool::ending(status)),
            Err(error) => Err(format!("could not be started: {error}")),
        }
    }

    fn lock_build(&self, on_step: &mut dyn FnMut(&Step<'_>)) -> std::io::Result<File> {
        let path = self.paths.build.join("build.lock");
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)?;
        let what = format!("waiting for another build of {}", self.name());
        let began = clock::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
            }
            let holder = step::holder(&path).map(|holder| format!("held by {holder}"));
            on_step(&Step {
                what: &what,
                command: None,
                elapsed: Duration::from_nanos(clock::now().saturating_sub(began)),
                detail: &holder.unwrap_or_default(),
            });
            std::thread::sleep(LOCK_INTERVAL);
        }
    }

    fn read_version(&self) -> Option<String> {
        if self.manifest.version.is_empty() {
            return None;
        }
        let (status, output) = tool::output(
            &self.expanded(&self.manifest.version),
            &self.directory(),
            &self.environment(),
        )
        .ok()?;
        let line = output
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        status.success().then(|| line.to_owned())
    }
}

impl Paths {
    fn new(root: &Root, name: &str, program: Option<&str>) -> std::io::Result<Self> {
        let mut root = root.clone();
        root.path = std::path::absolute(&root.path)?;
        let target = root.target()?;
        Ok(Self {
            dir: manifest::directory(&root.path, name),
            build: target.join("daemons").join(name),
            program: program.and_then(|program| root.program(program, &target)),
            root,
            target,
        })
    }

    pub(super) fn value(&self, name: &str) -> Option<String> {
        let path = match name {
            "root" => &self.root.path,
            "dir" => &self.dir,
            "target" => &self.target,
            "build" => &self.build,
            "program" => self.program.as_ref()?,
            _ => return None,
        };
        Some(path.to_string_lossy().into_owned())
    }
}

/// Returns true if a program was not found. One directory of PATH that may not be searched already yields "permission
/// denied".
fn is_missing(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied
    )
}

fn find(roots: &Roots, name: &str, serves: &str) -> Result<Manifest, DaemonError> {
    let known = manifest::names(roots);
    let serves_it = |name: &String| {
        Manifest::load(roots, name).is_ok_and(|other| other.serves.iter().any(|it| it == serves))
    };
    let folder = manifest::directory(&manifest::root_of(roots, name).path, name);
    if !known.iter().any(|known| known == name) && !folder.is_dir() {
        return Err(DaemonError::UnknownDaemon {
            name: name.to_owned(),
            known: known.into_iter().filter(serves_it).collect(),
        });
    }
    let manifest = Manifest::load(roots, name)?;
    if manifest.serves.iter().any(|protocol| protocol == serves) {
        return Ok(manifest);
    }
    Err(DaemonError::OtherProtocol {
        name: name.to_owned(),
        serves: manifest.serves,
        wanted: serves.to_owned(),
        known: known.into_iter().filter(serves_it).collect(),
    })
}
