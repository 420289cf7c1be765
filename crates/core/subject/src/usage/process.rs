//! Reads one process of a sampled tree. Its files in `/proc` stay open, so that a sample costs two reads and never
//! reads another process with the same id.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use measure::usage::Sample;

use super::stat::{Stat, status_value};
use load::schedstat::Schedstat;

/// Number of threads above which they are not read one by one in every sample: 64 cost about 1 ms.
const MANY_THREADS: u64 = 64;
/// `/proc/<pid>/status` is about 1.5 KiB, more with many supplementary groups.
const BUFFER: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Process {
    directory: PathBuf,
    stat_file: File,
    status_file: File,
    pub(super) stat: Stat,
    threads: u64,
    /// Counters of the scheduler, by thread.
    scheduled: BTreeMap<i32, Scheduled>,
    scheduled_of_ended_threads: Scheduled,
    /// Time of the last reading of the threads, nanoseconds.
    threads_read_at: Option<u64>,
}

/// The scheduler's counters of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scheduled {
    pub(super) voluntary_switches: u64,
    pub(super) involuntary_switches: u64,
    /// Absent if the kernel does not count it.
    account: Option<Schedstat>,
}

impl Scheduled {
    /// Returns the time that the thread waited for a CPU, nanoseconds.
    pub(super) fn wait_ns(&self) -> Option<u64> {
        self.account.map(|account| account.wait_ns)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.account = match (self.account, other.account) {
            (Some(one), Some(other)) => Some(Schedstat {
                cpu_ns: one.cpu_ns + other.cpu_ns,
                wait_ns: one.wait_ns + other.wait_ns,
            }),
            (one, other) => one.or(other),
        };
    }
}

/// An error: the kernel offers no list of children.
#[derive(Debug)]
pub(super) struct NoChildrenFile;

impl Process {
    pub(super) fn open(pid: i32) -> Option<Self> {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        let mut process = Self {
            stat_file: File::open(directory.join("stat")).ok()?,
            status_file: File::open(directory.join("status")).ok()?,
            directory,
            stat: Stat::default(),
            threads: 0,
            scheduled: BTreeMap::new(),
            scheduled_of_ended_threads: Scheduled::default(),
            threads_read_at: None,
        };
        process.refresh().then_some(process)
    }

    /// Reads the CPU times; returns false if the process has ended.
    pub(super) fn refresh(&mut self) -> bool {
        let mut buffer = [0; BUFFER];
        match read(&self.stat_file, &mut buffer).and_then(Stat::parse) {
            Some(stat) => {
                self.stat = stat;
                true
            }
            None => false,
        }
    }

    /// Adds everything except CPU time. A zombie has only CPU time left.
    pub(super) fn add_to(&mut self, sample: &mut Sample, seldom: bool, now_ns: u64) {
        let mut buffer = [0; BUFFER];
        if !self.stat.is_zombie()
            && let Some(status) = read(&self.status_file, &mut buffer)
        {
            self.threads = status_value(status, "Threads");
            sample.rss_kb += status_value(status, "VmRSS");
            sample.vsz_kb += status_value(status, "VmSize");
            sample.threads += self.threads;
            sample.fds += self.fds();
            sample.processes += 1;
            if seldom || !self.has_many_threads() {
                let busiest = self.read_threads(now_ns);
                sample.busiest_thread_pct = [sample.busiest_thread_pct, busiest]
                    .into_iter()
                    .flatten()
                    .reduce(f64::max);
            }
        }
        add_scheduled(sample, self.scheduled());
    }

    /// Returns the scheduler's counters of all threads, including ended ones.
    pub(super) fn scheduled(&self) -> Scheduled {
        let mut sum = self.scheduled_of_ended_threads;
        self.scheduled.values().for_each(|of| sum.add(*of));
        sum
    }

    pub(super) fn has_many_threads(&self) -> bool {
        self.threads > MANY_THREADS
    }

