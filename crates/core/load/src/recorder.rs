//! Records the measurements of a worker: cheap to clone, for any task of the worker's thread.
//!
//! A thread has one tally for the running second. At the end of the second, the tally is swapped for a clean one and
//! sent off: no lock, no atomic and no histogram work on the thread that measures.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use measure::counters::{Counter, Counters};
use measure::objective::Objective;
use measure::spec::{CounterSpec, Spec};
use measure::tally::{Counts, Series, Tally, add, warmup_failed_as};
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

pub use measure::tally::{
    GOODPUT, MISSED, MISSED_WAITING, OK, STARTED, UNFINISHED, WARMUP, WARMUP_FAILED,
};

/// Maximum number of tallies of one thread. If its seconds are not read in time because all processors are busy,
/// memory would grow by some MiB per second and thread. At this limit the thread waits instead, and is late.
const TALLIES: usize = 32;

/// A handle with which a worker records events.
#[derive(Debug, Clone)]
pub struct Recorder {
    second: Rc<RefCell<CurrentSecond>>,
    counters: Rc<Counters>,
    /// The limit that the objectives set for each series, nanoseconds; values below it meet them. All are 0 if there are
    /// no objectives, so that nothing meets them and the check is one comparison.
    limits: Rc<[u64]>,
}

/// The running second of a worker.
#[derive(Debug)]
struct CurrentSecond {
    worker: u64,
    origin: u64,
    second: u64,
    tally: Tally,
    /// Counts that are not yet in the tally.
    counters: Rc<Counters>,
    /// Failures of the warm-up by kind, which are not yet in the tally.
    warmup_failures: Counts,
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
    /// Creates a recorder of a driver's `counters` for the calling thread. Seconds count from `origin` (nanoseconds of
    /// CLOCK_MONOTONIC). The first one is written to `tally`. `clean` returns tallies that were sent and read, and holds
    /// one from the beginning.
    #[must_use]
    pub fn new(
        worker: u64,
        origin: u64,
        tally: Tally,
        counters: &'static [CounterSpec],
        worker_seconds: UnboundedSender<WorkerSecond>,
        clean: Receiver<Tally>,
    ) -> Self {
        let counters = Rc::new(Counters::new(counters));
        let limits = tally.series().map(|_| 0).collect();
        let second = CurrentSecond {
            worker,
            origin,
            second: 0,
            tally,
            counters: Rc::clone(&counters),
            warmup_failures: Counts::new(),
            active: Active::new(origin),
            thread: ThreadUsage::new(origin),
            stalls: StallDetector::new(),
            worker_seconds,
            clean,
            tallies: 2,
            measured: None,
        };
        Self {
            second: Rc::new(RefCell::new(second)),
            counters,
            limits,
        }
    }

    /// Counts the operations that meet all of these objectives as goodput.
    #[must_use]
    pub fn with_objectives(mut self, objectives: &[Objective]) -> Self {
        if !objectives.is_empty() {
            let mut limits = vec![u64::MAX; self.limits.len()];
            for objective in objectives {
                let limit = &mut limits[objective.series.0];
                *limit = objective.limit_ns.min(*limit);
            }
            self.limits = limits.into();
            // A run in which no operation met them shows the counter too.
            self.count(Counter::GOODPUT, 0);
        }
        self
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
        self.second.borrow_mut().measured = Some(MeasuredTime::new(phases, cancellation, response));
        self
    }

    /// Takes the measured time from `phases`, unless it has begun.
    pub fn move_to(&self, phases: Phases) {
        if let Some(measured) = &mut self.second.borrow_mut().measured {
            measured.move_to(phases);
        }
    }

    /// Records one value of a series, in nanoseconds.
    #[inline]
    pub fn value(&self, series: Series, ns: u64) {
        let state = &mut *self.second.borrow_mut();
        state.tally.record(series, ns);
        if let Some(measured) = &mut state.measured {
            measured.value(series, ns, &mut state.tally);
        }
    }

