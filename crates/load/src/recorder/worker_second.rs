//! One second of one worker, on its way to the collector.

use measure::disturbance::Stalls;
use measure::tally::Tally;
use serde::{Deserialize, Serialize};

/// The activity of one thread in one second of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerSecond<T = Tally> {
    /// The index of the worker thread among those of all processes of the driver.
    pub worker: u64,
    /// The index of the second since the origin of the run.
    pub second: u64,
    /// The recorded values; packed on the way to another process.
    pub tally: T,
    /// Operations begun here minus those ended here, at the end of the second; below 0 if the worker ends what others
    /// began.
    pub active: i64,
    /// The maximum of `active` during the second.
    pub active_peak: i64,
    /// The integral of `active` over time, nanoseconds: exact to a turn of the loop that calls
    /// [`Recorder::tick`](super::Recorder::tick).
    pub active_ns: i64,
    /// The tolerance of that integral: the operations that began or ended in long turns, times the length of the turn,
    /// nanoseconds.
    pub active_slack_ns: u64,
    /// CPU time of the thread in the second, nanoseconds.
    pub cpu_ns: u64,
    /// Time that the thread waited for a CPU in the second, nanoseconds; absent if the kernel does not count it.
    pub wait_ns: Option<u64>,
    /// The time over which these two are counted, nanoseconds: longer than a second if the turn was late.
    pub span_ns: u64,
    /// Stalls of the loop that ended in the second.
    pub stalls: Stalls,
    /// The end of the thread, and its error; absent while it runs.
    pub ended: Option<Result<(), String>>,
}

/// The last state that a worker reported.
#[derive(Debug, Clone, Copy, Default)]
pub struct LastReport {
    second: u64,
    active: i64,
}

impl<T> WorkerSecond<T> {
    /// Returns the same worker_second with another form of its tally, and the previous tally.
    pub fn replace<U>(self, tally: U) -> (WorkerSecond<U>, T) {
        let worker_second = WorkerSecond {
            worker: self.worker,
            second: self.second,
            tally,
            active: self.active,
            active_peak: self.active_peak,
            active_ns: self.active_ns,
            active_slack_ns: self.active_slack_ns,
            cpu_ns: self.cpu_ns,
            wait_ns: self.wait_ns,
            span_ns: self.span_ns,
            stalls: self.stalls,
            ended: self.ended,
        };
        (worker_second, self.tally)
    }

    /// Returns the state of a worker after this worker_second, in case it is lost before its next one.
    pub fn last(&self) -> LastReport {
        LastReport {
            second: self.second,
            active: self.active,
        }
    }

    /// Creates the last worker_second of a worker that can't report it: the operations of its last report are still open.
    pub fn lost(worker: u64, last: &LastReport, nothing: T, why: String) -> Self {
        Self {
            worker,
            second: last.second,
            tally: nothing,
            active: last.active,
            active_peak: 0,
            active_ns: 0,
            active_slack_ns: 0,
            cpu_ns: 0,
            wait_ns: None,
            span_ns: 0,
            stalls: Stalls::default(),
            ended: Some(Err(why)),
        }
    }
}
