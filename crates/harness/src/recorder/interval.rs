//! One second of one worker, on its way to the collector.

use measure::disturbance::Stalls;
use measure::tally::Tally;
use serde::{Deserialize, Serialize};

/// What one thread did in one second of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Interval<T = Tally> {
    /// The worker thread, counted over all processes of the driver.
    pub lane: u64,
    /// The second since the origin of the run.
    pub second: u64,
    /// What was recorded; packed on its way out of a process.
    pub tally: T,
    /// Operations begun here less those ended here, at its end: below 0 where it ends what others began.
    pub active: i64,
    /// The most that this was during it.
    pub active_peak: i64,
    /// The integral of it over time, nanoseconds: exact to a turn of the loop that calls [`Recorder::tick`](super::Recorder::tick).
    pub active_ns: i64,
    /// How far that may be off: what began or ended in turns that took long, times how long they took, nanoseconds.
    pub active_slack_ns: u64,
    /// CPU time of the thread in it, nanoseconds.
    pub cpu_ns: u64,
    /// How long the thread waited for a CPU in it, nanoseconds; absent where the kernel does not count it.
    pub wait_ns: Option<u64>,
    /// From when to when these two are counted, nanoseconds: longer than a second where the thread came by late.
    pub span_ns: u64,
    /// Stalls of the loop that ended in it.
    pub stalls: Stalls,
    /// Whether the thread has ended, and with which error.
    pub ended: Option<Result<(), String>>,
}

/// The last state of a worker that was reported.
#[derive(Debug, Clone, Copy, Default)]
pub struct LastReport {
    second: u64,
    active: i64,
}

impl<T> Interval<T> {
    /// The same interval with another form of its tally, and the tally that it had.
    pub fn replace<U>(self, tally: U) -> (Interval<U>, T) {
        let interval = Interval {
            lane: self.lane,
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
        (interval, self.tally)
    }

    /// Returns what is known of a worker after this interval, should it be lost before its next.
    pub fn last(&self) -> LastReport {
        LastReport {
            second: self.second,
            active: self.active,
        }
    }

    /// The end of a worker that can't report it: what it had open when it last reported is open still.
    pub fn lost(lane: u64, last: &LastReport, nothing: T, why: String) -> Self {
        Self {
            lane,
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
