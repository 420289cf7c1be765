//! `drover report`: regenerates the pages of a suite from its files.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use harness::drivers::entries;
use harness::output;
use harness::store::{self, RESULT};
use measure::report::{Selection, combine};
use measure::suite::{Suite, Unreached};

use crate::compare;
use crate::record::{self, FILE};
use crate::suite_report;

/// Reads suites, folders of results and single results as one suite, in the order given. Runs of different loads are
/// separated, with a note on stderr; the record of a single suite says that its runs belong together.
///
/// # Errors
/// A path has no result, or a named file can't be read.
pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Suite> {
    let mut whole = Suite::default();
    for path in paths {
        let part = one(path)?;
        if whole.name.is_empty() {
            (whole.name, whole.question) = (part.name, part.question);
            (whole.command, whole.planned) = (part.command, part.planned);
            (whole.control, whole.looks) = (part.control, part.looks);
        }
        whole.capacities.extend(part.capacities);
        whole.results.extend(part.results);
        whole.made_again += part.made_again;
        whole.unreached.extend(part.unreached);
    }
    if !matches!(paths, [path] if path.join(FILE).is_file()) {
        whole
            .separate_loads()
            .iter()
            .for_each(|text| output::note(text));
    }
    Ok(whole)
}

/// Returns a suite in which each daemon is compared with itself in an earlier one.
///
/// # Errors
/// Nothing in common with the earlier suite, or another load, with what differs and both values.
pub(crate) fn with_base(paths: &[PathBuf], suite: Suite, base: &PathBuf) -> anyhow::Result<Suite> {
    let earlier = compare::source(base, read(std::slice::from_ref(base))?);
    let path = paths.first().context("no folder is named")?;
    let sources = vec![earlier, compare::source(path, suite)];
    let sides = [0, 1].map(|source| Selection {
        source,
        daemon: None,
    });
    combine(sources, &sides, true).map_err(|difference| {
        anyhow!("--base: {difference}: name an earlier suite of the same plan and target (`drover list` shows the suites)")
    })
}

fn one(path: &Path) -> anyhow::Result<Suite> {
    if path.join(FILE).is_file() {
        return suite_report::read_folder(path);
    }
    let files = results(path)?;
    let (mut found, mut unreached) = (Vec::new(), Vec::new());
    for file in &files {
        match store::read_result(file) {
            Ok(result) => found.push(result),
            // A file that the user named must be readable.
            Err(error) if file == path => return Err(error),
            Err(error) => unreached.push(unreadable(file, &error)),
        }
    }
    if let (true, Some(first)) = (found.is_empty(), unreached.first()) {
        bail!("{}", first.reason);
    }
    found.sort_by(|one, other| one.started_at.cmp(&other.started_at));
    let name = path.file_stem().unwrap_or(path.as_os_str());
    Ok(Suite {
        name: name.to_string_lossy().into_owned(),
        results: found,
        unreached,
        ..Suite::default()
    })
}

/// Returns the results in a folder and all folders below it, or the one that is named.
///
/// # Errors
/// There are none.
pub(crate) fn results(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(path, &mut files);
    ensure!(
        path.exists(),
        "{}: there is no such file or folder: name a folder of results, such as one of `drover list`",
        path.display()
    );
    ensure!(
        !files.is_empty(),
        "{}: holds neither {FILE} nor a {RESULT}: name a folder of results, such as one of `drover list`",
        path.display()
    );
    Ok(files)
}

/// Returns the entry of an unreadable result, with the names of its folders: `<daemon>/<level>/<n>/result.json`.
fn unreadable(file: &Path, error: &anyhow::Error) -> Unreached {
    let above = |steps| {
        let name = file.ancestors().nth(steps).and_then(Path::file_name);
        name.unwrap_or_default().to_string_lossy().into_owned()
    };
    Unreached {
        daemon: above(3),
        level: above(2),
        reason: format!("{error:#}"),
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_owned());
        return;
    }
    // The parts of a divided run are beside its merged result.
    let merged = path.join(RESULT);
    if merged.is_file() {
        files.push(merged);
        return;
    }
    for entry in entries(path) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if entry.is_dir() && !entry.is_symlink() {
            // An INVALID attempt that was made again is no repetition; it can be named itself.
            if !record::is_set_aside(&name) {
                collect(&entry, files);
            }
        }
    }
}

/// Writes the pages beside the results that they are made from; returns their paths.
///
/// # Errors
/// The folder can't be written.
pub(crate) fn write(paths: &[PathBuf], suite: &Suite) -> anyhow::Result<[PathBuf; 3]> {
    let first = paths.first().context("no folder is named")?;
    let folder = match first.parent() {
        Some(parent) if first.is_file() => parent,
        _ => first,
    };
    suite_report::write(folder, suite)
}
