//! The rules that every loop of a worker follows: what starts, what is missed, and when the worker ends.

use std::sync::Arc;

use measure::counters::Counter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::timers::Timers;
use crate::clock;
use crate::driver::{Cancellation, Phases, Worker};
use crate::opening_phase::WorkerOpening;
use crate::pacer::{Pacer, Start, Tick};
use crate::recorder::Recorder;
use crate::schedule::Share;

/// Interval of the timers of [`Pacing::Quantum`], unless the options have another one.
const QUANTUM_NS: u64 = 500_000;

/// The way a loop waits for the next start of an open loop. In each mode, the delay is measured (`lag`).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Pacing {
    /// A timer per start: late by tens of microseconds.
    #[default]
    Precise,
    /// A timer for all starts within half a millisecond: late by as much, and cheaper at high rates.
    Quantum,
    /// No timer: the driver busy-polls and uses a full core.
    Spin,
}

impl Pacing {
    /// Returns the latest time, in nanoseconds of any clock, at which to look for a start that is due at `due`.
    fn wake_at(self, due: u64, tick_ns: u64) -> u64 {
        match self {
            Self::Precise => due,
            Self::Quantum => due.div_ceil(tick_ns).saturating_mul(tick_ns),
            Self::Spin => 0,
        }
    }
}

/// The options of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Size of the shared read buffer in bytes: more than a peer usually sends at once.
    pub read_buffer: usize,
    /// Maximum number of scheduled operations that start before connections are served again.
    pub starts_per_turn: usize,
    /// Interval in nanoseconds at which the deadlines of connections are checked; `u64::MAX` without deadlines.
    pub sweep_ns: u64,
    /// The way to wait for the next start.
    pub pacing: Pacing,
    /// Interval of the timers of [`Pacing::Quantum`] in nanoseconds, above 0. A driver that lets its user choose it tells
    /// the audit ([`AuditInputs::tick_ns`](measure::result::AuditInputs::tick_ns)).
    pub tick_ns: u64,
    /// True if an operation begins when it starts; the loop then counts it. False if it begins later, as a message
    /// does when it is published; the handler then counts it.
    pub begins_at_start: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_buffer: 64 * 1024,
            starts_per_turn: 64,
            sweep_ns: u64::MAX,
            pacing: Pacing::Precise,
            tick_ns: QUANTUM_NS,
            begins_at_start: true,
        }
    }
}

/// The state of a worker that a loop keeps: both loops apply the same rules through it.
///
/// Times are nanoseconds of CLOCK_MONOTONIC. `T` is the content of a timer.
#[derive(Debug)]
pub struct LoopState<T> {
    /// Determines when the next operation starts.
    pub pacer: Pacer,
    /// Records the measurements.
    pub record: Recorder,
    /// The phases. Their end moves when the load is brought forward, or canceled.
    pub phases: Phases,
    /// The index of the worker, and the number of workers.
    pub share: Share,
    /// Number of descriptors that the worker may open.
    pub descriptors: u64,
    /// The beginning of this turn.
    pub now: u64,
    /// Retries, backoffs and heartbeats.
    pub timers: Timers<T>,
    pub(super) options: Options,
    opening: WorkerOpening,
    cancellation: Arc<Cancellation>,
    second_ends: u64,
    /// Time after which an operation that is due is too late to start, nanoseconds.
    deadline_ns: u64,
    /// True while due operations wait for the daemon, because the handler can't start any.
    is_held: bool,
    /// Missed operations that are counted already.
    missed: u64,
    is_woken: bool,
}

impl<T> LoopState<T> {
    /// Creates the state of a worker that has not begun.
    #[must_use]
    pub fn new(worker: Worker, options: Options) -> Self {
        Self {
            pacer: worker.pacer,
            record: worker.record,
            phases: worker.phases,
            share: worker.share,
            descriptors: worker.descriptors,
            now: 0,
            timers: Timers::default(),
            options,
            opening: worker.opening,
            cancellation: worker.cancellation,
            second_ends: 0,
            deadline_ns: worker.deadline_ns,
            is_held: false,
            missed: 0,
            is_woken: false,
        }
    }

    /// Begins a turn at `now`. After a cancellation nothing starts; a load that was brought forward begins.
    pub(super) fn begin_turn(&mut self, now: u64) {
        self.now = now;
        self.is_woken = false;
        if self.cancellation.deadline().is_some() {
            self.end_load();
        }
        if let Some(begin) = self.opening.brought_forward() {
            self.phases = self.phases.begin_at(begin, &mut self.pacer, &self.record);
        }
    }

    /// Takes the next operation that is due, and records its begin and its lateness. Those that are too late are missed.
    ///
    /// # Errors
    /// The time at which to look for the next one.
    pub(super) fn next_start(&mut self) -> Result<Start, u64> {
        loop {
            let start = match self.pacer.poll(self.now) {
                Tick::Ready(start) => start,
                Tick::Wait(due) => {
                    self.is_held = false;
                    return Err(self.options.pacing.wake_at(due, self.options.tick_ns));
                }
                Tick::Over => return Err(u64::MAX),
            };
            // Clients of a closed loop and bursts count from now, and are never late.
            if self.is_late(start.at, self.now) {
                self.shed(start.at, self.is_held);
                continue;
            }
            if let Some(late) = start.lag.filter(|_| self.phases.counts(start.at)) {
                self.record.lag(late);
            }
            self.begin(start);
            return Ok(start);
        }
    }

