//! Leaves the seconds of a run in progress in its folder, for programs that watch it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::store::Folder;

/// Name of the file: one [`LiveSecond`] a line, as JSON. It is removed at the end of the run.
pub const LIVE: &str = "live.jsonl";

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Connections are opened ahead of the load.
    Opening,
    /// Load that is not counted.
    WarmUp,
    /// Load that is counted.
    Measure,
    /// Nothing starts any more; open operations end.
    Drain,
}

impl Phase {
    /// Returns the name of the phase.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::WarmUp => "warm-up",
            Self::Measure => "measure",
            Self::Drain => "drain",
        }
    }
}

/// The end of a run, in seconds since its first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The expected end, from the plan and the durations seen so far.
    About(u64),
    /// The latest end: nothing is known yet about the duration of an operation.
    AtMost(u64),
}

impl End {
    /// Returns the time so far and at the end: `12/~66 s`, or `12/≤187 s`.
    #[must_use]
    pub fn after(self, second: u64) -> String {
        let sign = match self {
            Self::About(_) => '~',
            Self::AtMost(_) => '≤',
        };
        format!("{second}/{sign}{} s", self.seconds())
    }

    /// Returns the seconds.
    #[must_use]
    pub fn seconds(self) -> u64 {
        match self {
            Self::About(seconds) | Self::AtMost(seconds) => seconds,
        }
    }
}

/// The state of a run after one of its seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSecond {
    /// Seconds since the first.
    pub second: u64,
    /// The phase that the second belongs to.
    pub phase: Phase,
    /// The end of the run.
    pub end: End,
    /// The latest possible end, in seconds.
    pub latest: u64,
    /// Operations started so far.
    pub started: u64,
    /// Operations that have succeeded so far.
    pub ok: u64,
    /// Operations that have failed so far.
    pub failed: u64,
    /// Open operations.
    pub open: u64,
    /// Operations started in this second.
    pub rate: u64,
    /// Median of the response times that ended in this second, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// 99th percentile of the response times that ended in this second, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// Open connections and planned ones, while connections are opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<(u64, u64)>,
}

impl LiveSecond {
    /// Returns the phase and the time: `measure 12/~66 s`.
    #[must_use]
    pub fn time(&self) -> String {
        format!("{} {}", self.phase.name(), self.end.after(self.second))
    }
}

/// The file of a run. It is informative: a full disk ends the file, not the run.
#[derive(Debug)]
pub(crate) struct LiveFile {
    path: PathBuf,
    file: Option<File>,
}

impl LiveFile {
    pub(crate) fn create(folder: &Folder) -> Self {
        Self {
            path: folder.path().join(LIVE),
            file: folder.create(LIVE).ok(),
        }
    }

    pub(crate) fn write(&mut self, second: &LiveSecond) {
        let Some(file) = &mut self.file else {
            return;
        };
        let written = serde_json::to_string(second)
            .map_err(std::io::Error::other)
            .and_then(|line| file.write_all(format!("{line}\n").as_bytes()));
        if written.is_err() {
            self.file = None;
        }
    }
}

impl Drop for LiveFile {
    fn drop(&mut self) {
        // Absent if it could not be created.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn second(second: u64) -> LiveSecond {
        LiveSecond {
            second,
            phase: Phase::Measure,
            end: End::About(66),
            latest: 187,
            started: 1_234 * second,
            ok: 1_200 * second,
            failed: 0,
            open: 1_000,
            rate: 1_234,
            p50_ns: Some(1_230_000),
            p99_ns: Some(12_300_000),
            connections: None,
        }
    }

    #[test]
    fn each_second_is_a_line_and_the_file_vanishes_with_the_run() {
        let path = tempfile::tempdir().unwrap();
        let folder = Folder::at(path.path()).unwrap();
        let mut live = LiveFile::create(&folder);
        live.write(&second(1));
        live.write(&second(2));
        let text = fs::read_to_string(path.path().join(LIVE)).unwrap();
        let read = text.lines().map(|line| serde_json::from_str(line).unwrap());
        assert_eq!(read.collect::<Vec<LiveSecond>>(), [second(1), second(2)]);
        drop(live);
        assert!(!path.path().join(LIVE).exists());
    }

    #[test]
    fn a_full_disk_ends_the_file_and_not_the_run() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut live = LiveFile {
            path: PathBuf::from("/nowhere"),
            file: Some(full),
        };
        live.write(&second(1));
        assert!(live.file.is_none());
        live.write(&second(2));
    }
}
