//! Records the measurements of a worker: cheap to clone, for any task of the worker's thread.
//!
//! A thread has one tally for the running second. At the end of the second, the tally is swapped for a clean one and
//! sent off: no lock, no atomic and no histogram work on the thread that measures.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use measure::tally::{Series, Tally, add};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock;
use crate::driver::{Cancellation, Driver, Phases};

mod active;
mod measured;
mod stalls;
mod thread;
mod worker_second;

pub use active::ActiveSecond;
pub use thread::ThreadSpan;
pub use worker_second::WorkerSecond;

use active::Active;
use measured::MeasuredTime;
use stalls::StallDetector;
use thread::ThreadUsage;

/// Nanoseconds of one second.
pub const SECOND_NS: u64 = 1_000_000_000;

pub use measure::tally::{MISSED, MISSED_WAITING, OK, STARTED, UNFINISHED};

/// Counter of operations that start in the warm-up, and are in no total.
pub const WARMUP: &str = "warmup";
/// Counter of operations of the warm-up that fail.
pub const WARMUP_FAILED: &str = "warmup_failed";

/// Maximum number of tallies of one thread. If its seconds are not read in time because all processors are busy,
/// memory would grow by some MiB per second and thread. At this limit the thread waits instead, and is late.
const TALLIES: usize = 32;

/// A handle with which a worker records events.
#[derive(Debug, Clone)]
pub struct Recorder(Rc<RefCell<CurrentSecond>>);

/// The running second of a worker.
#[derive(Debug)]
struct CurrentSecond {
    worker: u64,
    origin: u64,
    second: u64,
    tally: Tally,
    active: Active,
    thread: ThreadUsage,
    stalls: StallDetector,
    worker_seconds: UnboundedSender<WorkerSecond>,
    clean: Receiver<Tally>,
    /// Number of tallies of this thread, including those in transit.
    tallies: usize,
    measured: Option<MeasuredTime>,
}

impl Recorder {
    /// Creates a recorder for the calling thread. Seconds count from `origin` (nanoseconds of CLOCK_MONOTONIC). The
    /// first one is written to `tally`. `clean` returns tallies that were sent and read, and holds one from the
    /// beginning.
    #[must_use]
    pub fn new(
        worker: u64,
        origin: u64,
        tally: Tally,
        worker_seconds: UnboundedSender<WorkerSecond>,
        clean: Receiver<Tally>,
    ) -> Self {
        Self(Rc::new(RefCell::new(CurrentSecond {
            worker,
            origin,
            second: 0,
            tally,
            active: Active::new(origin),
            thread: ThreadUsage::new(origin),
            stalls: StallDetector::new(),
            worker_seconds,
            clean,
            tallies: 2,
            measured: None,
        })))
    }

    /// Keeps the events inside the measured time of `phases` apart; that time ends early after a cancellation.
    /// `response` is the series that counts from the due time to the end of the operation.
    #[must_use]
    pub fn measuring(
        self,
        phases: Phases,
        cancellation: &Arc<Cancellation>,
        response: Series,
    ) -> Self {
        self.0.borrow_mut().measured = Some(MeasuredTime::new(phases, cancellation, response));
        self
    }

    /// Takes the measured time from `phases`, unless it has begun.
    pub fn move_to(&self, phases: Phases) {
        if let Some(measured) = &mut self.0.borrow_mut().measured {
            measured.move_to(phases);
        }
    }

    /// Records one value of a series, in nanoseconds.
    #[inline]
    pub fn value(&self, series: Series, ns: u64) {
        let state = &mut *self.0.borrow_mut();
        state.tally.record(series, ns);
        if let Some(measured) = &mut state.measured {
            measured.value(series, ns, &mut state.tally);
        }
    }

    /// Adds to a counter.
    #[inline]
    pub fn count(&self, name: &'static str, count: u64) {
        self.0.borrow_mut().tally.count(name, count);
    }

    /// Adds events of warm-up operations, which are in no total, to a counter of the measured time. Events outside the
    /// measured time are ignored.
    pub fn count_of_warmup(&self, name: &'static str, count: u64) {
        let state = &mut *self.0.borrow_mut();
        if count > 0 && state.is_within() {
            add(&mut state.tally.measured.counts, name, count);
        }
    }

    /// Counts operations of the warm-up that end successfully.
    pub fn ok_of_warmup(&self, operations: u64) {
        self.count_of_warmup(OK, operations);
    }

    /// Counts an operation of the warm-up that fails.
    pub fn error_of_warmup(&self) {
        let state = &mut *self.0.borrow_mut();
        state.tally.count(WARMUP_FAILED, 1);
        state.tally.measured.failed += u64::from(state.is_within());
    }

    /// Records the lateness, in nanoseconds, with which the driver began an operation that it was free to begin.
    #[inline]
    pub fn lag(&self, ns: u64) {
        self.0.borrow_mut().tally.lag.record(ns);
    }

    /// Counts the begin of an operation.
    #[inline]
    pub fn begin(&self) {
        self.begin_many(1);
    }