    /// Registers that due operations wait for the daemon: the handler can't start any before an event or a timer.
    pub(super) fn hold(&mut self) {
        self.is_held = self.has_deadline();
    }

    /// Returns true if the plan limits how long an operation may wait for its start. A handler then takes only
    /// operations that begin at once, or asks [`sheds`](Self::sheds) before it begins one.
    #[must_use]
    pub fn has_deadline(&self) -> bool {
        self.deadline_ns < u64::MAX
    }

    /// Returns true if an operation that a handler took, and that counts from `at`, is too late to begin at `now`; its
    /// client had to wait for the daemon. It is then counted as missed.
    #[must_use]
    pub fn sheds(&self, at: u64, now: u64) -> bool {
        let is_late = self.is_late(at, now);
        if is_late {
            self.shed(at, true);
        }
        is_late
    }

    fn is_late(&self, at: u64, now: u64) -> bool {
        now.saturating_sub(at) > self.deadline_ns
    }

    fn shed(&self, at: u64, is_held: bool) {
        if self.phases.counts(at) {
            self.record.add(Counter::MISSED, 1);
            self.record.add(Counter::MISSED_WAITING, u64::from(is_held));
        }
    }

    /// Returns the operation of a closed-loop client that follows its `previous` one, at once, and records its begin.
    /// Returns `None` if the client leaves.
    pub fn next_of_client(&mut self, previous: Start, now: u64) -> Option<Start> {
        let start = self.pacer.next_of_client(previous, now)?;
        self.begin(start);
        Some(start)
    }

    fn begin(&self, start: Start) {
        if self.options.begins_at_start {
            if self.phases.counts(start.at) {
                self.record.begin()
            } else {
                self.record.count(Counter::WARMUP, 1)
            }
        }
    }

    /// Sends off every second that has ended.
    pub(super) fn end_turn(&mut self) {
        self.second_ends = self.record.tick(self.now);
    }

    /// Returns true if this turn is the first one after the end of a second, whose counts are sent off with this turn.
    #[must_use]
    pub fn is_second_over(&self) -> bool {
        self.now >= self.second_ends
    }

    /// Returns the end of the running second.
    #[must_use]
    pub fn second_ends(&self) -> u64 {
        self.second_ends
    }

    /// Returns the default of when open operations are given up: at the end of the drain phase, which lasts longer if
    /// starts were late.
    #[must_use]
    pub fn drained(&self) -> u64 {
        self.phases.drained.saturating_add(self.pacer.overrun())
    }

    /// Returns when open operations are given up, given the end of the drain phase: a cancellation may come earlier.
    pub(super) fn deadline(&self, drained: u64) -> u64 {
        let requested = self.cancellation.deadline();
        requested.map_or(drained, |requested| requested.min(drained))
    }

    /// Returns true if the worker has ended: nothing starts any more and nothing is open, or the deadline has passed.
    pub(super) fn has_ended(&self, is_idle: bool, deadline: u64) -> bool {
        (is_idle && self.pacer.over(self.now)) || self.now >= deadline
    }

    /// Returns until when the loop may wait, given the earliest of the times at which something is to be done.
    pub(super) fn wait_until(&self, next: u64, deadline: u64, is_idle: bool) -> u64 {
        let next = next.min(self.second_ends).min(deadline);
        // Until the load begins it may be brought forward, which wakes nobody.
        let rests = is_idle && self.now >= self.phases.begin;
        self.record.wait_until(next, self.now, rests)
    }

    /// Ends the load now: nothing starts any more, and what was due is missed.
    pub fn end_load(&mut self) {
        self.pacer.stop_at(self.now);
        self.phases.end = self.phases.end.min(self.now);
    }

    /// Reports that all connections of the worker are open, so that the load may begin. Further calls have no effect.
    pub fn report_open(&mut self) {
        self.opening.report_open();
    }

    /// Lets the loop of [`run_async`](super::run_async) run again before it waits: its turn decides what follows.
    pub fn wake(&mut self) {
        self.is_woken = true;
    }

    pub(super) fn is_woken(&self) -> bool {
        self.is_woken
    }

    /// Counts operations as missed that the schedule made due and that will not start any more: those that a handler
    /// took and did not begin (`waiting`), because their clients waited for the daemon, and those still in the schedule.
    /// The loop calls this at its end, so a handler calls it only if it knows earlier that nothing starts any more.
    /// Nothing is counted twice.
    pub fn count_missed(&mut self, waiting: u64) {
        let missed = self.pacer.missed(clock::now());
        let of_schedule = missed - self.missed;
        let held = if self.is_held { of_schedule } else { 0 };
        let (more, waiting) = (waiting + of_schedule, waiting + held);
        self.missed = missed;
        if more > 0 {
            self.record.count(Counter::MISSED, more);
        }
        if waiting > 0 {
            self.record.count(Counter::MISSED_WAITING, waiting);
        }
    }
}
