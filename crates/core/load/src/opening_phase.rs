//! Opens connections before the load begins, if a driver asks for that
//! ([`Description::opening`](crate::driver::Description::opening)).
//!
//! Workers begin to open at the origin of the run, and each reports when all of its connections are open. When all
//! have reported, the load is brought forward to one instant for all workers of all processes; the
//! parent decides it. Otherwise the load begins at the end of the time for opening, with the connections that are open
//! by then. Nothing is due before the load begins, so that no start becomes late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::clock;

/// The opening by the workers of one process, or of a whole run.
#[derive(Debug)]
pub struct OpeningPhase {
    /// Number of workers that have not opened all of their connections.
    pending: AtomicU64,
    /// Time at which the last of them had, nanoseconds of CLOCK_MONOTONIC; `u64::MAX` before.
    opened_at: AtomicU64,
    /// Start of the load, nanoseconds of CLOCK_MONOTONIC; `u64::MAX` until it is brought forward.
    begin: AtomicU64,
    all_open: Notify,
}

impl OpeningPhase {
    /// Creates an opening by a number of workers.
    #[must_use]
    pub fn new(workers: u64) -> Self {
        Self {
            pending: AtomicU64::new(workers),
            opened_at: AtomicU64::new(u64::MAX),
            begin: AtomicU64::new(u64::MAX),
            all_open: Notify::new(),
        }
    }

    /// Counts workers that have opened all of their connections, or have ended. Each must be counted once.
    pub fn opened_by(&self, workers: u64) {
        if self.pending.fetch_sub(workers, Ordering::AcqRel) == workers {
            self.opened_at.store(clock::now(), Ordering::Release);
            self.all_open.notify_one();
        }
    }

    /// Returns once all workers have opened all of their connections. Cancel-safe.
    pub async fn all_open(&self) {
        if self.pending.load(Ordering::Acquire) > 0 {
            self.all_open.notified().await;
        }
    }

    /// Returns true if all connections were open before `begin`. Workers that end count as open from then on.
    #[must_use]
    pub fn was_complete_at(&self, begin: u64) -> bool {
        self.opened_at.load(Ordering::Acquire) < begin
    }

    /// Brings the load forward to `begin`.
    pub fn begin_at(&self, begin: u64) {
        self.begin.store(begin, Ordering::Release);
    }
}

/// The part of one worker in an opening. It does nothing in a run without an opening.
#[derive(Debug)]
pub struct WorkerOpening {
    /// The shared state; absent if there is no opening, or after the load was brought forward.
    shared: Option<Arc<OpeningPhase>>,
    has_opened: bool,
}

impl WorkerOpening {
    /// Creates the part of one worker.
    #[must_use]
    pub fn new(shared: Option<Arc<OpeningPhase>>) -> Self {
        Self {
            shared,
            has_opened: false,
        }
    }

    /// Reports that all connections of the worker are open. Further calls have no effect.
    pub fn report_open(&mut self) {
        if let Some(shared) = self.shared.as_ref().filter(|_| !self.has_opened) {
            self.has_opened = true;
            shared.opened_by(1);
        }
    }

    /// Returns the start of the load, once, if it was brought forward.
    pub fn brought_forward(&mut self) -> Option<u64> {
        let begin = self.shared.as_ref()?.begin.load(Ordering::Acquire);
        if begin == u64::MAX {
            return None;
        }
        self.report_open();
        self.shared = None;
        Some(begin)
    }
}

impl Drop for WorkerOpening {
    /// Reports the worker's connections as open, so that the others do not wait for a worker that has ended.
    fn drop(&mut self) {
        self.report_open();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn all_is_open_when_every_worker_has_said_so_once_or_has_ended() {
        let opening = Arc::new(OpeningPhase::new(3));
        let part = || WorkerOpening::new(Some(Arc::clone(&opening)));
        let (mut first, second, mut third) = (part(), part(), part());
        let at_once = || tokio::time::timeout(Duration::ZERO, opening.all_open());
        for _ in 0..5 {
            first.report_open();
        }
        assert!(at_once().await.is_err());
        drop(second);
        drop(first);
        assert!(at_once().await.is_err());
        assert_eq!(third.brought_forward(), None);
        assert!(!opening.was_complete_at(u64::MAX));
        third.report_open();
        opening.all_open().await;
        assert!(opening.was_complete_at(u64::MAX) && !opening.was_complete_at(0));
        opening.begin_at(7);
        assert_eq!(third.brought_forward(), Some(7));
        assert_eq!(third.brought_forward(), None);
        let mut none = WorkerOpening::new(None);
        none.report_open();
        assert_eq!(none.brought_forward(), None);
    }
}