    /// Adds to a counter. A count of 0 makes the result show the counter.
    #[inline]
    pub fn count(&self, counter: Counter, count: u64) {
        match count {
            0 => self.count_by_name(counter.name(), 0),
            _ => self.counters.add(counter, count),
        }
    }

    /// Adds to a counter. In contrast to [`count`](Self::count), 0 changes nothing.
    #[inline]
    pub fn add(&self, counter: Counter, count: u64) {
        self.counters.add(counter, count);
    }

    /// Adds to a counter whose name is known only in the run. It is looked up, so this is too slow for a hot loop.
    pub fn count_by_name(&self, name: &str, count: u64) {
        self.second.borrow_mut().tally.count(name, count);
    }

    /// Returns the counters of this thread, for what has no other use for a recorder.
    #[must_use]
    pub fn counters(&self) -> &Rc<Counters> {
        &self.counters
    }

    /// Adds events to a counter, of operations that count or of the warm-up's. The latter are in no total, and in the
    /// rates if they happen in the measured time.
    #[inline]
    pub fn count_of(&self, is_counted: bool, counter: Counter, count: u64) {
        if is_counted {
            self.counters.add(counter, count);
        } else {
            self.count_of_warmup(counter, count);
        }
    }

    /// Adds events of warm-up operations, which are in no total, to a counter of the measured time. Events outside the
    /// measured time are ignored.
    pub fn count_of_warmup(&self, counter: Counter, count: u64) {
        let state = &mut *self.second.borrow_mut();
        if count > 0 && state.is_within() {
            add(&mut state.tally.measured.counts, counter.name(), count);
        }
    }

    /// Counts operations of the warm-up that end successfully.
    pub fn ok_of_warmup(&self, operations: u64) {
        self.count_of_warmup(Counter::OK, operations);
    }

    /// Counts an operation of the warm-up that fails. Kinds are disjoint.
    pub fn error_of_warmup(&self, kind: &'static str) {
        let state = &mut *self.second.borrow_mut();
        self.counters.add(Counter::WARMUP_FAILED, 1);
        add(&mut state.warmup_failures, kind, 1);
        state.tally.measured.failed += u64::from(state.is_within());
    }

    /// Records the lateness, in nanoseconds, with which the driver began an operation that it was free to begin.
    #[inline]
    pub fn lag(&self, ns: u64) {
        self.second.borrow_mut().tally.lag.record(ns);
    }

    /// Counts the begin of an operation.
    #[inline]
    pub fn begin(&self) {
        self.begin_many(1);
    }

    /// Counts the begin of several operations.
    #[inline]
    pub fn begin_many(&self, operations: u64) {
        self.counters.add(Counter::STARTED, operations);
        self.second.borrow_mut().active.begin(operations);
    }

    /// Counts the successful end of an operation.
    #[inline]
    pub fn ok(&self) {
        self.ok_many(1);
    }

    /// Counts the successful end of several operations, which may have begun in another worker.
    #[inline]
    pub fn ok_many(&self, operations: u64) {
        self.end(Counter::OK, operations);
    }

    /// Returns true if a value meets the objectives on its series. Without objectives, no value does.
    #[inline]
    #[must_use]
    pub fn meets(&self, series: Series, ns: u64) -> bool {
        ns < self.limits[series.0]
    }

    /// Returns true if the plan has objectives.
    #[must_use]
    pub fn has_objectives(&self) -> bool {
        self.limits.iter().any(|limit| *limit > 0)
    }

    /// Counts the successful end of an operation with these times, in nanoseconds, and records them if it `is_counted`.
    /// An operation of the warm-up counts only for the rates of the measured time. All series that objectives may be set
    /// on ([`Description::objective_series`]) must be among them.
    ///
    /// [`Description::objective_series`]: crate::driver::Description::objective_series
    #[inline]
    pub fn ok_with<const N: usize>(&self, is_counted: bool, times: [(Series, u64); N]) {
        self.ok_meeting(is_counted, true, times);
    }

