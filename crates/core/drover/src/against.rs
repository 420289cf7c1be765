//! The other version of a daemon that `drover run --against` compares it with: a commit, another checkout, a manifest or
//! a program.

use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use load::trust;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use subject::daemon::set_pdeathsig;
use subject::manifest::{self, Manifest, Roots, built_programs};

use crate::project::Project;

/// The variables that say where daemons and programs are: they are about the version that the call is made in.
const OF_THIS_VERSION: [&str; 2] = ["DROVER_PROGRAMS", "CARGO_TARGET_DIR"];
/// The variable that names the root of the other version.
const ROOT: &str = "DROVER_ROOT";
/// Placeholders of a manifest that follow from where it lies.
const ROOT_OF_MANIFEST: &str = "{root}";
const FOLDER_OF_MANIFEST: &str = "{dir}";

/// The other version of a daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Against {
    /// The version, as the call names it.
    pub(crate) what: String,
    /// The daemon, by the name of its manifest.
    daemon: String,
    /// Name of the other version in results: `mine@main`.
    pub(crate) name: String,
    /// The root that has its manifest.
    root: PathBuf,
    /// Its commit, if it is one.
    pub(crate) commit: Option<String>,
}

impl Against {
    /// Finds or makes the root of the other version of a daemon. A commit is checked out in the user's folder for
    /// caches, where it stays, so that the next call builds only what differs. Nobody else checks one out there as long as
    /// the file is open.
    ///
    /// # Errors
    /// There is no such version, the daemon is not in it, or another call uses the folder.
    pub(crate) fn find(
        project: &Project,
        daemon: &str,
        what: &str,
    ) -> anyhow::Result<(Self, Option<File>)> {
        let path = Path::new(what);
        let own = manifest::root_of(&project.root, daemon).path.clone();
        let is_path = path.is_absolute() || what.starts_with('.');
        let commit = if is_path { None } else { commit(&own, what) };
        let mut lock = None;
        let root = match &commit {
            Some(commit) => {
                let (root, file) = checked_out(&own, commit)?;
                lock = Some(file);
                root
            }
            None if path.is_dir() => path.canonicalize()?,
            None if path.extension().is_some_and(|ending| ending == "toml") => {
                of_manifest(daemon, path)?
            }
            None if is_program(path) => of_program(project, daemon, path)?,
            None => bail!(
                "{what}: is neither a commit or branch of {}, nor a folder with daemons/, a manifest (daemon.toml) or a program: name one, such as main, HEAD~1 or ../old",
                own.display()
            ),
        };
        let file = manifest::file(&Roots::from(&root), daemon);
        ensure!(
            file.is_file(),
            "{what}: there is no daemon `{daemon}` in it: {} is missing",
            file.display()
        );
        let manifest = Manifest::load(Roots::from(&root), daemon)?;
        ensure!(
            manifest.program.is_none() || built_programs().is_none(),
            "{what}: is built in release mode, and DROVER_PROGRAMS names programs that were built otherwise: unset it"
        );
        let found = Self {
            what: what.to_owned(),
            daemon: daemon.to_owned(),
            name: format!("{daemon}@{}", label(what)),
            root,
            commit,
        };
        Ok((found, lock))
    }

    /// Returns the arguments by which a driver runs the other version under its name.
    pub(crate) fn arguments(&self) -> [String; 4] {
        ["--daemon", &self.daemon, "--name", &self.name].map(str::to_owned)
    }

    /// Returns the environment of the other version: variables with their values, and those that it must not have.
    pub(crate) fn environment(&self) -> ([(&'static str, OsString); 1], [&'static str; 2]) {
        ([(ROOT, self.root.clone().into())], OF_THIS_VERSION)
    }

    /// Builds the other version, as `drover build` does.
    ///
    /// # Errors
    /// It can't be built.
    pub(crate) fn build(&self) -> anyhow::Result<()> {
        let own = std::env::current_exe().context("finding this program")?;
        let (set, unset) = self.environment();
        let mut command = Command::new(own);
        command.args(["build", &self.daemon]).envs(set);
        for variable in unset {
            command.env_remove(variable);
        }
        // Notes are on stderr.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        set_pdeathsig(&mut command, Signal::SIGTERM);
        let status = command.status();
        let status = status.context("starting `drover build`")?;
        ensure!(
            status.success(),
            "building {} in {} failed: the lines above say why",
            self.name,
            self.root.display()
        );
        Ok(())
    }
}

/// Returns a version as a part of a folder's name: `origin/main` becomes `origin-main`.
fn label(what: &str) -> String {
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || "-_.".contains(letter) => letter,
        _ => '-',
    };
    let label: String = what.chars().map(plain).collect();
    label.trim_matches(['.', '-']).to_owned()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Runs git in a folder, and returns its output without the end of the line.
fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    // A hook that calls this program has variables of its own repository.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    let command = command.arg("-C").arg(folder).args(arguments);
    let output = command.stdin(Stdio::null()).output();
    let output = output.context("running git: install it, or name a folder")?;
    if !output.status.success() {
        let problem = String::from_utf8_lossy(&output.stderr);
        bail!("git {}: {}", arguments.join(" "), problem.trim());
    }
    let text = String::from_utf8(output.stdout).context("reading the output of git")?;
    Ok(text.trim_end().to_owned())
}

