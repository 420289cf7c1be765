//! A second of a worker, on its way to the collector.

use measure::disturbance::Stalls;
use measure::tally::Tally;
use serde::{Deserialize, Serialize};

use super::active::ActiveSecond;
use super::thread::ThreadSpan;

/// The activity of one thread in one second of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerSecond<T = Tally> {
    /// The index of the worker thread in all processes of the driver.
    pub worker: u64,
    /// The index of the second since the origin of the run.
    pub second: u64,
    /// The recorded values; packed on the way to another process.
    pub tally: T,
    /// The open operations.
    pub active: ActiveSecond,
    /// CPU time of the thread.
    pub thread: ThreadSpan,
    /// Stalls of the loop that ended in the second.
    pub stalls: Stalls,
    /// The end of the thread, and its error; absent while it runs.
    pub ended: Option<Result<(), String>>,
}

impl<T> WorkerSecond<T> {
    /// Returns the same second with another form of its tally, and the previous tally.
    pub fn replace<U>(self, tally: U) -> (WorkerSecond<U>, T) {
        let worker_second = WorkerSecond {
            worker: self.worker,
            second: self.second,
            tally,
            active: self.active,
            thread: self.thread,
            stalls: self.stalls,
            ended: self.ended,
        };
        (worker_second, self.tally)
    }

    /// Creates the last second of a worker that can't report it: the operations that were `open` after its last
    /// reported `second` are still open.
    pub fn lost(worker: u64, second: u64, open: i64, nothing: T, why: String) -> Self {
        Self {
            worker,
            second,
            tally: nothing,
            active: ActiveSecond {
                at_end: open,
                ..ActiveSecond::default()
            },
            thread: ThreadSpan::default(),
            stalls: Stalls::default(),
            ended: Some(Err(why)),
        }
    }
}
