//! Leaves the seconds of a run in progress in its folder, for programs that watch it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::store::{self, Folder};

/// Name of the file: one [`LiveSecond`] a line, as JSON. It is removed at the end of the run.
pub const LIVE: &str = "live.jsonl";
/// Bytes that one reading takes at most; the next continues.
const MOST: u64 = 4 << 20;

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
        // Closing a descriptor sends the line to a file server, so that other machines see it. If none is free, the next
        // line sends this one too.
        drop(file.try_clone());
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

/// A growing file of lines.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    offset: u64,
    /// The begin of a line whose end was not written yet.
    partial: Vec<u8>,
}

impl Tail {
    /// Creates the reader of a file, from its begin.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            partial: Vec::new(),
        }
    }

    /// Returns the lines since the last reading; none if the file is absent.
    pub fn lines(&mut self) -> Vec<String> {
        // An absent file has no lines yet. What was read before an error is read again.
        if let Ok(read) = self.read() {
            self.offset += read;
        }
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        let text = String::from_utf8_lossy(&whole);
        text.lines().map(str::to_owned).collect()
    }

    fn read(&mut self) -> io::Result<u64> {
        let mut file = store::open(&self.path)?;
        // A shorter file is a new one.
        if file.metadata()?.len() < self.offset {
            self.offset = 0;
            self.partial.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let read = file.take(MOST).read_to_end(&mut self.partial)?;
        Ok(read as u64)
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

    #[test]
    fn a_line_is_read_once_and_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.lines(), Vec::<String>::new(), "no file yet");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(tail.lines(), ["one"]);
        file.write_all(b"o\nthree\n").unwrap();
        assert_eq!(tail.lines(), ["two", "three"]);
        assert_eq!(tail.lines(), Vec::<String>::new());
        std::fs::write(&path, "new\n").unwrap();
        assert_eq!(tail.lines(), ["new"]);
    }
}
