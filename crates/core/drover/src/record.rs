//! Stores `suite.json`: the definition of a suite, and its progress so far.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use harness::store;
use measure::suite::Planned;
use measure::warning::Verdict;
use serde::{Deserialize, Serialize};

use crate::exit;
use crate::resolve::SuiteSpec;

/// The file's name.
pub(crate) const FILE: &str = store::SUITE;
/// Part of the name of the folder of an INVALID attempt that was made again, between the run and the attempt.
const SET_ASIDE: &str = ".invalid-";

/// Returns true for the name of a folder of an INVALID attempt that was made again: `1.invalid-2`.
pub(crate) fn is_set_aside(name: &str) -> bool {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    name.split_once(SET_ASIDE)
        .is_some_and(|(run, attempt)| is_number(run) && is_number(attempt))
}

/// A suite and its progress. Results are stored beside it in their own files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The definition of the suite.
    pub(crate) suite: SuiteSpec,
    /// The file of its plan, as the call named it; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<String>,
    /// The question that it answers.
    pub(crate) question: Option<String>,
    /// The size of the plan, of which the suite may be a part; absent for a search and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) planned: Option<Planned>,
    /// Time of the first start, RFC 3339 in UTC.
    pub(crate) started_at: String,
    /// Time at which its last run ended; absent while runs are left, or were not reached.
    pub(crate) ended_at: Option<String>,
    /// The commit of the sources, as of the last start.
    pub(crate) git_commit: Option<String>,
    /// The run in progress; it may be stale if its program was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) running: Option<Running>,
    /// The runs that have ended, in their order.
    pub(crate) runs: Vec<Ended>,
    /// The runs that could not be measured.
    pub(crate) unreached: Vec<Unreached>,
    /// The INVALID results that were set aside because their runs were made again, in the order in which they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) set_aside: Vec<SetAside>,
    /// Repetitions that the suite had when it was compared, before it got further ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) looks: Vec<u32>,
    /// The results of a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) found: Vec<CapacityResult>,
}

/// A run: one daemon at one load, for the n-th time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RunId {
    pub(crate) daemon: String,
    pub(crate) level: String,
    /// Counted from 1.
    pub(crate) run: u32,
}

impl RunId {
    /// Returns the folder of the run's result below the suite's.
    pub(crate) fn folder(&self, suite: &Path) -> PathBuf {
        suite
            .join(&self.daemon)
            .join(&self.level)
            .join(self.run.to_string())
    }

    /// Returns the folder of an INVALID attempt that was made again: `<daemon>/<level>/<n>.invalid-<attempt>`.
    pub(crate) fn set_aside_folder(&self, suite: &Path, attempt: u32) -> PathBuf {
        let folder = self.folder(suite);
        folder.with_file_name(format!("{}{SET_ASIDE}{attempt}", self.run))
    }
}

/// A run in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Running {
    #[serde(flatten)]
    pub(crate) id: RunId,
    /// Its number in the suite.
    pub(crate) number: usize,
    /// The attempt, counted from 1.
    pub(crate) attempt: u32,
    /// The process of the suite.
    pub(crate) pid: u32,
    /// Time of its start, seconds since 1970.
    pub(crate) began_unix_s: u64,
    /// Estimated duration, with the start of the daemon.
    pub(crate) about_s: u64,
    /// Estimated duration of the runs after it; unknown for a search.
    pub(crate) after_s: Option<u64>,
}

/// A run with a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    #[serde(flatten)]
    pub(crate) id: RunId,
    /// The exit code of its driver.
    pub(crate) exit: u8,
    /// Duration of its load, to the end of the last operation.
    pub(crate) wall_s: f64,
    /// The verdict of its result; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Verdict>,
}

impl Ended {
    /// Returns true if the result says nothing about the daemon, so that the run is worth another attempt. A run in
    /// which something failed stays as it is: the failure must not vanish behind an attempt that went well.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.verdict == Some(Verdict::Invalid) && self.exit != exit::FAILED
    }
}

/// An INVALID attempt at a run that was made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SetAside {
    #[serde(flatten)]
    pub(crate) id: RunId,
    /// The number of the attempt, counted from 1, and the end of the name of its folder.
    pub(crate) attempt: u32,
    /// The warning that made the result INVALID.
    pub(crate) reason: String,
}

/// A run without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unreached {
    pub(crate) daemon: String,
    pub(crate) level: String,
    /// The repetition, if only that one failed.
    pub(crate) run: Option<u32>,
    pub(crate) why: FailureKind,
    /// The reason why it was not measured, with the remedy.
    pub(crate) reason: String,
}

/// The kind of reason for an unreached run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FailureKind {
    /// The limits of this machine do not allow it, as the driver reported.
    Limit,
    /// The daemon needs a tool that is missing.
    ToolMissing,
    /// The driver or the daemon failed before there was a result.
    Failed,
}

/// The answer of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CapacityResult {
    pub(crate) daemon: String,
    /// The highest load that held and was confirmed.
    pub(crate) held: Option<u64>,
    /// The lowest load that was missed.
    pub(crate) missed: Option<u64>,
    /// The failure at the missed load, or the limit of the machine that it hit.
    pub(crate) reason: Option<String>,
    /// The load that ended the search early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unjudged: Option<Inconclusive>,
}

/// A load at which the driver or the machine was at fault each time: it is unknown whether the daemon can hold it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inconclusive {
    pub(crate) level: u64,
    /// The problem, and the remedy.
    pub(crate) reason: String,
}

impl Record {
    /// Reads the record of a suite's folder.
    ///
    /// # Errors
    /// The file can't be read, or is not a record.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let text = store::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not the record of a suite", path.display()))
    }

    /// Writes the record completely or not at all.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        store::write_whole(&folder.join(FILE), text.as_bytes())
    }

    /// Returns true if a run has ended.
    pub(crate) fn has_ended(&self, id: &RunId) -> bool {
        self.runs.iter().any(|ended| ended.id == *id)
    }

    /// Returns the reason not to try a run, if there is one.
    pub(crate) fn stopped(&self, id: &RunId) -> Option<&Unreached> {
        self.unreached.iter().find(|missed| {
            (&missed.daemon, &missed.level) == (&id.daemon, &id.level)
                && missed.run.is_none_or(|only| only == id.run)
        })
    }

    /// Returns true if a run has ended with a result that is worth another attempt.
    pub(crate) fn is_spoiled(&self, id: &RunId) -> bool {
        let mut ended = self.runs.iter().filter(|run| run.id == *id);
        ended.any(Ended::is_spoiled)
    }

    /// Returns the number of runs whose results are worth another attempt.
    pub(crate) fn spoiled_runs(&self) -> usize {
        self.runs.iter().filter(|run| run.is_spoiled()).count()
    }

    /// Returns the number of attempts at a run that were set aside.
    pub(crate) fn attempts_set_aside(&self, id: &RunId) -> u32 {
        self.set_aside.iter().filter(|one| one.id == *id).count() as u32
    }

    /// Clears outcomes that may have been fixed since: the reasons that stopped runs, and the results of a search.
    pub(crate) fn clear_failures(&mut self) {
        self.unreached.clear();
        self.found.clear();
        self.running = None;
    }
}
