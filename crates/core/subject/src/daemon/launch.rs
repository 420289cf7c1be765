//! Starts a prepared daemon with fresh ports, a fresh socket path and a fresh directory, and waits until it is ready.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::allotment::{Allotment, ControlGroup, Limits};
use super::group::Group;
use super::guard::Guard;
use super::log::Log;
use super::mark::Mark;
use super::prepare::{LAST_LINES, Prepared};
use super::process_name::ProcessName;
use super::ready::{self, Failure};
use super::scratch;
use super::{Daemon, DaemonError, Endpoint, environment, tool};
use crate::cpus;
use crate::host::ControlGroups;
use crate::manifest::{BEHIND, Probe, placeholders};
use crate::prometheus;
use load::net::ports::ReservedPort;
use measure::isolation::CpuList;
use nix::sched::CpuSet;

/// Name of a daemon's socket in its scratch directory.
const SOCKET_NAME: &str = "daemon.sock";

/// Time limit for the command that prints a daemon's counters.
const COUNTERS_LIMIT: Duration = Duration::from_secs(5);

/// Variations of a start. The defaults suit a measurement.
#[derive(Debug, Clone)]
pub struct Options {
    /// Time to get ready; overrides the manifest's.
    pub ready_timeout: Option<Duration>,
    /// Length of the log above which all but its end is dropped, bytes.
    pub log_limit: u64,
    /// True if the scratch directory, with the log, is kept.
    pub keep_scratch: bool,
    /// The address that the daemon listens on, if its manifest says how. Services listen on 127.0.0.1.
    pub listen: IpAddr,
    /// The CPUs of the daemon and its services; if absent, it inherits the CPUs of the calling thread.
    pub cpus: Option<CpuList>,
    /// The limits of the daemon, each instance with its own. Services have none.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ready_timeout: None,
            log_limit: 64 << 20,
            keep_scratch: false,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            cpus: None,
            limits: Limits::default(),
        }
    }
}

/// A command that prints a daemon's counters.
#[derive(Debug, Clone)]
pub struct CountersCommand {
    words: Vec<String>,
    directory: PathBuf,
    environment: BTreeMap<OsString, OsString>,
}

