//! Where a worker writes: cheap to clone, goes into any task of the worker's thread.
//!
//! A thread has one tally for the running second. When the second is over, the tally is swapped for a clean one and
//! sent off: no lock, no atomic and no histogram work on the thread that measures.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::Receiver;

use measure::tally::{Series, Tally, add};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock;
use crate::driver::Driver;

/// Nanoseconds of one row.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Tallies of one thread at most. Where its seconds are not read in time, because all processors are busy, memory would
/// grow by some MiB a second and thread; after so many seconds the thread waits, and is late.
const TALLIES: usize = 32;

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
    /// The integral of it over time, nanoseconds: exact to a turn of the loop that calls [`Recorder::tick`].
    pub active_ns: i64,
    /// CPU time of the thread in it, nanoseconds.
    pub cpu_ns: u64,
    /// Whether the thread has ended, and with which error.
    pub ended: Option<Result<(), String>>,
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
            cpu_ns: self.cpu_ns,
            ended: self.ended,
        };
        (interval, self.tally)
    }

    /// The last word of a worker that can't speak for itself.
    pub fn lost(lane: u64, nothing: T, why: String) -> Self {
        Self {
            lane,
            second: 0,
            tally: nothing,
            active: 0,
            active_peak: 0,
            active_ns: 0,
            cpu_ns: 0,
            ended: Some(Err(why)),
        }
    }
}

/// Where a worker writes what happened.
#[derive(Debug, Clone)]
pub struct Recorder(Rc<RefCell<Row>>);

#[derive(Debug)]
struct Row {
    lane: u64,
    origin: u64,
    second: u64,
    tally: Tally,
    active: i64,
    active_peak: i64,
    active_ns: i64,
    /// Up to when `active_ns` counts, and what was open then: what begins and ends in a turn does so as the turn is over.
    active_mark: u64,
    open: i64,
    cpu_mark: u64,
    intervals: UnboundedSender<Interval>,
    clean: Receiver<Tally>,
    /// Tallies of this thread, those that are on their way too.
    tallies: usize,
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
            active: 0,
            active_peak: 0,
            active_ns: 0,
            active_mark: origin,
            open: 0,
            cpu_mark: clock::thread_cpu_ns(),
            intervals,
            clean,
            tallies: 2,
        })))
    }

    /// Records one value of a series, in nanoseconds.
    pub fn value(&self, series: Series, ns: u64) {
        self.0.borrow_mut().tally.record(series, ns);
    }

    /// Adds to a count.
    pub fn count(&self, name: &'static str, count: u64) {
        self.0.borrow_mut().tally.count(name, count);
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
        row.active += operations as i64;
        row.active_peak = row.active_peak.max(row.active);
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
        row.active -= operations as i64;
    }

    /// Sends off every second that is over at `now`, and returns when the running one will be.
    pub fn tick(&self, now: u64) -> u64 {
        let mut row = self.0.borrow_mut();
        let running = now.saturating_sub(row.origin) / SECOND_NS;
        if running > row.second {
            // What is open as the second ends belongs to it, however late the thread comes by.
            let ended = row.origin + running * SECOND_NS;
            row.integrate(ended);
            row.send(None);
            // Seconds in which the thread did not come by hold nothing: only the running one matters.
            row.second = running;
        }
        row.integrate(now);
        row.open = row.active;
        row.origin + (row.second + 1) * SECOND_NS
    }

    /// Sends off what is left and says that the thread has ended.
    pub fn finish(&self, ended: Result<(), String>) {
        let mut row = self.0.borrow_mut();
        // What is left open here, for others to end, stays open to the end of the second.
        let end = row.origin + (row.second + 1) * SECOND_NS;
        let at_end = row.active * end.saturating_sub(row.active_mark) as i64;
        row.active_ns += at_end;
        row.send(Some(ended));
    }
}

/// Count of operations begun.
pub const STARTED: &str = "started";
/// Count of operations that ended as they should.
pub const OK: &str = "ok";
/// Count of operations left open.
pub const UNFINISHED: &str = "unfinished";
/// Count of operations that were due and never begun.
pub const MISSED: &str = "missed";

impl Row {
    /// Adds what was open since it was last asked, up to `until`.
    fn integrate(&mut self, until: u64) {
        self.active_ns += self.open * until.saturating_sub(self.active_mark) as i64;
        self.active_mark = self.active_mark.max(until);
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

    fn send(&mut self, ended: Option<Result<(), String>>) {
        let clean = self.clean();
        let cpu = clock::thread_cpu_ns();
        let interval = Interval {
            lane: self.lane,
            second: self.second,
            tally: std::mem::replace(&mut self.tally, clean),
            active: self.active,
            active_peak: self.active_peak,
            active_ns: std::mem::take(&mut self.active_ns),
            cpu_ns: cpu - self.cpu_mark,
            ended,
        };
        self.cpu_mark = cpu;
        self.active_peak = self.active;
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
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_thread_whose_seconds_are_not_read_waits_before_it_takes_all_memory() {
        let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let (give, take) = std::sync::mpsc::channel();
        give.send(Tally::new(&["one"])).unwrap();
        let seconds = 3 * TALLIES as u64;
        let thread = std::thread::spawn(move || {
            let record = Recorder::new(0, 0, Tally::new(&["one"]), send, take);
            (1..=seconds).for_each(|second| {
                record.tick(second * SECOND_NS);
            });
        });
        while sent.len() < TALLIES - 1 {
            std::thread::yield_now();
        }
        for second in 0..seconds {
            // Time for one more, which must not come.
            std::thread::sleep(std::time::Duration::from_millis(1));
            assert!(sent.len() < TALLIES, "{}", sent.len());
            let interval = sent.blocking_recv().unwrap();
            assert_eq!(interval.second, second);
            // The thread needs none after its last second.
            let _ = give.send(interval.tally);
        }
        thread.join().unwrap();
    }

    /// What is open is integrated from one turn of the loop to the next.
    #[test]
    fn what_is_open_is_integrated_over_time_and_belongs_to_the_second_in_which_it_was_open() {
        let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let (_give, take) = std::sync::mpsc::channel();
        let record = Recorder::new(0, 0, Tally::new(&["one"]), send, take);
        record.begin();
        record.tick(100 * MS);
        record.begin_many(2);
        record.tick(500 * MS);
        // The loop comes by late: what was open until the second ended is of that second.
        record.tick(1_250 * MS);
        record.ok_many(2);
        record.tick(1_500 * MS);
        record.finish(Ok(()));
        let mut rows = Vec::new();
        while let Ok(interval) = sent.try_recv() {
            rows.push((
                interval.second,
                interval.active_ns / MS as i64,
                interval.active,
            ));
        }
        // One for 0.4 s, three for 0.5 s; three for 0.5 s, and one that is left open for the rest.
        assert_eq!(rows, [(0, 1_900, 3), (1, 2_000, 1)]);
    }
}
