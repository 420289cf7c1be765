//! Reads the files of a run in progress: its seconds, and the resources of daemon and driver.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use harness::live::{LIVE, LiveSecond};

/// Number of seconds that are kept: more than a terminal has columns.
const KEPT: usize = 1_000;

/// Bytes that one reading takes at most; the next continues.
const MOST: u64 = 4 << 20;

/// The data of a run in progress.
#[derive(Debug)]
pub(crate) struct LiveRun {
    /// Its latest seconds.
    pub(crate) seconds: VecDeque<LiveSecond>,
    /// The latest sample of the resources.
    pub(crate) resources: Option<Resources>,
    live: Tail,
    samples: Tail,
    /// The names of the columns of the samples.
    columns: Vec<String>,
}

/// The resources that daemon and driver use.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Resources {
    pub(crate) daemon: Use,
    pub(crate) driver: Use,
}

/// The resources of a process and its children. Unknown values are absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Use {
    pub(crate) rss_kb: Option<u64>,
    pub(crate) cpu_pct: Option<f64>,
}

impl LiveRun {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            seconds: VecDeque::new(),
            resources: None,
            live: Tail::new(folder.join(LIVE)),
            samples: Tail::new(folder.join("resources.csv")),
            columns: Vec::new(),
        }
    }

    /// Reads what was written since the last call.
    pub(crate) fn refresh(&mut self) {
        let lines = self.live.lines();
        let read = lines
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok());
        self.seconds.extend(read);
        let surplus = self.seconds.len().saturating_sub(KEPT);
        self.seconds.drain(..surplus);
        for line in self.samples.lines() {
            let values: Vec<&str> = line.split(',').collect();
            // A run that is made again writes a new file.
            if line.starts_with("timestamp,") {
                self.columns = values.iter().map(|name| (*name).to_owned()).collect();
            } else {
                self.resources = Some(self.resources_of(&values));
            }
        }
    }

    fn resources_of(&self, values: &[&str]) -> Resources {
        let value = |name: &str| {
            let index = self.columns.iter().position(|column| column == name)?;
            values.get(index)?.parse::<f64>().ok()
        };
        let of = |rss: &str, cpu: &str| Use {
            rss_kb: value(rss).map(|kb| kb as u64).filter(|kb| *kb > 0),
            cpu_pct: value(cpu),
        };
        Resources {
            daemon: of("rss_kb", "cpu_pct"),
            driver: of("driver_rss_kb", "driver_cpu_pct"),
        }
    }
}

/// A growing file of lines.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    offset: u64,
    /// The begin of a line whose end was not written yet.
    partial: Vec<u8>,
}

impl Tail {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            partial: Vec::new(),
        }
    }

    /// Returns the lines since the last reading; none if the file is absent.
    fn lines(&mut self) -> Vec<String> {
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
        let mut file = File::open(&self.path)?;
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
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_latest_sample_is_read_by_the_names_of_its_columns() {
        let folder = tempfile::tempdir().unwrap();
        let csv = "timestamp,rss_kb,cpu_pct,driver_rss_kb,driver_cpu_pct\n1,10,5.0,20,6.5\n2,11,,21,7.5\n";
        std::fs::write(folder.path().join("resources.csv"), csv).unwrap();
        let mut run = LiveRun::new(folder.path());
        run.refresh();
        let resources = run.resources.unwrap();
        assert_eq!(
            (resources.daemon.rss_kb, resources.daemon.cpu_pct),
            (Some(11), None)
        );
        assert_eq!(resources.driver.cpu_pct, Some(7.5));
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
