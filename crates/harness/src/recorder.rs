//! Where a worker writes: cheap to clone, goes into any task of the worker's thread.
//!
//! A thread has one tally for the running second. When the second is over, the tally is swapped for a clean one and
//! sent off: no lock, no atomic and no histogram work on the thread that measures.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use measure::tally::{Series, Tally, add};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock;
use crate::driver::{Driver, Phases, Stop};

mod active;
mod interval;
mod measured;
mod stalls;
mod thread;

pub use interval::{Interval, LastReport};

use active::Active;
use measured::MeasuredTime;
use stalls::StallDetector;
use thread::ThreadUsage;

/// Nanoseconds of one row.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Count of operations begun.
pub const STARTED: &str = "started";
/// Count of operations that ended as they should.
pub const OK: &str = "ok";
/// Count of operations left open.
pub const UNFINISHED: &str = "unfinished";
/// Count of operations that were due and never begun.
pub const MISSED: &str = "missed";

/// Tallies of one thread at most. Where its seconds are not read in time, because all processors are busy, memory would
/// grow by some MiB a second and thread; after so many seconds the thread waits, and is late.
const TALLIES: usize = 32;

/// Where a worker writes what happened.
#[derive(Debug, Clone)]
pub struct Recorder(Rc<RefCell<Row>>);

/// The running second of a worker.
#[derive(Debug)]
struct Row {
    lane: u64,
    origin: u64,
    second: u64,
    tally: Tally,
    active: Active,
    thread: ThreadUsage,
    stalls: StallDetector,
    intervals: UnboundedSender<Interval>,
    clean: Receiver<Tally>,
    /// Tallies of this thread, those that are on their way too.
    tallies: usize,
    measured: Option<MeasuredTime>,
}

impl Recorder {
    /// A recorder for the calling thread. Rows count from `origin` (nanoseconds of CLOCK_MONOTONIC); the first is written
    /// to `tally`, and `clean` gives back tallies that were sent to `intervals` and read; one is there from the beginning.
    #[must_use]
    pub fn new(
        lane: u64,
        origin: u64,
        tally: Tally,
        intervals: UnboundedSender<Interval>,
        clean: Receiver<Tally>,
    ) -> Self {
        Self(Rc::new(RefCell::new(Row {
            lane,
            origin,
            second: 0,
            tally,
            active: Active::new(origin),
            thread: ThreadUsage::new(origin),
            stalls: StallDetector::new(),
            intervals,
            clean,
            tallies: 2,
            measured: None,
        })))
    }

    /// Sets apart what happens inside the measured time of `phases`, which ends early where `stop` is asked. `response`
    /// is the series that counts from the due time and ends with the operation.
    #[must_use]
    pub fn measuring(self, phases: Phases, stop: &Arc<Stop>, response: Series) -> Self {
        self.0.borrow_mut().measured = Some(MeasuredTime::new(phases, stop, response));
        self
    }

    /// Moves the measured time to that of `phases`, as long as it has not begun.
    pub fn move_to(&self, phases: Phases) {
        if let Some(measured) = &mut self.0.borrow_mut().measured {
            measured.move_to(phases);
        }
    }

    /// Records one value of a series, in nanoseconds.
    pub fn value(&self, series: Series, ns: u64) {
        let row = &mut *self.0.borrow_mut();
        row.tally.record(series, ns);
        if let Some(measured) = &mut row.measured {
            measured.value(series, ns, &mut row.tally);
        }
    }

    /// Adds to a count.
    pub fn count(&self, name: &'static str, count: u64) {
        self.0.borrow_mut().tally.count(name, count);
    }

    /// Adds to a count what operations of the warm-up did, which is in no total: where it happens inside the measured time,
    /// it is part of its rates.
    pub fn count_of_warmup(&self, name: &'static str, count: u64) {
        let row = &mut *self.0.borrow_mut();
        if count > 0 && row.is_within() {
            add(&mut row.tally.measured.counts, name, count);
        }
    }

    /// So many operations of the warm-up end as they should.
    pub fn ok_of_warmup(&self, operations: u64) {
        self.count_of_warmup(OK, operations);
    }

    /// An operation of the warm-up ends otherwise.
    pub fn error_of_warmup(&self) {
        let row = &mut *self.0.borrow_mut();
        row.tally.measured.failed += u64::from(row.is_within());
    }

    /// Records how late the driver began an operation that it was free to begin, in nanoseconds.
    pub fn lag(&self, ns: u64) {
        self.0.borrow_mut().tally.lag.record(ns);
    }

    /// An operation begins.
    pub fn begin(&self) {
        self.begin_many(1);
    }

