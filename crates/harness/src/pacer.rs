//! Says when the next operation starts and from when it is charged, and when it is over.
//!
//! The end of a run is no edge at which starts are lost to one late wake-up. One rule holds for every driver:
//!
//! - What is due before the end belongs to the run. What is due at the end or later was never offered.
//! - A fixed number of operations ([`Schedule::has_fixed_number`]) starts in full, however late.
//! - Anything else that is due before the end starts until [`CATCH_UP_NS`] after the end. What has not started by then is
//!   missed.
//! - After an interruption ([`Pacer::stop_at`]) nothing starts. What was due by then and had not started is missed.
//!
//! A late start is charged as any other: from its due time, with its lateness as `lag`.

use std::time::Duration;

use crate::clock::Clock;
use crate::schedule::{Due, Schedule};

/// The time after the end, in nanoseconds, in which a rate or the clients of a closed loop may still start what was due
/// before the end: far longer than any wake-up takes, far shorter than a run.
pub const CATCH_UP_NS: u64 = 1_000_000_000;

/// The instant that an operation counts from. Times are nanoseconds of the clock that the pacer is asked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Response time counts from here.
    pub at: u64,
    /// When the schedule wanted it; equal to `at` where no schedule did.
    pub due: u64,
    /// How late the driver was by its own fault: `None` where it was busy with an operation at the due time (then the
    /// target is charged), or where no time was asked for.
    pub lag: Option<u64>,
    /// Its number in the schedule of the whole.
    pub index: u64,
    /// Place of its schedule among those of the pacer.
    pub group: u16,
}

/// What a pacer says to a loop that asks without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// Start this one, and ask again.
    Ready(Start),
    /// Nothing before this time.
    Wait(u64),
    /// Nothing more.
    Over,
}

/// What becomes of operations that can't be started when they are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// They start as soon as they can, and the wait counts as latency.
    #[default]
    Queue,
    /// Those that are more than `after` late are not started but counted, so that a stall is followed by at most
    /// `after` worth of catching up. Bursts and workers of a closed loop are never late.
    Drop {
        /// The lateness that is still borne.
        after: Duration,
    },
}

/// Merges schedules by due time and turns what is due into starts, until the end.
///
/// Every operation of its schedules is, in the end, started, dropped or missed.
#[derive(Debug)]
pub struct Pacer {
    sources: Vec<Source>,
    /// The source whose operation is due first.
    head: Option<Head>,
    /// Operations that are due at or after this time are not offered.
    end: u64,
    /// Nothing starts at or after this time: the run was interrupted.
    stopped: u64,
    /// Nanoseconds by which the last start came after the end.
    overrun: u64,
    /// Lateness in nanoseconds above which an operation is dropped.
    bears: u64,
    /// When a worker that does one thing at a time last woke from waiting for its next operation.
    awake: Option<u64>,
    /// The last operation of a closed-loop worker that has the pacer for itself.
    previous: Option<Start>,
    started: u64,
    dropped: u64,
    missed: u64,
}

/// A schedule, and its operation that comes next.
#[derive(Debug)]
struct Source {
    schedule: Schedule,
    origin: u64,
    kind: Kind,
    /// Whether its operations start in full, however late.
    in_full: bool,
    due: u64,
    index: u64,
    done: bool,
}

/// What decides how a start is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// On a schedule: from the due time.
    Paced,
    /// All at once: from the start.
    Burst,
    /// The beginning of a closed-loop worker, which has a time but no claim: from the start.
    Beginning,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    due: u64,
    source: usize,
}

impl Pacer {
    /// A pacer of `schedules`, whose times count from `origin`; what is due at or after `end` is not offered.
    ///
    /// # Panics
    /// With more than 65,536 schedules.
    #[must_use]
    pub fn new(origin: u64, end: u64, schedules: Vec<Schedule>) -> Self {
        assert!(
            schedules.len() <= usize::from(u16::MAX) + 1,
            "{} groups do not fit a u16",
            schedules.len()
        );
        let sources = schedules
            .into_iter()
            .map(|schedule| Source::new(schedule, origin))
            .collect();
        let mut pacer = Self {
            sources,
            head: None,
            end,
            stopped: u64::MAX,
            overrun: 0,
            bears: u64::MAX,
            awake: None,
            previous: None,
            started: 0,
            dropped: 0,
            missed: 0,
        };
        pacer.find_head();
        pacer
    }

