//! Finds the daemons of a project, and of what is installed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::roots::{Root, Roots};
use super::{Manifest, ManifestError};
use load::trust;

pub(super) const FILE_NAME: &str = "daemon.toml";
/// The folder of a project that holds the daemons.
pub(super) const FOLDER: &str = "daemons";

/// Returns the directory of a daemon's manifest.
pub(crate) fn directory(root: &Path, name: &str) -> PathBuf {
    root.join(FOLDER).join(name)
}

/// Reads a manifest, and refuses one that somebody else may have written.
pub(super) fn read(root: &Root, name: &str) -> Result<String, ManifestError> {
    let directory = directory(&root.path, name);
    let path = directory.join(FILE_NAME);
    let unreadable = |error| ManifestError {
        file: path.clone(),
        key: None,
        problem: format!("cannot be read: {error}"),
        remedy: "every daemon has one; daemons/README.md shows its keys".to_owned(),
    };
    let mut file = File::open(&path).map_err(unreadable)?;
    root.require_trust()
        .and_then(|()| trust::require(&directory))
        .and_then(|()| trust::require_open(&path, &file))?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Returns the root whose definition of a daemon counts: the first that has one.
#[must_use]
pub fn root_of<'a>(roots: &'a Roots, name: &str) -> &'a Root {
    let has_it = |root: &&Root| directory(&root.path, name).join(FILE_NAME).is_file();
    roots.iter().find(has_it).unwrap_or_else(|| roots.nearest())
}

/// Returns the manifest file that decides what a daemon is.
#[must_use]
pub fn file(roots: &Roots, name: &str) -> PathBuf {
    directory(&root_of(roots, name).path, name).join(FILE_NAME)
}

/// Returns true if a folder is a project's: it has a daemon.
pub(super) fn has_daemons(folder: &Path) -> bool {
    !names_in(folder).is_empty()
}

/// Returns the names of all daemons under the roots, sorted.
#[must_use]
pub fn names(roots: impl Into<Roots>) -> Vec<String> {
    let roots = roots.into();
    let all: BTreeSet<String> = roots.iter().flat_map(|root| names_in(&root.path)).collect();
    all.into_iter().collect()
}

fn names_in(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join(FOLDER)) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join(FILE_NAME).is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Returns all daemons under the roots with their manifests, sorted by name.
///
/// # Errors
/// The first manifest that cannot be used.
pub fn list(roots: impl Into<Roots>) -> Result<Vec<(String, Manifest)>, ManifestError> {
    let roots = roots.into();
    names(&roots)
        .into_iter()
        .map(|name| Manifest::load(&roots, &name).map(|manifest| (name, manifest)))
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
    fn the_nearest_definition_of_a_daemon_counts_and_further_ones_are_added() {
        let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let add = |root: &Path, name: &str, about: &str| {
            std::fs::create_dir_all(directory(root, name)).unwrap();
            let text = MINIMAL.replace("'a'", &format!("'{about}'"));
            std::fs::write(directory(root, name).join(FILE_NAME), text).unwrap();
        };
        add(near.path(), "both", "near");
        add(far.path(), "both", "far");
        add(far.path(), "other", "far");
        let roots = Roots::from_iter([near.path(), far.path()]);
        let listed = list(&roots).unwrap().into_iter();
        let listed: Vec<(String, String)> = listed.map(|(name, it)| (name, it.about)).collect();
        let expected = [("both", "near"), ("other", "far")];
        assert_eq!(
            listed,
            expected.map(|(name, about)| (name.to_owned(), about.to_owned()))
        );
        assert!(file(&roots, "other").starts_with(far.path()));
    }

    #[test]
    fn every_manifest_of_the_project_loads() {
        let Ok(root) = super::super::find_root() else {
            return;
        };
        list(&root).unwrap();
    }
}
