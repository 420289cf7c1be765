//! The page of a run beside its result, and the files that pages link to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use measure::report::html::{self, File, Files};
use measure::result::RunResult;

use crate::store::{Folder, RESULT, SUITE, write_whole};

/// Name of the page of a run or of a suite.
pub const PAGE: &str = "report.html";
/// Name of the samples of resource use.
const RESOURCES: &str = "resources.csv";
/// Names of the flame graphs.
const FLAME_GRAPHS: [&str; 2] = ["flamegraph-daemon.svg", "flamegraph-driver.svg"];
/// Name of a suite's plan.
const PLAN: &str = "plan.toml";
/// Steps from the folder of a run to the folder of its suite: `<daemon>/<level>/<n>`.
const UP_TO_SUITE: &str = "../../../";

/// Writes the page of a run into its folder and returns its path.
///
/// # Errors
/// A histogram that cannot be decoded, or the error of the file system.
pub fn write(folder: &Folder, result: &RunResult) -> anyhow::Result<PathBuf> {
    let mut own = files(folder.path());
    own.retain(|file| file.name != PAGE);
    if folder.path().join(UP_TO_SUITE).join(SUITE).is_file() {
        own.extend(file(folder.path(), &format!("{UP_TO_SUITE}{PLAN}")));
    }
    let files = Files {
        own,
        page_path: page_path(folder.path()),
        ..Files::default()
    };
    let page = html::page(&std::slice::from_ref(result).into(), &files)
        .context("making the page of the run")?;
    let path = folder.path().join(PAGE);
    write_whole(&path, page.as_bytes())?;
    Ok(path)
}

/// Returns the end of the path of a page: by the names of at most three folders above it, a copy elsewhere is recognised.
#[must_use]
pub fn page_path(folder: &Path) -> String {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let names: Vec<_> = folder.iter().rev().take(3).collect();
    let path: PathBuf = names.into_iter().rev().collect();
    format!(
        "/{}",
        path.join(PAGE)
            .display()
            .to_string()
            .trim_start_matches('/')
    )
}

/// Lists the files of a run that exist: its page, its result, its samples, its flame graphs, and the logs that are not
/// empty.
#[must_use]
pub fn files(folder: &Path) -> Vec<File> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_log = |name: &String| {
        let path = Path::new(name);
        path.extension().is_some_and(|extension| extension == "log")
            && fs::metadata(folder.join(name)).is_ok_and(|log| log.len() > 0)
    };
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut logs: Vec<String> = names.filter(is_log).collect();
    logs.sort_unstable();
    let fixed = [PAGE, RESULT, RESOURCES].into_iter().chain(FLAME_GRAPHS);
    let fixed = fixed.map(str::to_owned);
    let names = fixed.chain(logs);
    names.filter_map(|name| file(folder, &name)).collect()
}

/// Returns a file by its path from the folder of a page, if it exists.
#[must_use]
pub fn file(folder: &Path, path: &str) -> Option<File> {
    let name = Path::new(path).file_name()?.to_string_lossy().into_owned();
    let path_of = |path: &str| percent_encoded(path);
    folder.join(path).is_file().then(|| File {
        name,
        path: path_of(path),
    })
}

/// Encodes a relative path as a URL; a `:` in its first part would make that part a scheme.
#[must_use]
pub fn percent_encoded(path: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    path.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_exist_and_say_something_are_linked() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [
            (RESULT, "{}"),
            ("daemon.log", "ready"),
            ("service-redis.log", ""),
            ("notes.txt", "mine"),
        ] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let names: Vec<String> = files(folder.path())
            .into_iter()
            .map(|file| file.name)
            .collect();
        assert_eq!(names, [RESULT, "daemon.log"]);
    }

    #[test]
    fn the_place_of_a_page_has_the_folders_that_tell_it_from_a_copy() {
        for (folder, expected) in [
            ("bench-results/day/quick/go/100/1", "/go/100/1/report.html"),
            ("/r", "/r/report.html"),
            ("a b", "/a b/report.html"),
        ] {
            assert_eq!(page_path(Path::new(folder)), expected);
        }
    }

    #[test]
    fn a_path_with_any_letter_is_a_relative_address() {
        assert_eq!(percent_encoded("a b/5:0#ü/1"), "a%20b/5%3A0%23%C3%BC/1");
    }
}
