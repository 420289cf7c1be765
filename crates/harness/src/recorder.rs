//! Where a worker writes: cheap to clone, goes into any task of the worker's thread.
//!
//! A thread has one tally for the running second. When the second is over, the tally is swapped for a clean one and
//! sent off: no lock, no atomic and no histogram work on the thread that measures.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use measure::disturbance::Stalls;
use measure::tally::{Counts, Series, Tally, add};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock;
use crate::driver::{Driver, Phases, Stop};
use crate::usage::schedstat::{self, Schedstat};

/// Nanoseconds of one row.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Tallies of one thread at most. Where its seconds are not read in time, because all processors are busy, memory would
/// grow by some MiB a second and thread; after so many seconds the thread waits, and is late.
const TALLIES: usize = 32;

/// A loop turns this often though nothing is due: only so is it known of a closed loop that it was held. A hundred
/// wake-ups a second cost less than 0.1 % of a core.
const HEARTBEAT_NS: u64 = 10_000_000;
/// A loop that turns this much later than it said has stalled: ten times what a wake-up takes on a shared machine.
const STALL_NS: u64 = 10_000_000;
/// The CPU time of the thread is looked at this often at most: a call of 0.3 µs.
const CPU_LOOK_NS: u64 = 1_000_000;

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
    /// What began or ended since the last turn, when that was, and what `active_ns` may be off by.
    changed: u64,
    turned: u64,
    active_slack_ns: u64,
    cpu_mark: u64,
    wait_mark: Option<u64>,
    span_mark: u64,
    schedstat: Option<File>,
    stalls: Stalls,
    /// When the loop said that it turns again at the latest.
    promised: Option<u64>,
    /// When the CPU time of the thread was last looked at, and what it was.
    cpu_look: (u64, u64),
    intervals: UnboundedSender<Interval>,
    clean: Receiver<Tally>,
    /// Tallies of this thread, those that are on their way too.
    tallies: usize,
    measuring: Option<Measuring>,
}

/// Sets apart what happens inside the measured time, to a turn of the loop that calls [`Recorder::tick`].
#[derive(Debug)]
struct Measuring {
    phases: Phases,
    stop: Arc<Stop>,
    /// The series that is held against the due times.
    response: Series,
    state: State,
    /// When this turn's first response came: the clock is read once for all of them.
    now: Option<u64>,
}

/// Where the thread is.
#[derive(Debug)]
enum State {
    Before,
    /// Inside the measured time, with what the running row had counted and how many had failed when that began.
    Within(Counts, u64),
    After,
}

impl Measuring {
    /// Goes on to `now`, once all that happened before is in the tally.
    fn turn(&mut self, now: u64, tally: &mut Tally) {
        self.now = None;
        if matches!(self.state, State::Before) && now >= self.phases.measure {
            self.state = State::Within(tally.counts.clone(), tally.errors.values().sum());
        }
        let end = self.phases.end.min(self.stop.asked_at());
        if matches!(self.state, State::Within(..)) && now >= end {
            self.set_apart(tally);
            self.state = State::After;
        }
    }

    /// Adds what was counted since the row, or the measured time, began; the next row begins with nothing.
    fn set_apart(&mut self, tally: &mut Tally) {
        let State::Within(counts, failed_before) = &mut self.state else {
            return;
        };
        let measured = &mut tally.measured;
        for (name, count) in &tally.counts {
            let more = count - counts.get(name).unwrap_or(&0);
            if more > 0 {
                *measured.counts.entry(name.clone()).or_default() += more;
            }
        }
        let failed: u64 = tally.errors.values().sum();
        measured.failed += failed - *failed_before;
        counts.clear();
        *failed_before = 0;
    }

