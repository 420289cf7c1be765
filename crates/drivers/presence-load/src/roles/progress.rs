//! The counts that progress lines are printed from.

use std::time::Duration;

use load::event_loop::LoopState;

use crate::outcome::count;

/// The progress reports of a worker.
#[derive(Debug)]
pub(crate) struct Progress {
    interval_ns: u64,
    next: u64,
}

impl Progress {
    pub(crate) fn new(interval: Duration, origin: u64) -> Self {
        let interval_ns = interval.as_nanos() as u64;
        Self {
            interval_ns,
            next: origin + interval_ns,
        }
    }

    /// Records the joined users once a second, and the first worker the reports that are due.
    pub(crate) fn write<T>(&mut self, joined: u64, state: &LoopState<T>) {
        if state.is_second_over() {
            state.record.count(count::HELD, joined);
        }
        while state.share.index == 0 && state.now >= self.next {
            self.next += self.interval_ns;
            let interval_ms = self.interval_ns / 1_000_000;
            state.record.count(count::REPORTED_MS, interval_ms);
        }
    }
}