    /// So many operations begin. Counting is dearer than recording, so a loop that starts many at once counts once.
    pub fn begin_many(&self, operations: u64) {
        let mut row = self.0.borrow_mut();
        row.tally.count(STARTED, operations);
        row.active.begin(operations);
    }

    /// An operation ends as it should.
    pub fn ok(&self) {
        self.ok_many(1);
    }

    /// So many operations end as they should: they may have begun in another worker.
    pub fn ok_many(&self, operations: u64) {
        self.end(operations, |tally| tally.count(OK, operations));
    }

    /// An operation ends otherwise; kinds are disjoint.
    pub fn error(&self, kind: &'static str) {
        self.end(1, |tally| tally.error(kind));
    }

    /// So many operations end otherwise, all of them in the same way.
    pub fn error_many(&self, kind: &'static str, operations: u64) {
        self.end(operations, |tally| add(&mut tally.errors, kind, operations));
    }

    /// An operation is left open at the end of the drain phase.
    pub fn unfinished(&self) {
        self.unfinished_many(1);
    }

    /// So many operations are left open at the end of the drain phase.
    pub fn unfinished_many(&self, operations: u64) {
        self.end(operations, |tally| tally.count(UNFINISHED, operations));
    }

    fn end(&self, operations: u64, outcome: impl FnOnce(&mut Tally)) {
        if operations == 0 {
            return;
        }
        let mut row = self.0.borrow_mut();
        outcome(&mut row.tally);
        row.active.end(operations);
    }

    /// Says that the loop, whose turn began at `now`, turns again at `until` or earlier, and returns until when it may wait:
    /// a moment, so that it is noticed if it was held. A turn that [`tick`](Self::tick) sees later than that is a stall.
    pub fn wait_until(&self, until: u64, now: u64) -> u64 {
        self.0.borrow_mut().stalls.promise(until, now)
    }

    /// Sends off every second that is over at `now`, and returns when the running one will be.
    pub fn tick(&self, now: u64) -> u64 {
        let mut row = self.0.borrow_mut();
        // A second that the thread did not come by has no row: a stall belongs to the one in which it ended.
        let stall = row.stalls.held(now);
        row.active.add_slack(now);
        row.turn(now);
        let running = now.saturating_sub(row.origin) / SECOND_NS;
        if running > row.second {
            // What is open as the second ends belongs to it, however late the thread comes by.
            let ended = row.origin + running * SECOND_NS;
            row.active.integrate(ended);
            row.send(None, now);
            // Seconds in which the thread did not come by hold nothing: only the running one matters.
            row.second = running;
        }
        if let Some(ns) = stall {
            row.stalls.add(ns);
        }
        row.active.begin_turn(now);
        row.origin + (row.second + 1) * SECOND_NS
    }

    /// Sends off what is left and says that the thread has ended.
    pub fn finish(&self, ended: Result<(), String>) {
        let mut row = self.0.borrow_mut();
        // What is left open here, for others to end, stays open to the end of the second.
        let end = row.origin + (row.second + 1) * SECOND_NS;
        row.active.leave_open(end);
        row.send(Some(ended), clock::now());
    }
}

impl Row {
    /// Finds out whether the measured time has begun or ended.
    fn turn(&mut self, now: u64) {
        if let Some(measured) = &mut self.measured {
            measured.turn(now, &mut self.tally);
        }
    }

    fn is_within(&self) -> bool {
        self.measured.as_ref().is_some_and(MeasuredTime::is_within)
    }

    fn clean(&mut self) -> Tally {
        let clean = match self.tallies < TALLIES {
            true => self.clean.try_recv().ok(),
            // Those who read are gone only where the run was aborted.
            false => self.clean.recv().ok(),
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
        let active = self.active.take();
        let thread = self.thread.take(now);
        let interval = Interval {
            lane: self.lane,
            second: self.second,
            tally: std::mem::replace(&mut self.tally, clean),
            active: active.at_end,
            active_peak: active.peak,
            active_ns: active.integral_ns,
            active_slack_ns: active.slack_ns,
            cpu_ns: thread.cpu_ns,
            wait_ns: thread.wait_ns,
            span_ns: thread.span_ns,
            stalls: self.stalls.take(),
            ended,
        };
        // The collector outlives the workers but for an abort of the run, when nobody asks for the row.
        let _ = self.intervals.send(interval);
    }
}

/// A clean tally for what a driver records: no page fault falls into its loop, and the memory of a run is there before it
/// begins.
pub(crate) fn clean<D: Driver>(driver: &D) -> Tally {
    Tally::resident(D::SERIES, |series| driver.records(series))
}

#[cfg(test)]
mod tests;
