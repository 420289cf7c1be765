//! Reads the kernel's counters of the recording thread.

use std::fs::File;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::schedstat::{self, Schedstat};

/// Measures the CPU time of the calling thread, and its wait for a CPU, from one call to the next.
#[derive(Debug)]
pub(super) struct ThreadUsage {
    schedstat: Option<File>,
    at: u64,
    cpu_ns: u64,
    wait_ns: Option<u64>,
}

/// The CPU time of a thread in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSpan {
    /// The time over which the others are counted, nanoseconds: longer than a second if the turn was late.
    pub span_ns: u64,
    /// CPU time of the thread, nanoseconds.
    pub cpu_ns: u64,
    /// Time that the thread waited for a CPU, nanoseconds; absent if the kernel does not count it.
    pub wait_ns: Option<u64>,
}

impl ThreadUsage {
    /// Starts counting at `origin`, nanoseconds of CLOCK_MONOTONIC.
    pub(super) fn new(origin: u64) -> Self {
        let schedstat = schedstat::open_of_this_thread();
        Self {
            at: origin,
            cpu_ns: clock::thread_cpu_ns(),
            wait_ns: schedstat.as_ref().and_then(waited),
            schedstat,
        }
    }

    /// Returns the growth since the last call.
    pub(super) fn take(&mut self, now: u64) -> ThreadSpan {
        let cpu_ns = clock::thread_cpu_ns();
        let wait_ns = self.schedstat.as_ref().and_then(waited);
        let span = ThreadSpan {
            span_ns: now.saturating_sub(self.at),
            cpu_ns: cpu_ns - self.cpu_ns,
            wait_ns: wait_ns
                .zip(self.wait_ns)
                .map(|(now, before)| now.saturating_sub(before)),
        };
        (self.at, self.cpu_ns, self.wait_ns) = (now, cpu_ns, wait_ns);
        span
    }
}

fn waited(schedstat: &File) -> Option<u64> {
    Schedstat::read(schedstat).map(|found| found.wait_ns)
}