fn commit(root: &Path, what: &str) -> Option<String> {
    let revision = format!("{what}^{{commit}}");
    git(
        root,
        &[
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &revision,
        ],
    )
    .ok()
}

/// Checks a commit out, and returns the root in it, with the lock of its work tree. Each repository has one such work tree.
fn checked_out(root: &Path, commit: &str) -> anyhow::Result<(PathBuf, File)> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    let below = git(root, &["rev-parse", "--show-prefix"])?;
    let tree = own_folder(Path::new(&top))?;
    let lock = File::create(tree.with_added_extension("lock"))?;
    ensure!(
        lock.try_lock().is_ok(),
        "another call uses {}: wait until it has ended, or name another checkout (a folder)",
        tree.display()
    );
    let is_ours =
        || git(&tree, &["rev-parse", "--show-toplevel"]).is_ok_and(|top| Path::new(&top) == tree);
    let path = tree.to_string_lossy();
    if tree.exists() && is_ours() {
        git(
            &tree,
            &["checkout", "--quiet", "--force", "--detach", commit],
        )?;
    } else {
        // What is registered and was removed, as a cache may be, is replaced.
        let _ = fs::remove_dir_all(&tree);
        git(
            root,
            &[
                "worktree", "add", "--quiet", "--force", "--force", "--detach", &path, commit,
            ],
        )?;
    }
    // What the commit ignores, such as a build, stays.
    git(&tree, &["clean", "--quiet", "--force", "-d"])?;
    // Without a slash at the end.
    Ok((tree.join(below).components().collect(), lock))
}

/// Returns a folder for the other version of what lies at `path`. Other users can't write it.
fn own_folder(path: &Path) -> anyhow::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let all = manifest::cache()?.join("against");
    fs::create_dir_all(&all)?;
    let all = all.canonicalize()?;
    Ok(all.join(format!("{name}-{:016x}", hasher.finish())))
}

/// Makes a root with a copy of a manifest. Its commands run where they would run without the copy.
fn of_manifest(daemon: &str, file: &Path) -> anyhow::Result<PathBuf> {
    let file = file.canonicalize()?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let root = folder
        .ancestors()
        .nth(2)
        .filter(|_| folder.parent().is_some_and(|it| it.ends_with("daemons")));
    // The copy is this user's own, whoever wrote the file.
    trust::require(folder).and_then(|()| trust::require(&file))?;
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let manifest = toml::from_str(&text).with_context(|| file.display().to_string())?;
    write(daemon, &file, manifest, root.unwrap_or(folder), folder)
}

/// Makes a root with the daemon's own manifest, whose command runs another program.
fn of_program(project: &Project, daemon: &str, program: &Path) -> anyhow::Result<PathBuf> {
    let program = program.canonicalize()?;
    trust::require(&program)?;
    let file = manifest::file(&project.root, daemon);
    let folder = file.parent().unwrap_or(Path::new("/"));
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let mut manifest: toml::Table = toml::from_str(&text)?;
    // A command may begin with a script that runs the program.
    let named = manifest.remove("program").map(|_| "{program}".into());
    let first = || manifest.get("run")?.as_array()?.first().cloned();
    let own = named.or_else(first);
    manifest.remove("build");
    for key in ["run", "version"] {
        let words = manifest.get_mut(key).and_then(toml::Value::as_array_mut);
        for word in words.into_iter().flatten() {
            if own.as_ref() == Some(word) {
                *word = program.to_string_lossy().into_owned().into();
            }
        }
    }
    let root = manifest::root_of(&project.root, daemon).path.clone();
    write(daemon, &program, manifest, &root, folder)
}

fn write(
    daemon: &str,
    of: &Path,
    manifest: toml::Table,
    root: &Path,
    folder: &Path,
) -> anyhow::Result<PathBuf> {
    let [root, folder] = [root, folder].map(|path| path.to_string_lossy().into_owned());
    let mut manifest = toml::Value::Table(manifest);
    put(
        &mut manifest,
        &[(ROOT_OF_MANIFEST, &root), (FOLDER_OF_MANIFEST, &folder)],
    );
    if let Some(table) = manifest.as_table_mut() {
        table.entry("cwd").or_insert(folder.into());
    }
    let own = own_folder(of)?;
    let copy = own.join("daemons").join(daemon);
    fs::create_dir_all(&copy)?;
    fs::write(copy.join("daemon.toml"), toml::to_string(&manifest)?)?;
    Ok(own)
}

/// Replaces placeholders in all texts.
fn put(value: &mut toml::Value, values: &[(&str, &str)]) {
    match value {
        toml::Value::String(text) => {
            for (name, value) in values {
                *text = text.replace(name, value);
            }
        }
        toml::Value::Array(all) => all.iter_mut().for_each(|value| put(value, values)),
        toml::Value::Table(all) => all.iter_mut().for_each(|(_, value)| put(value, values)),
        _ => {}
    }
}