impl CountersCommand {
    /// Runs the command and returns one number for each metric. Dropping the future kills the command.
    ///
    /// # Errors
    /// The command can't be started, fails, or does not end within 5 s.
    pub async fn read(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let command = tool::command(&self.words, &self.directory, &self.environment);
        let mut command = tokio::process::Command::from(command);
        let output = command.kill_on_drop(true).output();
        let output = tokio::time::timeout(COUNTERS_LIMIT, output).await??;
        anyhow::ensure!(output.status.success(), tool::ending(output.status));
        Ok(prometheus::parse(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// The values that belong to one run.
#[derive(Debug)]
struct Run<'a> {
    prepared: &'a Prepared,
    scratch: &'a Path,
    listen: IpAddr,
    ports: Vec<ReservedPort>,
    services: &'a [Daemon],
}

/// The launch of one daemon, with every placeholder filled in: a second start equals the first.
#[derive(Debug)]
pub(super) struct LaunchSpec {
    name: ProcessName,
    words: Vec<String>,
    /// The command that prints its counters; empty if there is none.
    counters: Vec<String>,
    directory: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    pub(super) probe: Probe,
    pub(super) limit: Duration,
    /// The directory that the guard removes if this program dies.
    removes: Option<PathBuf>,
    /// The CPUs of every start: by then, this program may have moved to others.
    cpus: CpuSet,
    control_group: Option<ControlGroup>,
}

impl LaunchSpec {
    /// Starts the process, with its output in `log`.
    pub(super) fn start(&self, log: File) -> Result<(Group, Option<Guard>), DaemonError> {
        let io = |doing: &'static str| DaemonError::io(&self.name, doing);
        let mut command = tool::command(&self.words, &self.directory, &self.environment);
        command
            .stdout(log.try_clone().map_err(io("sharing its log"))?)
            .stderr(log);
        let mark = Mark::new();
        let allotment = Allotment::new(self.cpus, self.control_group.as_ref());
        // Without a shell there is no guard; the kernel still kills the first process.
        let removes = self.removes.as_deref().unwrap_or(Path::new(""));
        let mut guard = Guard::for_daemon(mark, removes).ok();
        let group = Group::start(&mut command, mark, allotment).map_err(|problem| {
            DaemonError::NotStarted {
                name: self.name.clone(),
                command: self.shown(),
                remedy: self.remedy(&problem),
                problem,
            }
        })?;
        if let Some(guard) = &mut guard {
            guard.watch(group.id());
        }
        Ok((group, guard))
    }

    /// Returns the command that prints the daemon's counters, if it has one.
    pub(super) fn counters(&self) -> Option<CountersCommand> {
        (!self.counters.is_empty()).then(|| CountersCommand {
            words: self.counters.clone(),
            directory: self.directory.clone(),
            environment: self.environment.clone(),
        })
    }

    /// Returns the daemon's limit of memory, bytes, if it has one, and the number of processes that it has killed.
    pub(super) fn memory_kills(&self) -> Option<(u64, u64)> {
        self.control_group.as_ref()?.memory_kills()
    }

    fn shown(&self) -> String {
        tool::shown(&self.words)
    }

    /// Says what to do about a command that the system can't start.
    fn remedy(&self, problem: &io::Error) -> String {
        let program = &self.words[0];
        match problem.kind() {
            io::ErrorKind::NotFound if !self.directory.is_dir() => format!(
                "there is no folder {}: correct `cwd` in its daemon.toml",
                self.directory.display()
            ),
            io::ErrorKind::NotFound if program.contains('/') => {
                format!("correct the path `{program}` in `run`, or the first line of that script")
            }
            io::ErrorKind::NotFound => {
                format!("correct `{program}` in `run`, or install a program of this name")
            }
            io::ErrorKind::PermissionDenied => format!("make it executable: chmod +x {program}"),
            _ => "correct `run` in its daemon.toml".to_owned(),
        }
    }
}

impl Prepared {
    /// Starts the daemon with services of its own, and returns once it is ready. `extra_env` is applied after the
    /// manifest's environment and overrides it.
    ///
    /// Must be called within a Tokio runtime, on a thread that lives for the whole run (see [`Daemon`]). Dropping the
    /// future kills what was started. A Unix or TCP probe leaves one connection without a request behind, which some
    /// daemons count.
    ///
    /// # Errors
    /// The daemon or a service cannot be started, ends, or is not ready in time; it is then killed.
    pub async fn start(
        &self,
        extra_env: &[(String, String)],
        options: &Options,
    ) -> Result<Daemon, DaemonError> {
        let services = self.start_services(options).await?;
        let mut daemon = self.start_with(&services, extra_env, options).await?;
        daemon.services = services;
        Ok(daemon)
    }

    /// Starts several instances as [`Self::start`] starts one, with services that they share. The services belong to
    /// the last instance, so it must be stopped last.
    ///
    /// # Errors
    /// As [`Self::start`]; what has started is then killed.
    pub async fn start_several(
        &self,
        count: usize,
        extra_env: &[(String, String)],
        options: &Options,
    ) -> Result<Vec<Daemon>, DaemonError> {
        let services = self.start_services(options).await?;
        let mut daemons = Vec::new();
        for _ in 0..count {
            daemons.push(self.start_with(&services, extra_env, options).await?);
        }
        if let Some(last) = daemons.last_mut() {
            last.services = services;
        }
        Ok(daemons)
    }

    /// Starts the services that all instances of the daemon share, one after the other, and returns once they are
    /// ready.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_services(&self, options: &Options) -> Result<Vec<Daemon>, DaemonError> {
        let options = &Options {
            listen: Options::default().listen,
            limits: Limits::default(),
            ..options.clone()
        };
        let mut started = Vec::new();
        for service in &self.services {
            started.push(service.start_with(&[], &[], options).await?);
        }
        Ok(started)
    }

    /// Starts the daemon as [`Self::start`] does, with services that it shares with other instances. They must live
    /// as long as the daemon.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with(
        &self,
        services: &[Daemon],
        extra_env: &[(String, String)],
        options: &Options,
    ) -> Result<Daemon, DaemonError> {
        let io = |doing: &'static str| DaemonError::io(&self.name, doing);
        let doing = format!(
            "making its scratch directory in {} (set TMPDIR to a folder that exists)",
            std::env::temp_dir().display()
        );
        let mut scratch = scratch::create().map_err(DaemonError::io(&self.name, doing))?;
        scratch.disable_cleanup(options.keep_scratch);
        let ports = ReservedPort::several(options.listen, self.manifest.ports())
            .map_err(io("finding a free port"))?;
        let run = Run {
            prepared: self,
            scratch: scratch.path(),
            listen: options.listen,
            ports,
            services,
        };
        let spec = run.spec(extra_env, options)?;
        let endpoint = run.endpoint();
        let ports = run.ports;

        let (log, file) =
            Log::create(scratch.path().join("daemon.log")).map_err(io("making its log"))?;
        if ready::answers(&spec.probe, &log).await {
            return Err(DaemonError::Occupied {
                name: self.name.clone(),
                probe: ready::ProbeText(&spec.probe).to_string(),
            });
        }
        let (group, guard) = spec.start(file)?;
        let daemon = Daemon {
            name: self.name.clone(),
            version: self.version.clone(),
            endpoint,
            ports,
            stop: self.manifest.stop,
            guard,
            group,
            trimmer: tokio::spawn(log.clone().keep_below(options.log_limit)),
            log,
            logged_before: 0,
            killed_before: 0,
            spec,
            scratch,
            services: Vec::new(),
        };
        let LaunchSpec { probe, limit, .. } = &daemon.spec;
        match ready::wait(&daemon.group, probe, &daemon.log, *limit).await {
            Ok(()) => Ok(daemon),
            Err(failure) => Err(self.explain(failure, &daemon, *limit, daemon.spec.shown())),
        }
    }

    fn explain(
        &self,
        failure: Failure,
        daemon: &Daemon,
        limit: Duration,
        command: String,
    ) -> DaemonError {
        let (name, last_lines) = (self.name.clone(), daemon.last_lines(LAST_LINES));
        match failure {
            Failure::Exited(status) => DaemonError::ExitedEarly {
                name,
                status: daemon.with_reason(status),
                last_lines,
                command,
            },
            Failure::Late(waited_for) => DaemonError::NotReady {
                name,
                limit,
                waited_for,
                last_lines,
                command,
            },
        }
    }
}

/// Returns the value of a placeholder that belongs to one start.
fn value_of_start(name: &str, scratch: &Path, ports: &[ReservedPort]) -> Option<String> {
    let path = |path: &Path| Some(path.to_string_lossy().into_owned());
    match name {
        "socket" => path(&scratch.join(SOCKET_NAME)),
        "scratch" => path(scratch),
        name => ports
            .get(placeholders::port_index(name)?)
            .map(|reserved| reserved.port().to_string()),
    }
}

/// Returns an IP address as it stands before a port: IPv6 in brackets.
fn in_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

impl Daemon {
    /// Returns the value of a placeholder of a service, such as `port`, for the daemons that use it.
    fn value(&self, name: &str) -> Option<String> {
        value_of_start(name, self.scratch.path(), &self.ports)
    }
}

impl Run<'_> {
    fn spec(
        &self,
        extra_env: &[(String, String)],
        options: &Options,
    ) -> Result<LaunchSpec, DaemonError> {
        let manifest = &self.prepared.manifest;
        let io = |doing: &'static str| DaemonError::io(&self.prepared.name, doing);
        let cpus = match &options.cpus {
            Some(list) => cpus::to_set(list),
            None => cpus::to_set(&cpus::read(0).map_err(io("reading the CPUs of this program"))?),
        };
        let control_group =
            ControlGroup::create(options.limits, &ControlGroups::from_this_process()).map_err(
                |problem| io("making its control group")(std::io::Error::other(problem)),
            )?;
        Ok(LaunchSpec {
            name: self.prepared.name.clone(),
            words: self.expand_all(&manifest.run),
            counters: self.expand_all(&manifest.counters),
            directory: self.prepared.directory(),
            environment: self.environment(extra_env),
            probe: self.probe(),
            limit: options.ready_timeout.unwrap_or(manifest.ready.timeout),
            removes: (!options.keep_scratch).then(|| self.scratch.to_owned()),
            cpus,
            control_group,
        })
    }