    /// # Errors
    /// The kernel has no such file for an existing thread.
    pub(super) fn children(&self) -> Result<Vec<i32>, NoChildrenFile> {
        let mut children = Vec::new();
        for (_, thread) in self.thread_directories() {
            match std::fs::read_to_string(thread.join("children")) {
                Ok(text) => children.extend(
                    text.split_ascii_whitespace()
                        .filter_map(|pid| pid.parse::<i32>().ok()),
                ),
                Err(_) if thread.exists() => return Err(NoChildrenFile),
                Err(_) => {}
            }
        }
        Ok(children)
    }

    /// Returns the proportional memory; absent if it may not be read.
    pub(super) fn pss_kb(&self) -> Option<u64> {
        if self.stat.is_zombie() {
            return Some(0);
        }
        match std::fs::read(self.directory.join("smaps_rollup")) {
            Ok(text) => Some(status_value(&text, "Pss")),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Some(0),
            Err(_) => None,
        }
    }

    /// Returns the number of open files. Since Linux 6.2 it is the size of the directory; before, the size is 0 and
    /// the entries are counted.
    fn fds(&self) -> u64 {
        let directory = self.directory.join("fd");
        match std::fs::metadata(&directory) {
            Ok(metadata) if metadata.size() > 0 => metadata.size(),
            _ => count_entries(&directory),
        }
    }

    /// Reads every thread, because `/proc/<pid>/status` and `/proc/<pid>/schedstat` have the figures of the first one
    /// only. Returns the CPU use of the busiest thread since the last call, percent of a core.
    fn read_threads(&mut self, now_ns: u64) -> Option<f64> {
        let mut before = std::mem::take(&mut self.scheduled);
        let mut most_ns = None;
        for (thread, directory) in self.thread_directories() {
            let Ok(status) = std::fs::read(directory.join("status")) else {
                continue;
            };
            let switches = |key| status_value(&status, key);
            let account = std::fs::read(directory.join("schedstat")).ok();
            let found = Scheduled {
                voluntary_switches: switches("voluntary_ctxt_switches"),
                involuntary_switches: switches("nonvoluntary_ctxt_switches"),
                account: account.as_deref().and_then(Schedstat::parse),
            };
            let known = before.remove(&thread);
            let ran_before = known.and_then(|known| known.account).unwrap_or_default();
            let ran = found.account.unwrap_or_default().cpu_ns;
            most_ns = most_ns.max(Some(ran.saturating_sub(ran_before.cpu_ns)));
            self.scheduled.insert(thread, found);
        }
        for ended in before.into_values() {
            self.scheduled_of_ended_threads.add(ended);
        }
        let since = self.threads_read_at.replace(now_ns)?;
        let passed = now_ns.checked_sub(since).filter(|passed| *passed > 0)?;
        Some(100.0 * most_ns? as f64 / passed as f64)
    }

    fn thread_directories(&self) -> impl Iterator<Item = (i32, PathBuf)> + use<> {
        let entries = std::fs::read_dir(self.directory.join("task"))
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
    }
}

/// Adds the scheduler's counters to a sample.
pub(super) fn add_scheduled(sample: &mut Sample, scheduled: Scheduled) {
    sample.voluntary_switches += scheduled.voluntary_switches;
    sample.involuntary_switches += scheduled.involuntary_switches;
    if let Some(wait_ns) = scheduled.wait_ns() {
        *sample.wait_ns.get_or_insert(0) += wait_ns;
    }
}

/// Reads a file of `/proc` from its start. The kernel generates it for each such read.
fn read<'a>(file: &File, buffer: &'a mut [u8; BUFFER]) -> Option<&'a [u8]> {
    let length = file.read_at(buffer, 0).ok().filter(|length| *length > 0)?;
    Some(&buffer[..length])
}

fn count_entries(directory: &Path) -> u64 {
    std::fs::read_dir(directory).map_or(0, |entries| entries.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_the_files_agrees_with_the_size_of_their_directory() {
        let directory = Path::new("/proc/self/fd");
        let size = std::fs::metadata(directory).unwrap().size();
        if size > 0 {
            // Counting opens the directory itself, and other tests open files meanwhile.
            assert!(count_entries(directory).abs_diff(size) <= 20, "{size}");
        }
        let own = Process::open(std::process::id().cast_signed()).unwrap();
        assert!(own.fds() >= 3);
    }
}
