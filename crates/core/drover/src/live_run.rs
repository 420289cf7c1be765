//! Reads the files of a run in progress: its seconds, and the resources of daemon and driver.

use std::collections::VecDeque;
use std::path::Path;

use harness::live::{LIVE, LiveSecond, Tail};

/// Number of seconds that are kept: more than a terminal has columns.
pub(crate) const KEPT: usize = 1_000;

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

#[cfg(test)]
mod tests {
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
}