    /// Takes the response time of an operation that ends now.
    fn responded(&mut self, ns: u64, tally: &mut Tally) {
        let now = *self.now.get_or_insert_with(clock::now);
        let due = now.saturating_sub(ns) as f64 - self.phases.measure as f64;
        tally.measured.responses.add(due / 1e9, ns as f64 / 1e9);
    }
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
        let schedstat = schedstat::of_this_thread();
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
            changed: 0,
            turned: origin,
            active_slack_ns: 0,
            cpu_mark: clock::thread_cpu_ns(),
            wait_mark: schedstat.as_ref().and_then(waited),
            span_mark: origin,
            schedstat,
            stalls: Stalls::default(),
            promised: None,
            cpu_look: (0, clock::thread_cpu_ns()),
            intervals,
            clean,
            tallies: 2,
            measuring: None,
        })))
    }

    /// Sets apart what happens inside the measured time of `phases`, which ends early where `stop` is asked. `response`
    /// is the series that counts from the due time and ends with the operation.
    #[must_use]
    pub fn measuring(self, phases: Phases, stop: &Arc<Stop>, response: Series) -> Self {
        self.0.borrow_mut().measuring = Some(Measuring {
            phases,
            stop: Arc::clone(stop),
            response,
            state: State::Before,
            now: None,
        });
        self
    }

    /// Moves the measured time to that of `phases`, as long as it has not begun.
    pub fn move_to(&self, phases: Phases) {
        let row = &mut *self.0.borrow_mut();
        if let Some(measuring) = &mut row.measuring
            && matches!(measuring.state, State::Before)
        {
            measuring.phases = phases;
        }
    }

    /// Records one value of a series, in nanoseconds.
    pub fn value(&self, series: Series, ns: u64) {
        let row = &mut *self.0.borrow_mut();
        row.tally.record(series, ns);
        if let Some(measuring) = row.measuring.as_mut().filter(|of| of.response == series) {
            measuring.responded(ns, &mut row.tally);
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
        row.changed += operations;
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
        row.changed += operations;
        row.active -= operations as i64;
    }

    /// Says that the loop, whose turn began at `now`, turns again at `until` or earlier, and returns until when it may wait:
    /// a moment, so that it is noticed if it was held. What [`tick`](Self::tick) finds later than that is a stall.
    pub fn wait_until(&self, until: u64, now: u64) -> u64 {
        let mut row = self.0.borrow_mut();
        let until = until.min(now + HEARTBEAT_NS);
        row.promised = Some(until.max(now));
        if now >= row.cpu_look.0 + CPU_LOOK_NS {
            row.cpu_look = (now, clock::thread_cpu_ns());
        }
        until
    }

    /// Sends off every second that is over at `now`, and returns when the running one will be.
    pub fn tick(&self, now: u64) -> u64 {
        let mut row = self.0.borrow_mut();
        // A second that the thread did not come by has no row: a stall belongs to the one in which it ended.
        let stall = row.stalled(now);
        row.add_slack(now);
        row.turn(now);
        let running = now.saturating_sub(row.origin) / SECOND_NS;
        if running > row.second {
            // What is open as the second ends belongs to it, however late the thread comes by.
            let ended = row.origin + running * SECOND_NS;
            row.integrate(ended);
            row.send(None, now);
            // Seconds in which the thread did not come by hold nothing: only the running one matters.
            row.second = running;
        }
        if let Some(ns) = stall {
            row.stalls.add(ns);
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
        row.send(Some(ended), clock::now());
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

    /// How long the loop did not run though it had said that it would; without the time for which it worked.
    fn stalled(&mut self, now: u64) -> Option<u64> {
        let late = now.saturating_sub(self.promised.take()?);
        if late <= STALL_NS {
            return None;
        }
        let (_, cpu_before) = self.cpu_look;
        let worked = clock::thread_cpu_ns().saturating_sub(cpu_before);
        late.checked_sub(worked).filter(|held| *held > STALL_NS)
    }

    /// Of a turn that took longer than a loop may wait it is not known when in it something began or ended: a burst begins
    /// all in one.
    fn add_slack(&mut self, now: u64) {
        let changed = std::mem::take(&mut self.changed);
        let took = now.saturating_sub(std::mem::replace(&mut self.turned, now));
        if took > 2 * HEARTBEAT_NS {
            self.active_slack_ns += changed * took;
        }
    }

    /// Finds out whether the measured time has begun or ended.
    fn turn(&mut self, now: u64) {
        if let Some(measuring) = &mut self.measuring {
            measuring.turn(now, &mut self.tally);
        }
    }

    fn is_within(&self) -> bool {
        let state = self.measuring.as_ref().map(|measuring| &measuring.state);
        matches!(state, Some(State::Within(..)))
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
        if let Some(measuring) = &mut self.measuring {
            measuring.set_apart(&mut self.tally);
        }
        let clean = self.clean();
        let cpu = clock::thread_cpu_ns();
        let wait = self.schedstat.as_ref().and_then(waited);
        let interval = Interval {
            lane: self.lane,
            second: self.second,
            tally: std::mem::replace(&mut self.tally, clean),
            active: self.active,
            active_peak: self.active_peak,
            active_ns: std::mem::take(&mut self.active_ns),
            active_slack_ns: std::mem::take(&mut self.active_slack_ns),
            cpu_ns: cpu - self.cpu_mark,
            wait_ns: wait
                .zip(self.wait_mark)
                .map(|(wait, mark)| wait.saturating_sub(mark)),
            span_ns: now.saturating_sub(self.span_mark),
            stalls: std::mem::take(&mut self.stalls),
            ended,
        };
        self.cpu_mark = cpu;
        self.wait_mark = wait;
        self.span_mark = now;
        self.active_peak = self.active;
        // The collector outlives the workers but for an abort of the run, when nobody asks for the row.
        let _ = self.intervals.send(interval);
    }
}

fn waited(schedstat: &File) -> Option<u64> {
    Schedstat::read(schedstat).map(|found| found.wait_ns)
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

    /// The stalls that a loop of these turns has, in milliseconds: when each began, and until when it said to wait then.
    fn stalls(turns: &[(u64, u64)]) -> Vec<(u64, Stalls)> {
        let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let (_give, take) = std::sync::mpsc::channel();
        let record = Recorder::new(0, 0, Tally::new(&["one"]), send, take);
        for (now, until) in turns {
            record.tick(now * MS);
            assert!(record.wait_until(until * MS, now * MS) <= now * MS + HEARTBEAT_NS);
        }
        record.finish(Ok(()));
        let mut found = Vec::new();
        while let Ok(interval) = sent.try_recv() {
            found.extend(
                interval
                    .stalls
                    .found()
                    .map(|stalls| (interval.second, stalls)),
            );
        }
        found
    }

    #[test]
    fn what_begins_in_a_long_turn_may_have_begun_at_its_end() {
        let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let (_give, take) = std::sync::mpsc::channel();
        let record = Recorder::new(0, 0, Tally::new(&["one"]), send, take);
        record.tick(MS);
        record.begin_many(100);
        record.tick(401 * MS);
        record.ok_many(60);
        record.tick(402 * MS);
        record.finish(Ok(()));
        assert_eq!(sent.try_recv().unwrap().active_slack_ns, 100 * 400 * MS);
    }

    #[test]
    fn a_loop_that_turns_later_than_it_said_has_stalled() {
        assert_eq!(
            stalls(&[(0, 1_000), (10, 11), (20, 25), (35, 35), (45, 60)]),
            []
        );
        // It waits for events of a closed loop, and is held for half a second.
        let found = stalls(&[
            (0, 1_000),
            (500, 1_000),
            (510, 510),
            (541, 600),
            (1_700, 1_701),
        ]);
        let of = |(second, stalls): &(u64, Stalls)| {
            // What the test itself took of the CPU is no part of them.
            let ms = |ns: u64| (ns + MS).div_euclid(MS);
            (
                *second,
                stalls.count,
                ms(stalls.longest_ns),
                ms(stalls.total_ns),
            )
        };
        let found: Vec<_> = found.iter().map(of).collect();
        assert_eq!(found, [(0, 2, 490, 521), (1, 1, 1_149, 1_149)]);
    }

    /// The thread's own clock: it works for as long as the loop is late.
    #[test]
    fn a_turn_that_works_for_long_is_no_stall() {
        let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let (_give, take) = std::sync::mpsc::channel();
        let record = Recorder::new(0, 0, Tally::new(&["one"]), send, take);
        record.tick(MS);
        record.wait_until(MS, MS);
        let begun = clock::thread_cpu_ns();
        while clock::thread_cpu_ns() < begun + 30 * MS {}
        record.tick(32 * MS);
        record.finish(Ok(()));
        assert_eq!(sent.try_recv().unwrap().stalls, Stalls::default());
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

    /// What one thread reported, and its measured time from 1.5 s to 2.5 s of a time that begins now.
    fn measured(work: impl FnOnce(&Recorder, u64)) -> Vec<(u64, u64, u64)> {
        let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let (_give, take) = std::sync::mpsc::channel();
        let origin = clock::now();
        let phases = Phases {
            origin,
            begin: origin,
            measure: origin + 1_500 * MS,
            end: origin + 2_500 * MS,
            drained: origin + 9_000 * MS,
        };
        let stop = Arc::new(Stop::new().unwrap());
        let record = Recorder::new(0, origin, Tally::new(&["one"]), send, take).measuring(
            phases,
            &stop,
            Series(0),
        );
        work(&record, origin);
        record.finish(Ok(()));
        let mut rows = Vec::new();
        while let Ok(interval) = sent.try_recv() {
            let measured = &interval.tally.measured;
            let of = |name| measured.counts.get(name).copied().unwrap_or(0);
            rows.push((interval.second, of(OK), measured.failed));
        }
        rows
    }

    #[test]
    fn what_ends_inside_the_measured_time_is_set_apart_wherever_rows_begin() {
        let rows = measured(|record, origin| {
            // (at, ended well before it, of the warm-up, failed)
            for (at_ms, ok, of_warmup, failed) in [
                (900, 10_000, 10_000, 10_000),
                (1_200, 1_000, 1_000, 1_000),
                (1_600, 1_000, 1_000, 1_000),
                (1_900, 1, 2, 0),
                (2_100, 4, 8, 1),
                (2_400, 16, 0, 2),
                (2_600, 32, 64, 0),
                (2_900, 1_000, 1_000, 1_000),
                (3_500, 1_000, 1_000, 1_000),
            ] {
                record.ok_many(ok);
                record.ok_of_warmup(of_warmup);
                (0..failed).for_each(|_| record.error("status"));
                record.tick(origin + at_ms * MS);
            }
        });
        let measured: Vec<_> = rows
            .into_iter()
            .filter(|(_, ok, failed)| ok + failed > 0)
            .collect();
        // What came in the turn that finds the second over is of that second, and the same at both edges.
        assert_eq!(measured, [(1, 15, 1), (2, 112, 2)]);
    }

    #[test]
    fn the_measured_time_ends_where_the_run_is_asked_to() {
        let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let (_give, take) = std::sync::mpsc::channel();
        let origin = clock::now();
        let phases = Phases {
            origin,
            begin: origin,
            measure: origin,
            end: u64::MAX,
            drained: u64::MAX,
        };
        let stop = Arc::new(Stop::new().unwrap());
        let record = Recorder::new(0, origin, Tally::new(&["one"]), send, take).measuring(
            phases,
            &stop,
            Series(0),
        );
        record.tick(origin);
        record.ok_many(3);
        stop.ask(5_000 * MS);
        let asked = stop.asked_at();
        stop.ask(0);
        assert_eq!(stop.asked_at(), asked, "it was asked once");
        record.tick(asked);
        record.ok_many(100);
        record.finish(Ok(()));
        let interval = sent.try_recv().unwrap();
        assert_eq!(interval.tally.counted(OK), 103);
        assert_eq!(interval.tally.measured.counts.get(OK), Some(&3));
    }

    #[test]
    fn response_times_are_held_against_the_times_that_they_were_due() {
        let (send, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let (_give, take) = std::sync::mpsc::channel();
        let now = clock::now();
        let origin = now - 10 * SECOND_NS;
        let phases = Phases {
            origin,
            begin: origin,
            measure: origin,
            end: u64::MAX,
            drained: u64::MAX,
        };
        let stop = Arc::new(Stop::new().unwrap());
        let record = Recorder::new(0, origin, Tally::new(&["one", "two"]), send, take).measuring(
            phases,
            &stop,
            Series(1),
        );
        // All of them end at one time: what was due a second later took a second less.
        for response_s in 1..=9 {
            record.value(Series(1), response_s * SECOND_NS);
            record.value(Series(0), 1);
        }
        record.finish(Ok(()));
        let interval = sent.try_recv().unwrap();
        let line = interval.tally.measured.responses.line().unwrap();
        assert_eq!(line.points, 9);
        assert!((line.slope + 1.0).abs() < 1e-6, "{line:?}");
    }
}