    /// Does the same for an operation whose earlier times may have missed an objective: then `meets` is false.
    #[inline]
    pub fn ok_meeting<const N: usize>(
        &self,
        is_counted: bool,
        meets: bool,
        times: [(Series, u64); N],
    ) {
        let meets = meets && times.iter().all(|(series, ns)| self.meets(*series, *ns));
        self.goodput(is_counted, u64::from(meets));
        if !is_counted {
            return self.ok_of_warmup(1);
        }
        self.ok();
        for (series, ns) in times {
            self.value(series, ns);
        }
    }

    /// Counts successful operations that met all objectives, beside their end, for a driver whose operations have several
    /// values of a series, or end many at a time.
    #[inline]
    pub fn goodput(&self, is_counted: bool, operations: u64) {
        self.count_of(is_counted, Counter::GOODPUT, operations);
    }

    /// Counts the failure of an operation. Kinds are disjoint.
    pub fn error(&self, kind: &'static str) {
        self.error_many(kind, 1);
    }

    /// Counts the failure of several operations, all of the same kind.
    pub fn error_many(&self, kind: &'static str, operations: u64) {
        if operations > 0 {
            let state = &mut *self.second.borrow_mut();
            add(&mut state.tally.errors, kind, operations);
            state.active.end(operations);
        }
    }

    /// Counts an operation that is left open at the end of the drain phase.
    #[inline]
    pub fn unfinished(&self) {
        self.unfinished_many(1);
    }

    /// Counts several operations that are left open at the end of the drain phase.
    #[inline]
    pub fn unfinished_many(&self, operations: u64) {
        self.end(Counter::UNFINISHED, operations);
    }

    #[inline]
    fn end(&self, outcome: Counter, operations: u64) {
        self.counters.add(outcome, operations);
        self.second.borrow_mut().active.end(operations);
    }

    /// Registers that the loop, whose turn began at `now`, turns again at `until` or earlier. Returns the time until
    /// which it may wait, which is short, so that a stall is noticed, unless the loop `rests`: no operation is open. A
    /// turn that [`tick`](Self::tick) sees later than promised is a stall.
    pub fn wait_until(&self, until: u64, now: u64, rests: bool) -> u64 {
        let mut state = self.second.borrow_mut();
        if rests {
            state.active.rest(now);
        }
        state.stalls.promise(until, now, rests)
    }

    /// Registers that the loop waits for events from `now` on.
    pub(crate) fn waits(&self, now: u64) {
        self.second.borrow_mut().stalls.waits(now);
    }

    /// Registers that a wait for events ended at `now`, because of a signal or a stop if it was `interrupted`.
    pub(crate) fn woken(&self, now: u64, interrupted: bool) {
        self.second.borrow_mut().stalls.woken(now, interrupted);
    }

    /// Sends off every second that is over at `now`, and returns the end of the running one.
    pub fn tick(&self, now: u64) -> u64 {
        let mut state = self.second.borrow_mut();
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
        let mut state = self.second.borrow_mut();
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
            measured.turn(now, &self.counters, &mut self.tally);
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
        self.counters.move_to(&mut self.tally.counts);
        if let Some(measured) = &mut self.measured {
            measured.set_apart(&mut self.tally);
        }
        for (kind, failed) in std::mem::take(&mut self.warmup_failures) {
            self.tally.count(warmup_failed_as(&kind), failed);
        }
        let clean = self.clean();
        let thread = self.thread.take(now);
        let worker_second = WorkerSecond {
            worker: self.worker,
            second: self.second,
            tally: std::mem::replace(&mut self.tally, clean),
            active: self.active.take(),
            stalls: self.stalls.take(thread.wait_ns),
            thread,
            ended,
        };
        // The collector outlives the workers, unless the run is aborted; then nobody needs the second.
        let _ = self.worker_seconds.send(worker_second);
    }
}

/// Creates an empty tally for those series of a run's specification that a driver records. Its memory is resident before the run, so that no page
/// fault falls into the driver's loop.
#[must_use]
pub fn empty_tally<D: Driver>(driver: &D, spec: &'static Spec) -> Tally {
    Tally::resident(&spec.series, |series| driver.uses_series(series))
}

#[cfg(test)]
mod tests;
