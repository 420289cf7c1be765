//! The page of faults has an effect for every program and fault, and the test that shows it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::docs::markdown::{Page, read, root};
use crate::docs::programs;

const DAEMONS: [&str; 5] = [
    "streaming-daemon",
    "broker-daemon",
    "http-daemon",
    "presence-daemon",
    "issue-daemon",
];

const FAULTS: [&str; 16] = [
    "peer killed",
    "peer stopped",
    "peer slow",
    "peer half-open",
    "reset at every state of the protocol",
    "descriptors exhausted",
    "disk full",
    "disk slow or failing",
    "memory limit",
    "clock step",
    "SIGTERM under load",
    "SIGKILL under load",
    "two instances",
    "folder read-only or removed",
    "name whose addresses change or refuse",
    "interrupted system calls",
];

/// Least number of words of a reason why a fault cannot touch a program.
const LEAST_WORDS: usize = 4;

#[test]
fn every_program_has_an_effect_and_a_test_for_every_fault() {
    let mut rows: BTreeMap<(String, String), Vec<[String; 2]>> = BTreeMap::new();
    for row in Page::of_book("faults.md").table("# Faults") {
        let cell = |index: usize| row.get(index).cloned().unwrap_or_default();
        let key = (cell(0).trim_matches('`').to_owned(), cell(1));
        rows.entry(key).or_default().push([cell(2), cell(3)]);
    }
    let mut wrong = Vec::new();
    let daemons = DAEMONS.map(str::to_owned);
    for program in programs::drivers().into_iter().chain(daemons) {
        let of_program = FAULTS.map(|fault| rows.remove(&(program.clone(), fault.to_owned())));
        for (fault, rows) in FAULTS.iter().zip(of_program) {
            let problem = match rows.as_deref() {
                None => Some("has no row".to_owned()),
                Some([[effect, test]]) => problem(effect, test),
                Some(_) => Some("has several rows".to_owned()),
            };
            wrong.extend(problem.map(|problem| format!("{program}, {fault}: {problem}")));
        }
    }
    wrong.extend(rows.keys().map(|row| format!("{row:?} is unknown")));
    assert!(
        wrong.is_empty(),
        "docs/src/faults.md:\n{}",
        wrong.join("\n")
    );
}

/// Returns the problem of a row.
fn problem(effect: &str, test: &str) -> Option<String> {
    if let Some(reason) = test.strip_prefix("n/a: ") {
        let words = reason.split_whitespace().count();
        return (words < LEAST_WORDS).then(|| format!("{reason:?} is not a reason"));
    }
    if effect.is_empty() {
        return Some("has no effect".to_owned());
    }
    let spans: Vec<&str> = test.split('`').skip(1).step_by(2).collect();
    let pairs = spans.chunks(2).map(|pair| match pair {
        [crate_name, test] => {
            (!exists(crate_name, test)).then(|| format!("no `{crate_name}` `{test}`"))
        }
        _ => Some(format!("{test:?} is not a crate and a test")),
    });
    let missing: Vec<String> = pairs.flatten().collect();
    if spans.is_empty() {
        return Some(format!("{test:?} names no test"));
    }
    (!missing.is_empty()).then(|| missing.join(", "))
}

/// Returns true if a crate has a test at a path such as `module::name`.
fn exists(crate_name: &str, test: &str) -> bool {
    let rooms = fs::read_dir(root().join("crates")).unwrap().flatten();
    let mut folders = rooms.map(|room| room.path().join(crate_name));
    let Some(folder) = folders.find(|folder| folder.join("Cargo.toml").is_file()) else {
        return false;
    };
    let (modules, name) = test.rsplit_once("::").unwrap_or(("", test));
    let mut sources = Vec::new();
    add_sources(&folder.join("src"), &mut sources);
    add_sources(&folder.join("tests"), &mut sources);
    sources.iter().any(|source| {
        let text = read(source);
        // A module in the file itself is not in its path.
        let outside = |module: &&str| !text.contains(&format!("mod {module} {{"));
        let named = modules.split("::").filter(|part| !part.is_empty());
        let last = named.filter(outside).last();
        let fits = last.is_none_or(|module| source.file_stem().is_some_and(|stem| stem == module));
        fits && text.contains(&format!("fn {name}("))
    })
}

fn add_sources(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
}
