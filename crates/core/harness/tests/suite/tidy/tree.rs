//! The files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .expect("the crate lies in a room of crates/")
        .to_owned()
}

pub(crate) fn folders(parent: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = entries(parent)
        .into_iter()
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .map(|entry| entry.expect("a folder can be listed").path())
        .collect()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file of the tree that people wrote, with its text. Binary files are left out.
pub(crate) fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![root()];
    while let Some(folder) = open.pop() {
        for path in entries(&folder) {
            if path.is_symlink() || generated(&path) {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 20, "only {} files were found", found.len());
    found
}

/// Builds, results, downloads and lock files: nobody wrote them.
pub(crate) fn generated(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if path.is_dir() {
        let hidden = name.starts_with('.') && ![".ci", ".github"].contains(&name);
        let result = path
            .parent()
            .is_some_and(|parent| parent.ends_with("bench-results"));
        hidden || result || ["target", "node_modules", "vendor", "__pycache__"].contains(&name)
    } else {
        name.ends_with(".lock") || name.ends_with(".log")
    }
}

pub(crate) fn rust_sources() -> Vec<(PathBuf, String)> {
    sources()
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}
