//! Finds the folders that hold daemons, plans and drivers: a project, and what is installed.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, Uid, User, access};

use super::project::{FOLDER, has_daemons};
use load::trust::{self, Untrusted};

/// The variable that names the project's root.
const ROOT: &str = "DROVER_ROOT";
/// The variable that names the folder of the checkout's programs, if they are built already.
const PROGRAMS: &str = "DROVER_PROGRAMS";
/// The folder of installed files, below a `share` or the user's folders for data and caches.
const OWN: &str = "drover";

/// The folders whose `daemons/`, `configs/` and `drivers/` are known. The first one that has a name decides what it
/// means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots(Vec<Root>);

/// A folder with daemons and plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// The folder.
    pub path: PathBuf,
    /// Nothing is written into it: daemons are built in the user's folder for caches.
    is_installed: bool,
}

impl Root {
    fn new(path: PathBuf, is_installed: bool) -> Self {
        Self { path, is_installed }
    }

    /// Returns true if the sources of this project are here, so that its programs are built from them.
    #[must_use]
    pub fn is_checkout(&self) -> bool {
        self.path.join("Cargo.toml").is_file()
    }

    /// Returns the folder for what is built from it.
    ///
    /// # Errors
    /// Nothing can be written there, and the user has no folder for caches.
    pub(crate) fn target(&self) -> io::Result<PathBuf> {
        if self.is_installed || access(&self.path, AccessFlags::W_OK).is_err() {
            return cache();
        }
        match set("CARGO_TARGET_DIR") {
            // Commands run elsewhere, so that a relative path must be made absolute.
            Some(target) => std::path::absolute(target),
            None => Ok(self.path.join("target")),
        }
    }

    /// Returns true if everything in this checkout is built already, because `DROVER_PROGRAMS` names the folder of its
    /// programs.
    pub(crate) fn is_built(&self) -> bool {
        self.is_checkout() && built_programs().is_some()
    }

    /// Returns the program `name` of a daemon: in a checkout the one that cargo builds or has built, elsewhere an
    /// installed one, if there is one.
    pub(crate) fn program(&self, name: &str, target: &Path) -> Option<PathBuf> {
        if !self.is_checkout() {
            return installed_program(name);
        }
        match built_programs() {
            Some(folder) => Some(folder.join(name)).filter(|program| program.is_file()),
            None => Some(target.join("release").join(name)),
        }
    }

    /// Refuses a root whose list of daemons somebody else may change.
    pub(super) fn require_trust(&self) -> Result<(), Untrusted> {
        trust::require(&self.path)?;
        let daemons = self.path.join(FOLDER);
        if daemons.is_dir() {
            trust::require(&daemons)
        } else {
            Ok(())
        }
    }
}

impl Roots {
    /// Returns the folders, the nearest first.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.0.iter()
    }

    /// Returns the nearest folder.
    #[must_use]
    pub fn nearest(&self) -> &Root {
        self.0.first().expect("there is at least one root")
    }

    /// Returns a path below one of the folders: the first that exists.
    #[must_use]
    pub fn find(&self, below: impl AsRef<Path>) -> Option<PathBuf> {
        let mut paths = self.iter().map(|root| root.path.join(below.as_ref()));
        paths.find(|path| path.exists())
    }
}

impl<'a> FromIterator<&'a Path> for Roots {
    /// Folders; only the first is written to.
    fn from_iter<T: IntoIterator<Item = &'a Path>>(paths: T) -> Self {
        let paths = paths.into_iter().enumerate();
        Self(
            paths
                .map(|(index, path)| Root::new(path.to_owned(), index > 0))
                .collect(),
        )
    }
}

impl From<&Path> for Roots {
    /// A project alone.
    fn from(path: &Path) -> Self {
        Self(vec![Root::new(path.to_owned(), false)])
    }
}

impl From<&PathBuf> for Roots {
    fn from(path: &PathBuf) -> Self {
        Self::from(path.as_path())
    }
}

impl From<&Self> for Roots {
    fn from(roots: &Self) -> Self {
        roots.clone()
    }
}

