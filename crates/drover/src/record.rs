//! `suite.json`: what a suite is, and what has become of it so far.

use std::path::Path;

use anyhow::Context as _;
use harness::store;
use serde::{Deserialize, Serialize};

use crate::resolve::Resolved;

/// The file's name.
pub(crate) const FILE: &str = store::SUITE;

/// A suite and its story. Results lie beside it in files of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What is run.
    pub(crate) suite: Resolved,
    /// The question that it answers.
    pub(crate) question: Option<String>,
    /// When it was begun first, RFC 3339 in UTC.
    pub(crate) started_at: String,
    /// When its last run ended; absent while something is left to do, or was not reached.
    pub(crate) ended_at: Option<String>,
    /// The commit of the sources, as of the last start.
    pub(crate) git_commit: Option<String>,
    /// The runs that have ended, in their order.
    pub(crate) runs: Vec<Ended>,
    /// What could not be measured.
    pub(crate) unreached: Vec<Unreached>,
    /// What a search has found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) found: Vec<Found>,
}

/// A run with a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) daemon: String,
    pub(crate) level: String,
    pub(crate) run: u32,
    /// What its driver exited with.
    pub(crate) exit: u8,
    /// How long its load lasted, to the end of the last operation.
    pub(crate) wall_s: f64,
}

/// A run without one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unreached {
    pub(crate) daemon: String,
    pub(crate) level: String,
    /// The repetition, where only that one failed.
    pub(crate) run: Option<u32>,
    pub(crate) why: Why,
    /// What stopped it, with the remedy.
    pub(crate) reason: String,
}

/// What kind of thing stopped a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Why {
    /// The driver said that this machine's limits do not allow it.
    Limit,
    /// The daemon needs a tool that is not there.
    ToolMissing,
    /// The driver or the daemon failed before there was a result.
    Failed,
}

/// The answer of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) daemon: String,
    /// The highest load that held and was confirmed.
    pub(crate) held: Option<u64>,
    /// The lowest load that was missed.
    pub(crate) missed: Option<u64>,
    /// What was missed there, or the limit of the machine that it met.
    pub(crate) reason: Option<String>,
    /// What ended the search early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unjudged: Option<Unjudged>,
}

/// A load at which the driver or the machine was at fault each time: whether the daemon holds it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unjudged {
    pub(crate) level: u64,
    /// What was wrong, and what to do about it.
    pub(crate) reason: String,
}

impl Record {
    /// Reads the record of a suite's folder.
    ///
    /// # Errors
    /// A file that can't be read, or is no record.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is no record of a suite", path.display()))
    }

    /// Writes it whole.
    ///
    /// # Errors
    /// What the file system answers.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        store::write_whole(&folder.join(FILE), text.as_bytes())
    }

    /// A run that has ended.
    pub(crate) fn ended(&self, daemon: &str, level: &str, run: u32) -> Option<&Ended> {
        self.runs
            .iter()
            .find(|ended| (&*ended.daemon, &*ended.level, ended.run) == (daemon, level, run))
    }

    /// Why a run is not to be tried, if it is not.
    pub(crate) fn stopped(&self, daemon: &str, level: &str, run: u32) -> Option<&Unreached> {
        self.unreached.iter().find(|missed| {
            missed.daemon == daemon
                && missed.level == level
                && missed.run.is_none_or(|only| only == run)
        })
    }

    /// Forgets what may have been mended since: what stopped a run, and what a search has made of it.
    pub(crate) fn hope_again(&mut self) {
        self.unreached.clear();
        self.found.clear();
    }
}