    fn expand(&self, text: &str) -> String {
        placeholders::expand(text, |name| match name.split_once('.') {
            Some((service, of_service)) => {
                let behind = self.prepared.manifest.behind.as_deref();
                let service = behind.filter(|_| service == BEHIND).unwrap_or(service);
                let mut services = self.services.iter();
                let service = services.find(|daemon| daemon.name() == service)?;
                service.value(of_service)
            }
            None if name == "listen" => Some(in_address(self.listen)),
            None => value_of_start(name, self.scratch, &self.ports)
                .or_else(|| self.prepared.paths.value(name)),
        })
    }

    fn expand_all(&self, words: &[String]) -> Vec<String> {
        words.iter().map(|word| self.expand(word)).collect()
    }

    fn probe(&self) -> Probe {
        match &self.prepared.manifest.ready.probe {
            Probe::Unix(path) => Probe::Unix(self.expand(path)),
            Probe::Tcp(address) => Probe::Tcp(self.expand(address)),
            Probe::Http(url) => Probe::Http(self.expand(url)),
            Probe::Line(text) => Probe::Line(self.expand(text)),
        }
    }

    fn endpoint(&self) -> Endpoint {
        let manifest = &self.prepared.manifest;
        Endpoint {
            socket: manifest
                .has_socket()
                .then(|| self.scratch.join(SOCKET_NAME)),
            port: self.ports.first().map(ReservedPort::port),
            url: manifest.url.as_ref().map(|url| self.expand(url)),
            urls: manifest
                .urls
                .iter()
                .map(|(name, url)| (name.clone(), self.expand(url)))
                .collect(),
            metrics: manifest.metrics.as_ref().map(|url| self.expand(url)),
        }
    }

    fn environment(&self, extra: &[(String, String)]) -> BTreeMap<OsString, OsString> {
        let manifest = &self.prepared.manifest;
        let mut environment = environment::for_run(&manifest.pass_env);
        let own = manifest
            .env
            .iter()
            .map(|(name, value)| (name.into(), self.expand(value).into()));
        environment.extend(own);
        let extra = extra
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        environment.extend(extra);
        environment
    }
}