    /// Counts the begin of several operations. Counting is more expensive than recording, so a loop that starts many
    /// at once counts once.
    #[inline]
    pub fn begin_many(&self, operations: u64) {
        let mut state = self.0.borrow_mut();
        state.tally.count(STARTED, operations);
        state.active.begin(operations);
    }

    /// Counts the successful end of an operation.
    #[inline]
    pub fn ok(&self) {
        self.ok_many(1);
    }

    /// Counts the successful end of several operations, which may have begun in another worker.
    #[inline]
    pub fn ok_many(&self, operations: u64) {
        self.end(operations, |tally| tally.count(OK, operations));
    }

    /// Counts the failure of an operation. Kinds are disjoint.
    pub fn error(&self, kind: &'static str) {
        self.end(1, |tally| tally.error(kind));
    }

    /// Counts the failure of several operations, all of the same kind.
    pub fn error_many(&self, kind: &'static str, operations: u64) {
        self.end(operations, |tally| add(&mut tally.errors, kind, operations));
    }

    /// Counts an operation that is left open at the end of the drain phase.
    #[inline]
    pub fn unfinished(&self) {
        self.unfinished_many(1);
    }

    /// Counts several operations that are left open at the end of the drain phase.
    #[inline]
    pub fn unfinished_many(&self, operations: u64) {
        self.end(operations, |tally| tally.count(UNFINISHED, operations));
    }

    #[inline]
    fn end(&self, operations: u64, outcome: impl FnOnce(&mut Tally)) {
        if operations == 0 {
            return;
        }
        let mut state = self.0.borrow_mut();
        outcome(&mut state.tally);
        state.active.end(operations);
    }

    /// Registers that the loop, whose turn began at `now`, turns again at `until` or earlier. Returns the time until
    /// which it may wait, which is short, so that a stall is noticed, unless the loop `rests`: no operation is open. A
    /// turn that [`tick`](Self::tick) sees later than promised is a stall.
    pub fn wait_until(&self, until: u64, now: u64, rests: bool) -> u64 {
        let mut state = self.0.borrow_mut();
        if rests {
            state.active.rest(now);
        }
        state.stalls.promise(until, now, rests)
    }

    /// Sends off every second that is over at `now`, and returns the end of the running one.
    pub fn tick(&self, now: u64) -> u64 {
        let mut state = self.0.borrow_mut();
        // A second without a turn of this thread is not reported: a stall belongs to the second in which it ended.
        let stall = state.stalls.held(now);
        state.active.add_slack(now);
        state.turn(now);
        let running = now.saturating_sub(state.origin) / SECOND_NS;
        if running > state.second {
            // Operations open at the end of the second belong to it, however late this turn is.
            let ended = state.origin + running * SECOND_NS;
            state.active.integrate(ended);
            state.send(None, now);
            // Seconds without a turn of this thread are empty: only the running one matters.
            state.second = running;
        }
        if let Some(ns) = stall {
            state.stalls.add(ns);
        }
        state.active.begin_turn(now);
        state.origin + (state.second + 1) * SECOND_NS
    }

    /// Sends off the rest and reports the end of the thread.
    pub fn finish(&self, ended: Result<(), String>) {
        let mut state = self.0.borrow_mut();
        // Operations left open here, for others to end, stay open to the end of the second.
        let end = state.origin + (state.second + 1) * SECOND_NS;
        state.active.leave_open(end);
        state.send(Some(ended), clock::now());
    }
}

impl CurrentSecond {
    /// Updates whether the measured time has begun or ended.
    fn turn(&mut self, now: u64) {
        if let Some(measured) = &mut self.measured {
            measured.turn(now, &mut self.tally);
        }
    }

    #[inline]
    fn is_within(&self) -> bool {
        self.measured.as_ref().is_some_and(MeasuredTime::is_within)
    }

    fn clean(&mut self) -> Tally {
        let clean = if self.tallies < TALLIES {
            self.clean.try_recv().ok()
        } else {
            // The receiver is gone only if the run was aborted.
            self.clean.recv().ok()
        };
        clean.unwrap_or_else(|| {
            self.tallies += 1;
            self.tally.another()
        })
    }

    fn send(&mut self, ended: Option<Result<(), String>>, now: u64) {
        if let Some(measured) = &mut self.measured {
            measured.set_apart(&mut self.tally);
        }
        let clean = self.clean();
        let worker_second = WorkerSecond {
            worker: self.worker,
            second: self.second,
            tally: std::mem::replace(&mut self.tally, clean),
            active: self.active.take(),
            thread: self.thread.take(now),
            stalls: self.stalls.take(),
            ended,
        };
        // The collector outlives the workers, unless the run is aborted; then nobody needs the second.
        let _ = self.worker_seconds.send(worker_second);
    }
}

/// Creates an empty tally for the series that a driver records. Its memory is resident before the run, so that no page
/// fault falls into the driver's loop.
#[must_use]
pub fn empty_tally<D: Driver>(driver: &D) -> Tally {
    Tally::resident(&D::SPEC.series, |series| driver.uses_series(series))
}

#[cfg(test)]
mod tests;