/// Returns the folders with daemons and plans.
///
/// `DROVER_ROOT` names the only one, if it is set. Otherwise they are the nearest folder upwards from here that has
/// daemons, the user's own (`$XDG_DATA_HOME/drover`), and what is installed with this program (`<prefix>/share/drover`
/// for `<prefix>/bin`). A source checkout is complete: nothing is added to it. A program that cargo built, and that is
/// not installed, uses its own sources if there is nothing else.
///
/// # Errors
/// None of them has a `daemons/<name>/daemon.toml`, or somebody else may have written one: manifests contain commands.
pub fn find_root() -> io::Result<Roots> {
    let here = std::env::current_dir().unwrap_or_default();
    let roots = roots(set(ROOT), &here, &installed(), sources())?;
    for root in roots.iter() {
        let trusted = root.require_trust();
        trusted.map_err(|error| io::Error::new(ErrorKind::PermissionDenied, error))?;
    }
    Ok(roots)
}

/// Returns the file of a plan, or one that a plan names: the path itself if it exists; otherwise the same path below a root, so that
/// `configs/http/latency.toml` names an installed plan.
#[must_use]
pub fn find_plan(path: &Path) -> PathBuf {
    let is_of_a_root = !path.exists() && path.is_relative() && path.starts_with("configs");
    let found = is_of_a_root.then(|| find_root().ok()?.find(path)).flatten();
    found.unwrap_or_else(|| path.to_owned())
}

fn roots(
    named: Option<OsString>,
    here: &Path,
    installed: &[PathBuf],
    sources: Option<PathBuf>,
) -> io::Result<Roots> {
    let not_found = |problem| io::Error::new(ErrorKind::NotFound, problem);
    if let Some(named) = named {
        let named = std::path::absolute(named)?;
        if has_daemons(&named) {
            return Ok(Roots(vec![Root::new(named, false)]));
        }
        return Err(not_found(format!(
            "no daemons/<name>/daemon.toml in {}, which {ROOT} names: set it to a project, or unset it",
            named.display()
        )));
    }
    let around = here.ancestors().find(|path| has_daemons(path));
    let around =
        around.map(|path| Root::new(path.to_owned(), installed.iter().any(|it| it == path)));
    if let Some(checkout) = around.clone().filter(Root::is_checkout) {
        return Ok(Roots(vec![checkout]));
    }
    let mut found: Vec<Root> = around.into_iter().collect();
    for path in installed.iter().filter(|path| has_daemons(path)) {
        if found.iter().all(|root| root.path != *path) {
            found.push(Root::new(path.clone(), true));
        }
    }
    if found.is_empty() {
        let sources = sources.filter(|path| has_daemons(path));
        found.extend(sources.map(|path| Root::new(path, false)));
    }
    if found.is_empty() {
        let installed: Vec<String> = installed
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        return Err(not_found(format!(
            "no daemons/<name>/daemon.toml in {} or above it, nor in {}: install the daemons and plans beside this program ({}), change into a project, or set {ROOT} to it",
            here.display(),
            installed.join(" or "),
            install_command()
        )));
    }
    Ok(Roots(found))
}

/// Returns the folders of installed files, whether they exist or not: the user's own, and this program's.
fn installed() -> Vec<PathBuf> {
    let of_user = set("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(home()?.join(".local/share")));
    let of_program = prefix().map(|prefix| prefix.join("share"));
    let shares = of_user.into_iter().chain(of_program);
    let mut folders: Vec<PathBuf> = shares.map(|share| share.join(OWN)).collect();
    folders.dedup();
    folders
}

/// Returns an installed program: beside this one, in the `libexec` of the same prefix, or in PATH.
#[must_use]
pub fn installed_program(name: &str) -> Option<PathBuf> {
    let libexec = prefix().map(|prefix| prefix.join("libexec").join(OWN));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    folder_of_program()
        .into_iter()
        .chain(libexec)
        .chain(std::env::split_paths(&paths).filter(|path| path.is_absolute()))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok())
}

/// Returns the folder of the checkout's programs that `DROVER_PROGRAMS` names: with it, nothing is built.
#[must_use]
pub fn built_programs() -> Option<PathBuf> {
    // Commands run elsewhere, so that a relative path must be made absolute.
    std::path::absolute(set(PROGRAMS)?).ok()
}

/// Returns the command that installs all programs, daemons and plans beside this program. It is complete if the sources
/// that the program was built from are still there, as after `cargo install --path`.
#[must_use]
pub fn install_command() -> String {
    let script = workspace().map(|sources| sources.join("scripts/install"));
    let script = script.filter(|path| path.is_file());
    let prefix = folder_of_program().filter(|folder| folder.ends_with("bin"));
    match (script, prefix.as_deref().and_then(Path::parent)) {
        (Some(script), Some(prefix)) => {
            format!("`{} --prefix {}`", script.display(), prefix.display())
        }
        _ => "`scripts/install` in the sources".to_owned(),
    }
}

