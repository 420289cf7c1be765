//! One process of a sampled tree: its files in `/proc` stay open, so that a look costs two reads and finds no namesake.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use measure::usage::Sample;

use super::Cpu;
use super::stat::{Stat, status_value};

/// More threads than this are not looked at one by one in every sample: 64 cost about 1 ms.
const MANY_THREADS: u64 = 64;
/// `/proc/<pid>/status` is about 1.5 KiB, more with many supplementary groups.
const BUFFER: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Process {
    directory: PathBuf,
    stat_file: File,
    status_file: File,
    stat: Stat,
    threads: u64,
    /// Voluntary and involuntary switches by thread.
    switches: BTreeMap<i32, (u64, u64)>,
    switches_of_ended_threads: (u64, u64),
}

/// The kernel offers no list of children.
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
            switches: BTreeMap::new(),
            switches_of_ended_threads: (0, 0),
        };
        process.refresh().then_some(process)
    }

    /// Reads the CPU times; false when the process is gone.
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

    pub(super) fn own_cpu(&self) -> Cpu {
        Cpu {
            user: self.stat.user,
            system: self.stat.system,
        }
    }

    /// The time of children that it has waited for, and of theirs.
    pub(super) fn taken_over_cpu(&self) -> Cpu {
        Cpu {
            user: self.stat.children_user,
            system: self.stat.children_system,
        }
    }

    /// Adds everything but CPU time. A zombie has nothing left but that.
    pub(super) fn add_to(&mut self, sample: &mut Sample, seldom: bool) {
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
                self.read_switches();
            }
        }
        let (voluntary, involuntary) = self.switches();
        sample.voluntary_switches += voluntary;
        sample.involuntary_switches += involuntary;
    }

    pub(super) fn switches(&self) -> (u64, u64) {
        self.switches
            .values()
            .fold(self.switches_of_ended_threads, |sum, of| {
                (sum.0 + of.0, sum.1 + of.1)
            })
    }

    pub(super) fn has_many_threads(&self) -> bool {
        self.threads > MANY_THREADS
    }

    /// # Errors
    /// When the kernel has no such file for a thread that is there.
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

    /// Absent where it may not be read.
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

    /// Since Linux 6.2 the size of the directory is the number of files; before, it is 0 and they are counted.
    fn fds(&self) -> u64 {
        let directory = self.directory.join("fd");
        match std::fs::metadata(&directory) {
            Ok(metadata) if metadata.size() > 0 => metadata.size(),
            _ => count_entries(&directory),
        }
    }

    /// `/proc/<pid>/status` has the switches of the first thread only: every thread is asked.
    fn read_switches(&mut self) {
        let mut before = std::mem::take(&mut self.switches);
        for (thread, directory) in self.thread_directories() {
            let Ok(status) = std::fs::read(directory.join("status")) else {
                continue;
            };
            let switches = |key| status_value(&status, key);
            self.switches.insert(
                thread,
                (
                    switches("voluntary_ctxt_switches"),
                    switches("nonvoluntary_ctxt_switches"),
                ),
            );
            before.remove(&thread);
        }
        for (voluntary, involuntary) in before.into_values() {
            self.switches_of_ended_threads.0 += voluntary;
            self.switches_of_ended_threads.1 += involuntary;
        }
    }

    fn thread_directories(&self) -> impl Iterator<Item = (i32, PathBuf)> + use<> {
        let entries = std::fs::read_dir(self.directory.join("task"))
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
    }
}

/// Files in `/proc` are made anew for each read from their start.
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
