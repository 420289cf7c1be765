//! Where a project keeps its daemons.

use std::path::{Path, PathBuf};

use super::{Manifest, ManifestError};

pub(super) const FILE_NAME: &str = "daemon.toml";

/// The directory of a daemon's manifest.
pub(crate) fn directory(root: &Path, name: &str) -> PathBuf {
    root.join("daemons").join(name)
}

/// The project's root: the nearest directory upwards from here that has daemons, else `DROVER_ROOT`, else the source
/// tree that this was built from.
///
/// # Errors
/// When none of them has a `daemons/<name>/daemon.toml`.
pub fn find_root() -> std::io::Result<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let named = std::env::var_os("DROVER_ROOT").map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map(Path::to_owned);
    here.ancestors().map(Path::to_owned).chain(named).chain(built).find(|path| !names(path).is_empty()).ok_or_else(|| {
        let problem = format!(
            "no daemons/<name>/daemon.toml in {} or above it: change into the project or set DROVER_ROOT to it",
            here.display()
        );
        std::io::Error::new(std::io::ErrorKind::NotFound, problem)
    })
}

/// The names of all daemons under a root, sorted.
#[must_use]
pub fn names(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join("daemons")) else {
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

/// All daemons under a root with their manifests, sorted by name.
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
    fn every_manifest_of_the_project_loads() {
        let Ok(root) = find_root() else { return };
        list(&root).unwrap();
    }
}