/// Returns the folder of this program's file.
fn folder_of_program() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// Returns the folder above this program's: `/usr` for `/usr/bin/drover`.
fn prefix() -> Option<PathBuf> {
    Some(folder_of_program()?.parent()?.to_owned())
}

/// Returns the source tree that this program was built from, if it is still where cargo has built it.
fn sources() -> Option<PathBuf> {
    let folder = folder_of_program()?;
    // Test programs lie in `deps`, examples in `examples`.
    let is_built = folder
        .ancestors()
        .take(2)
        .any(|path| path.join(".cargo-lock").is_file());
    workspace().filter(|_| is_built).map(Path::to_owned)
}

/// Returns the folder where the sources of this program were when it was built.
fn workspace() -> Option<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3)
}

/// Returns the user's folder for what is built from installed sources.
pub fn cache() -> io::Result<PathBuf> {
    let folder = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(home()?.join(".cache")));
    folder.map(|folder| folder.join(OWN)).ok_or_else(|| {
        io::Error::new(
            ErrorKind::NotFound,
            "there is no folder to build in: set XDG_CACHE_HOME or HOME",
        )
    })
}

/// Returns the user's folder: `HOME`, or the folder of the user's entry if a service or `env -i` calls without it.
fn home() -> Option<PathBuf> {
    let known = || Some(User::from_uid(Uid::current()).ok()??.dir);
    set("HOME").map(PathBuf::from).or_else(known)
}

fn set(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness_testing::assert_contains;

    fn project() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let daemon = root.path().join("daemons/d");
        std::fs::create_dir_all(&daemon).unwrap();
        std::fs::write(daemon.join("daemon.toml"), "").unwrap();
        root
    }

    fn paths(found: io::Result<Roots>) -> Vec<PathBuf> {
        let found = found.unwrap();
        found.iter().map(|root| root.path.clone()).collect()
    }

    #[test]
    fn the_root_that_is_named_is_the_only_one_and_is_never_passed_over() {
        let (named, around) = (project(), project());
        let below = around.path().join("a/b");
        let found = |named: &Path| roots(Some(named.into()), &below, &[around.path().into()], None);
        assert_eq!(paths(found(named.path())), [named.path()]);
        let error = found(&below).unwrap_err().to_string();
        assert!(error.contains("a/b, which DROVER_ROOT names"), "{error}");
    }

    #[test]
    fn installed_daemons_are_added_to_an_own_folder_but_not_to_a_checkout() {
        let (around, user, share) = (project(), project(), project());
        let installed = [user.path().to_owned(), share.path().to_owned()];
        let below = around.path().join("a/b");
        let found = || roots(None, &below, &installed, None);
        assert_eq!(paths(found()), [around.path(), user.path(), share.path()]);
        let written: Vec<bool> = found()
            .unwrap()
            .iter()
            .map(|root| !root.is_installed)
            .collect();
        assert_eq!(written, [true, false, false]);
        // Somebody may also stand in the installed folder itself.
        let inside = roots(None, share.path(), &installed, None);
        assert_eq!(paths(inside), [share.path(), user.path()]);
        std::fs::write(around.path().join("Cargo.toml"), "").unwrap();
        assert_eq!(paths(found()), [around.path()]);
    }

    #[test]
    fn sources_are_the_last_resort_and_without_any_the_error_names_each_place() {
        let (share, sources, empty) = (project(), project(), tempfile::tempdir().unwrap());
        let found = |installed: &Path, sources: Option<&Path>| {
            roots(
                None,
                empty.path(),
                &[installed.to_owned()],
                sources.map(Path::to_owned),
            )
        };
        let both = paths(found(share.path(), Some(sources.path())));
        assert_eq!(both, [share.path()]);
        let last = paths(found(empty.path(), Some(sources.path())));
        assert_eq!(last, [sources.path()]);
        let nowhere = empty.path().join("share/drover");
        let error = found(&nowhere, None).unwrap_err().to_string();
        assert_contains(&error, &["share/drover", "DROVER_ROOT", "scripts/install"]);
    }
}