    /// The same with another policy than to queue.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.bears = match policy {
            Policy::Queue => u64::MAX,
            Policy::Drop { after } => u64::try_from(after.as_nanos()).unwrap_or(u64::MAX),
        };
        self
    }

    /// Moves all due times to count from another `origin`, and the end with them: the load begins earlier or later than
    /// was planned. Changes nothing once an operation was started.
    pub fn move_to(&mut self, origin: u64, end: u64) {
        if self.started > 0 {
            return;
        }
        for source in &mut self.sources {
            source.due = source
                .due
                .saturating_sub(source.origin)
                .saturating_add(origin);
            source.origin = origin;
        }
        self.end = end.min(self.stopped);
        self.find_head();
    }

    /// The next operation that is due by `now`, for a loop that serves many connections: it never waits.
    ///
    /// Such a loop is never excused. What a schedule asked for is charged from its due time, and the lateness shows as
    /// `lag` besides. A burst is charged from `now`; so is the beginning of a closed-loop worker, whose later
    /// operations come from [`again`](Self::again).
    pub fn poll(&mut self, now: u64) -> Tick {
        match self.take(now) {
            Taken::Due(due) => Tick::Ready(self.count(due.charged_to_loop(now), now)),
            Taken::Wait(due) => Tick::Wait(due),
            Taken::Over => Tick::Over,
        }
    }

    /// The operation of a closed-loop worker that follows its `previous` one, at once. `None` if it has done all of
    /// its own, if its stages have it leave by now, if the end has come, or if `previous` was not of a closed loop.
    pub fn again(&mut self, previous: Start, now: u64) -> Option<Start> {
        if now >= self.end {
            return None;
        }
        let index = self.following(previous, now)?;
        let start = Start {
            at: now,
            due: now,
            lag: None,
            index,
            group: previous.group,
        };
        Some(self.count(start, now))
    }

    /// Waits until the next operation is due, for a worker that does one thing at a time. `None` if there is none left
    /// to start; it does not wait for the end itself.
    ///
    /// A worker that comes here after the due time was busy, and is charged from then. A worker that was waiting here
    /// is charged from when it woke: how late that was is the driver's `lag`, for all operations that came due in
    /// its sleep. In a closed loop, the worker's next operation starts at once.
    ///
    /// Cancel-safe: an operation is taken in the moment that it is returned.
    pub async fn next(&mut self, clock: &mut Clock) -> Option<Start> {
        if let Some(previous) = self.previous.take() {
            self.previous = self.again(previous, clock.now());
            if self.previous.is_some() {
                return self.previous;
            }
        }
        loop {
            let now = clock.now();
            match self.take(now) {
                Taken::Due(due) => {
                    let start = self.count(due.charged_to_worker(now, self.awake), now);
                    self.previous = (due.kind != Kind::Paced).then_some(start);
                    return Some(start);
                }
                Taken::Wait(due) => {
                    clock.sleep_until(due).await;
                    self.awake = Some(clock.now());
                }
                Taken::Over => return None,
            }
        }
    }

    /// Ends all starts at a time, as an interruption does: nothing is caught up with after it. The earliest time that was
    /// given holds.
    pub fn stop_at(&mut self, end: u64) {
        self.stopped = self.stopped.min(end);
        self.end = self.end.min(end);
        self.find_head();
    }

    /// Returns true once no operation starts at `now` or later.
    #[must_use]
    pub fn over(&self, now: u64) -> bool {
        let closed = self
            .previous
            .is_some_and(|previous| self.following(previous, now).is_some());
        if now >= self.stopped {
            return true;
        }
        let catches_up = now < self.caught_up_at();
        let mut sources = self.sources.iter();
        let waits = sources.any(|source| self.offers(source) && (source.in_full || catches_up));
        !waits && (now >= self.end || !closed)
    }

    /// Returns until when what was due before the end may still start: without limit where the number of operations is
    /// fixed, for as long as the catching up otherwise.
    #[must_use]
    pub fn starts_until(&self) -> u64 {
        match self.sources.iter().any(|source| source.in_full) {
            true => self.stopped,
            false => self.caught_up_at(),
        }
    }

    fn caught_up_at(&self) -> u64 {
        let after_end = self.end.saturating_add(CATCH_UP_NS);
        after_end.min(self.stopped)
    }

    /// Returns true while operations that are due all at once have not all been started. A loop starts them all before it
    /// waits for anything: what is served in between would delay the rest.
    #[must_use]
    pub fn is_in_burst(&self, now: u64) -> bool {
        let burst = |head: Head| head.due <= now && self.sources[head.source].kind == Kind::Burst;
        now < self.stopped && self.head.is_some_and(burst)
    }

    /// Nanoseconds by which the last start came after the end. A drain phase lasts longer by as much, so that what
    /// started late has as much time as the rest.
    #[must_use]
    pub fn overrun(&self) -> u64 {
        self.overrun
    }

    /// Operations that were offered, due before `now`, and never started. They will not be started any more: ask at the
    /// end of a run. Gives the sum when asked again.
    pub fn missed(&mut self, now: u64) -> u64 {
        while let Some(head) = self.head.filter(|head| head.due < now) {
            self.missed += 1;
            self.advance(head);
        }
        self.missed
    }

    /// Operations started so far.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Operations so far that were too late to be started.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn take(&mut self, now: u64) -> Taken {
        if now >= self.stopped {
            return Taken::Over;
        }
        let catches_up = now < self.caught_up_at();
        while let Some(head) = self.head {
            if head.due > now {
                return Taken::Wait(head.due);
            }
            let source = &self.sources[head.source];
            let in_time = source.in_full || catches_up;
            let due = Arrived {
                due: head.due,
                index: source.index,
                group: head.source as u16,
                kind: source.kind,
            };
            self.advance(head);
            if !in_time {
                self.missed += 1;
            } else if due.kind != Kind::Paced || now - due.due <= self.bears {
                return Taken::Due(due);
            } else {
                self.dropped += 1;
            }
        }
        Taken::Over
    }

    fn count(&mut self, start: Start, now: u64) -> Start {
        self.started += 1;
        self.overrun = now.saturating_sub(self.end);
        start
    }

    /// Returns true if the next operation of a source belongs to the run. A burst needs no time, so a run without any
    /// still has it.
    fn offers(&self, source: &Source) -> bool {
        let is_burst = source.in_full && source.kind == Kind::Burst;
        !source.done && source.due < self.stopped && (source.due < self.end || is_burst)
    }

    fn following(&self, previous: Start, now: u64) -> Option<u64> {
        let source = self.sources.get(usize::from(previous.group))?;
        let at = now.saturating_sub(source.origin);
        source.schedule.following(previous.index, at)
    }

    fn advance(&mut self, head: Head) {
        self.sources[head.source].advance();
        self.find_head();
    }

    /// Finds what is due next. Groups are few: looking at each is cheaper than keeping them in order. The first one wins
    /// a tie.
    fn find_head(&mut self) {
        let waiting = self
            .sources
            .iter()
            .enumerate()
            .filter(|(_, source)| self.offers(source));
        self.head = waiting
            .map(|(place, source)| Head {
                due: source.due,
                source: place,
            })
            .min_by_key(|head| head.due);
    }
}

