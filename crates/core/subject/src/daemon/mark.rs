//! A mark that every process of a daemon inherits, also one that leaves the daemon's process group and session.
//!
//! The mark is the value of a resource limit that nothing else uses: the CPU time that a real-time process may take
//! without a blocking call, here more than 100,000 years. A process inherits it over fork and exec, and keeps it when it
//! forks twice, closes all files or overwrites its environment. The kernel shows it in `/proc/<pid>/limits`.

use std::collections::BTreeSet;
use std::fs;

use load::clock;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::usage::stat;

/// Smallest mark, microseconds.
const SMALLEST: u64 = 1 << 62;

/// The mark of one process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    /// Returns a mark that no other process has: nanoseconds since boot, also where containers share `/proc`.
    pub(super) fn new() -> Self {
        Self(SMALLEST + clock::now())
    }

    /// Marks this process and all that it will start. May be called between fork and exec. A smaller limit of the
    /// machine stays: then only the process group shows what belongs to the daemon.
    pub(super) fn set(self) {
        let _ = setrlimit(Resource::RLIMIT_RTTIME, self.0, self.0);
    }

    /// Returns the pattern of grep(1) for the line of a marked process in `/proc/<pid>/limits`.
    pub(super) fn pattern(self) -> String {
        format!("^Max realtime timeout  *{} ", self.0)
    }

    /// Kills all processes that have the mark, also those that they start meanwhile.
    pub(super) fn kill_all(self) {
        let mut killed = BTreeSet::new();
        loop {
            let marked = stat::all().filter(|stat| !stat.is_zombie() && self.marks(stat.pid));
            let new: Vec<i32> = marked
                .map(|stat| stat.pid)
                .filter(|pid| killed.insert(*pid))
                .collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                // It may have ended already.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }

    fn marks(self, pid: i32) -> bool {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max realtime timeout "));
        let soft = line.and_then(|line| line.split_ascii_whitespace().next());
        soft.is_some_and(|soft| soft.parse() == Ok(self.0))
    }
}
