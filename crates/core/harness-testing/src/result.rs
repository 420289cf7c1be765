//! A result file, as a test reads it: JSON, whatever this version of the harness makes of it.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use measure::result::RunResult;
use serde_json::Value;
use test_kit::wait_until;

/// The content of a `result.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultFile(pub Value);

impl Deref for ResultFile {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl fmt::Display for ResultFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl ResultFile {
    /// Returns the number at a JSON pointer, 0 if there is none.
    #[must_use]
    pub fn number(&self, pointer: &str) -> u64 {
        self.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Returns a counter, 0 if nothing counted.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self["counts"][name].as_u64().unwrap_or(0)
    }

    /// Returns the number of errors of a kind, 0 if there is none.
    #[must_use]
    pub fn error(&self, kind: &str) -> u64 {
        self["errors"][kind].as_u64().unwrap_or(0)
    }

    /// Returns the kinds of errors.
    #[must_use]
    pub fn error_kinds(&self) -> Vec<&str> {
        let errors = self["errors"].as_object().unwrap();
        errors.keys().map(String::as_str).collect()
    }

    /// Returns a number of operations: `started`, `ok`, `failed`, `unfinished`, `missed`, `peak_active`.
    #[must_use]
    pub fn operations(&self, name: &str) -> u64 {
        self["operations"][name].as_u64().unwrap()
    }

    /// Returns a series.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&Value> {
        let mut series = self["series"].as_array().unwrap().iter();
        series.find(|series| series["name"] == name)
    }

    /// Returns the number of values in a series, 0 if there is no such series.
    #[must_use]
    pub fn values(&self, name: &str) -> u64 {
        self.series(name)
            .map_or(0, |series| series["count"].as_u64().unwrap())
    }

    /// Returns a figure of a series, in ms: `p50_ns`, `max_ns`.
    #[must_use]
    pub fn ms(&self, name: &str, figure: &str) -> f64 {
        let series = self.series(name).unwrap_or_else(|| panic!("no {name}"));
        series[figure].as_f64().unwrap() / 1e6
    }

    /// Returns the warning of a kind.
    #[must_use]
    pub fn warning(&self, kind: &str) -> Option<&Value> {
        let mut warnings = self["warnings"].as_array().unwrap().iter();
        warnings.find(|warning| warning["kind"] == kind)
    }

    /// Returns the kinds of warnings above a note.
    #[must_use]
    pub fn warned(&self) -> Vec<&str> {
        let warnings = self["warnings"].as_array().unwrap().iter();
        let above = warnings.filter(|warning| warning["severity"] != "note");
        above
            .map(|warning| warning["kind"].as_str().unwrap())
            .collect()
    }

    /// Checks that every started operation succeeded, failed or is unfinished.
    #[track_caller]
    pub fn adds_up(&self) {
        let ended = ["ok", "failed", "unfinished"].map(|name| self.operations(name));
        let ended: u64 = ended.iter().sum();
        assert_eq!(self.operations("started"), ended, "{}", self["operations"]);
    }

    /// Checks these counters.
    #[track_caller]
    pub fn counts(&self, expected: &[(&str, u64)]) {
        for (name, number) in expected {
            let counts = &self["counts"];
            assert_eq!(self.count(name), *number, "{name} in {counts}");
        }
    }
}

/// Returns the only file of a name below a folder.
#[must_use]
pub fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            find(&path, name)
        } else {
            (path.file_name()? == name).then_some(path)
        }
    })
}

/// Returns the seconds of the run in progress whose results will be below a folder, as it leaves them for programs that
/// watch it.
#[must_use]
pub fn live_seconds(folder: &Path) -> Vec<Value> {
    // The file is removed at the end of the run.
    let text = find(folder, "live.jsonl").and_then(|file| std::fs::read_to_string(file).ok());
    // The last line may be incomplete.
    let lines = text.iter().flat_map(|text| text.lines());
    lines
        .map_while(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Waits until the run in progress whose results will be below a folder has reported this many operations of a kind:
/// `ok`, `failed`.
#[track_caller]
pub fn wait_for(folder: &Path, kind: &str, count: u64) {
    wait_until(&format!("operations that are {kind}"), || {
        let seconds = live_seconds(folder);
        let last = seconds.last().and_then(|second| second[kind].as_u64());
        last >= Some(count)
    });
}

/// Reads a JSON file.
#[must_use]
pub fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Reads a result.
///
/// # Panics
/// It would be refused: a driver wrote figures that contradict each other.
#[must_use]
#[track_caller]
pub fn intact(path: &Path) -> ResultFile {
    let stored = json(path);
    let result: RunResult = serde_json::from_value(stored.clone()).unwrap();
    if let Err(damaged) = result.check_intact() {
        panic!("{}: {damaged}\n{:?}", path.display(), result.warnings);
    }
    ResultFile(stored)
}

/// Reads the only result below a folder.
///
/// # Panics
/// There is none.
#[must_use]
#[track_caller]
pub fn read(folder: &Path) -> ResultFile {
    let path = find(folder, "result.json").expect("the run wrote a result");
    intact(&path)
}
