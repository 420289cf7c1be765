//! Finds the daemons of a project.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::{Manifest, ManifestError};
use load::trust::{self, Untrusted};

pub(super) const FILE_NAME: &str = "daemon.toml";
/// The folder of a project that holds the daemons.
const FOLDER: &str = "daemons";

/// Returns the directory of a daemon's manifest.
pub(crate) fn directory(root: &Path, name: &str) -> PathBuf {
    root.join(FOLDER).join(name)
}

/// The variable that names the project's root.
const ROOT: &str = "DROVER_ROOT";

/// Returns the project's root: `DROVER_ROOT` if it is set, otherwise the nearest directory upwards from here that has
/// daemons, otherwise the source tree that this program was built from.
///
/// # Errors
/// None of them has a `daemons/<name>/daemon.toml`, or somebody else may have written it: its manifests contain
/// commands.
pub fn find_root() -> std::io::Result<PathBuf> {
    let root = root_of(
        std::env::var_os(ROOT).filter(|named| !named.is_empty()),
        &std::env::current_dir().unwrap_or_default(),
    )?;
    trusted(&root).map_err(|error| std::io::Error::new(ErrorKind::PermissionDenied, error))?;
    Ok(root)
}

fn root_of(named: Option<OsString>, here: &Path) -> std::io::Result<PathBuf> {
    if let Some(named) = named {
        let named = std::path::absolute(named)?;
        if !names(&named).is_empty() {
            return Ok(named);
        }
        let problem = format!(
            "no daemons/<name>/daemon.toml in {}, which {ROOT} names: set it to a project, or unset it",
            named.display()
        );
        return Err(std::io::Error::new(ErrorKind::NotFound, problem));
    }
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let mut folders = here.ancestors().chain(built);
    let found = folders.find(|path| !names(path).is_empty());
    found.map(Path::to_owned).ok_or_else(|| {
        let problem = format!(
            "no daemons/<name>/daemon.toml in {} or above it: change into the project or set {ROOT} to it",
            here.display()
        );
        std::io::Error::new(ErrorKind::NotFound, problem)
    })
}

/// Refuses a root whose list of daemons somebody else may change.
fn trusted(root: &Path) -> Result<(), Untrusted> {
    trust::require(root)?;
    trust::require(&root.join(FOLDER))
}

/// Reads a manifest, and refuses one that somebody else may have written.
pub(super) fn read(root: &Path, name: &str) -> Result<String, ManifestError> {
    let directory = directory(root, name);
    let path = directory.join(FILE_NAME);
    let unreadable = |error| ManifestError {
        file: path.clone(),
        key: None,
        problem: format!("cannot be read: {error}"),
        remedy: "every daemon has one; daemons/README.md shows its keys".to_owned(),
    };
    let mut file = File::open(&path).map_err(unreadable)?;
    trusted(root)
        .and_then(|()| trust::require(&directory))
        .and_then(|()| trust::require_open(&path, &file))?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Returns the names of all daemons under a root, sorted.
#[must_use]
pub fn names(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join(FOLDER)) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join(FILE_NAME).is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Returns all daemons under a root with their manifests, sorted by name.
///
/// # Errors
/// The first manifest that cannot be used.
pub fn list(root: &Path) -> Result<Vec<(String, Manifest)>, ManifestError> {
    names(root)
        .into_iter()
        .map(|name| Manifest::load(root, &name).map(|manifest| (name, manifest)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str =
        "about = 'a'\nserves = ['fdpass']\nrun = ['d']\nready = { line = 'up' }\n";

    #[test]
    fn daemons_are_listed_by_name_and_one_bad_manifest_is_named() {
        let root = tempfile::tempdir().unwrap();
        let add = |name: &str, text: &str| {
            std::fs::create_dir_all(directory(root.path(), name)).unwrap();
            std::fs::write(directory(root.path(), name).join(FILE_NAME), text).unwrap();
        };
        assert!(list(root.path()).unwrap().is_empty());
        add("b", MINIMAL);
        add("a", MINIMAL);
        std::fs::create_dir(directory(root.path(), "no-manifest")).unwrap();
        let listed: Vec<String> = list(root.path())
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(listed, ["a", "b"]);
        add("c", "about = 1");
        assert!(
            list(root.path())
                .unwrap_err()
                .to_string()
                .contains("daemons/c/daemon.toml")
        );
    }

    #[test]
    fn the_root_that_is_named_goes_before_the_one_around_and_is_never_passed_over() {
        let project = || {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(directory(root.path(), "d")).unwrap();
            std::fs::write(directory(root.path(), "d").join(FILE_NAME), MINIMAL).unwrap();
            root
        };
        let (named, around) = (project(), project());
        let below = around.path().join("a/b");
        let root = |named: Option<&Path>| root_of(named.map(Into::into), &below);
        assert_eq!(root(Some(named.path())).unwrap(), named.path());
        assert_eq!(root(None).unwrap(), around.path());
        let error = root(Some(&below)).unwrap_err().to_string();
        assert!(error.contains("a/b, which DROVER_ROOT names"), "{error}");
    }

    #[test]
    fn every_manifest_of_the_project_loads() {
        let Ok(root) = find_root() else { return };
        list(&root).unwrap();
    }
}