impl Source {
    fn new(schedule: Schedule, origin: u64) -> Self {
        let kind = match (schedule.is_burst(), schedule.is_closed()) {
            (true, _) => Kind::Burst,
            (false, true) => Kind::Beginning,
            (false, false) => Kind::Paced,
        };
        let mut source = Self {
            in_full: schedule.has_fixed_number(),
            schedule,
            origin,
            kind,
            due: 0,
            index: 0,
            done: false,
        };
        source.advance();
        source
    }

    fn advance(&mut self) {
        match self.schedule.next() {
            Some(Due { at, index }) => {
                self.due = self.origin.saturating_add(at);
                self.index = index;
            }
            None => self.done = true,
        }
    }
}

/// What a pacer has for a given time.
enum Taken {
    Due(Arrived),
    Wait(u64),
    Over,
}

/// An operation whose time has come.
#[derive(Clone, Copy)]
struct Arrived {
    due: u64,
    index: u64,
    group: u16,
    kind: Kind,
}

impl Arrived {
    fn charged_to_loop(self, now: u64) -> Start {
        match self.kind {
            Kind::Paced => self.start(self.due, Some(now - self.due)),
            Kind::Beginning => self.start(now, Some(now - self.due)),
            Kind::Burst => self.start(now, None),
        }
    }

    /// `awake` is when the worker last woke: what was due by then came due in its sleep, since what was due before it
    /// went to sleep had started by then.
    fn charged_to_worker(self, now: u64, awake: Option<u64>) -> Start {
        let lag = awake.and_then(|awake| awake.checked_sub(self.due));
        match self.kind {
            Kind::Paced => self.start(self.due + lag.unwrap_or(0), lag),
            Kind::Beginning => self.start(now, lag),
            Kind::Burst => self.start(now, None),
        }
    }

    fn start(self, at: u64, lag: Option<u64>) -> Start {
        Start {
            at,
            due: self.due,
            lag,
            index: self.index,
            group: self.group,
        }
    }
}
