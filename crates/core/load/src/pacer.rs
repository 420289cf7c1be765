//! Determines when the next operation starts, from when it is charged, and when the load is over.
//!
//! Starts that come due just before the end of a run are not lost to one late wake-up. These rules hold for every
//! driver:
//!
//! - An operation that is due before the end belongs to the run. One that is due at the end or later was never
//!   offered.
//! - A fixed number of operations ([`Schedule::has_fixed_number`]) starts in full, however late.
//! - Any other operation that is due before the end starts until [`CATCH_UP_NS`] after the end. After that it is
//!   missed.
//! - After an interruption ([`Pacer::stop_at`]) nothing starts. Operations that were due by then and had not started
//!   are missed.
//!
//! A late start is charged like any other: from its due time, with its lateness as `lag`.

use crate::schedule::{Due, Schedule};

/// Time after the end, in nanoseconds, in which a rate or the clients of a closed loop may still start operations that
/// were due before the end. It is far longer than any wake-up takes, and far shorter than a run.
pub const CATCH_UP_NS: u64 = 1_000_000_000;

/// The instant that an operation counts from. Times are nanoseconds of the clock that the caller passes to the pacer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Time from which the response time counts.
    pub at: u64,
    /// Time for which it was scheduled; equal to `at` without a schedule.
    pub due: u64,
    /// Lateness of the start, part of the response time. `None` if no time was scheduled.
    pub lag: Option<u64>,
    /// Its index in the schedule of the whole run.
    pub index: u64,
    /// Index of its schedule in the pacer.
    pub group: u16,
}

/// An answer of the pacer to a loop that asks without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// Start this operation, and ask again.
    Ready(Start),
    /// Nothing is due before this time.
    Wait(u64),
    /// Nothing more will start.
    Over,
}

/// Merges schedules by due time, and turns due operations into starts until the end.
///
/// In the end, every operation of its schedules is started or missed.
#[derive(Debug)]
pub struct Pacer {
    sources: Vec<Source>,
    /// The source whose operation is due first.
    head: Option<Next>,
    /// Operations that are due at or after this time are not offered.
    end: u64,
    /// Time from which nothing starts because the run was interrupted.
    stopped: u64,
    /// Nanoseconds by which the last start came after the end.
    overrun: u64,
    started: u64,
    missed: u64,
}

/// A schedule, and its next operation.
#[derive(Debug)]
struct Source {
    schedule: Schedule,
    origin: u64,
    kind: Kind,
    /// True if its operations start in full, however late.
    in_full: bool,
    due: u64,
    index: u64,
    done: bool,
}

/// A kind of schedule, which decides how a start is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// On a schedule: charged from the due time.
    Paced,
    /// All at once: charged from the start.
    Burst,
    /// The first start of a closed-loop worker, which has a time but is not a demand: charged from the start.
    FirstStart,
}

#[derive(Debug, Clone, Copy)]
struct Next {
    due: u64,
    source: usize,
}

impl Pacer {
    /// Creates a pacer of `schedules`, whose times count from `origin`. Operations that are due at or after `end` are
    /// not offered.
    ///
    /// # Panics
    /// If there are more than 65,536 schedules.
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
            started: 0,
            missed: 0,
        };
        pacer.find_head();
        pacer
    }

    /// Moves all due times to count from another `origin`, and the end with them: the load begins earlier or later
    /// than planned. Changes nothing once an operation was started.
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

    /// Returns the next operation that is due by `now`, for a loop that serves many connections. It never waits.
    ///
    /// Such a loop is always charged. A scheduled operation is charged from its due time, and the lateness is also
    /// reported as `lag`. A burst is charged from `now`, and so is the first start of a closed-loop worker, whose
    /// later operations come from [`next_of_client`](Self::next_of_client).
    #[inline]
    pub fn poll(&mut self, now: u64) -> Tick {
        if now >= self.stopped {
            return Tick::Over;
        }
        let catches_up = now < self.caught_up_at();
        while let Some(head) = self.head {
            if head.due > now {
                return Tick::Wait(head.due);
            }
            let source = &self.sources[head.source];
            let in_time = source.in_full || catches_up;
            let start = source.start_at(now, head.source as u16);
            self.advance(head);
            if in_time {
                return Tick::Ready(self.count(start, now));
            }
            self.missed += 1;
        }
        Tick::Over
    }

    /// Returns the operation of a closed-loop worker that follows its `previous` one, at once. Returns `None` if the
    /// worker has done all of its operations, if its stages have removed it by now, at the end, or if `previous` was
    /// not of a closed loop.
    #[inline]
    pub fn next_of_client(&mut self, previous: Start, now: u64) -> Option<Start> {
        if now >= self.end {
            return None;
        }
        let source = self.sources.get(usize::from(previous.group))?;
        let at = now.saturating_sub(source.origin);
        let index = source.schedule.next_of_worker(previous.index, at)?;
        let start = Start {
            at: now,
            due: now,
            lag: None,
            index,
            group: previous.group,
        };
        Some(self.count(start, now))
    }

    /// Ends all starts at a time, as an interruption does: nothing is caught up with after it. If called several
    /// times, the earliest time holds.
    pub fn stop_at(&mut self, end: u64) {
        self.stopped = self.stopped.min(end);
        self.end = self.end.min(end);
        self.find_head();
    }

    /// Returns true once no operation starts at `now` or later.
    #[must_use]
    pub fn over(&self, now: u64) -> bool {
        if now >= self.stopped {
            return true;
        }
        let catches_up = now < self.caught_up_at();
        let mut sources = self.sources.iter();
        let waits = sources.any(|source| self.offers(source) && (source.in_full || catches_up));
        !waits
    }

    /// Returns the time until which operations that were due before the end may still start. It is unlimited for a
    /// fixed number of operations, and otherwise ends with the catch-up time.
    #[must_use]
    pub fn starts_until(&self) -> u64 {
        if self.sources.iter().any(|source| source.in_full) {
            self.stopped
        } else {
            self.caught_up_at()
        }
    }

    fn caught_up_at(&self) -> u64 {
        let after_end = self.end.saturating_add(CATCH_UP_NS);
        after_end.min(self.stopped)
    }

    /// Returns true while operations that are due all at once have not all been started. A loop starts them all before
    /// it waits for anything, because serving others in between would delay the rest.
    #[must_use]
    pub fn is_in_burst(&self, now: u64) -> bool {
        let burst = |head: Next| head.due <= now && self.sources[head.source].kind == Kind::Burst;
        now < self.stopped && self.head.is_some_and(burst)
    }

    /// Returns the nanoseconds by which the last start came after the end. The drain phase is extended by that time,
    /// so that late starts have as much time as the rest.
    #[must_use]
    pub fn overrun(&self) -> u64 {
        self.overrun
    }

    /// Returns the number of operations that were offered, due before `now`, and never started. They will not be
    /// started any more, so call it at the end of a run. Further calls return the sum.
    pub fn missed(&mut self, now: u64) -> u64 {
        while let Some(head) = self.head.filter(|head| head.due < now) {
            self.missed += 1;
            self.advance(head);
        }
        self.missed
    }

    /// Returns the number of operations started so far.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.started
    }

    #[inline]
    fn count(&mut self, start: Start, now: u64) -> Start {
        self.started += 1;
        self.overrun = now.saturating_sub(self.end);
        start
    }

    /// Returns true if the next operation of a source belongs to the run. A burst takes no time, so that it belongs to
    /// a run without duration.
    fn offers(&self, source: &Source) -> bool {
        let is_burst = source.in_full && source.kind == Kind::Burst;
        !source.done && source.due < self.stopped && (source.due < self.end || is_burst)
    }

    fn advance(&mut self, head: Next) {
        self.sources[head.source].advance();
        self.find_head();
    }

    /// Finds the operation that is due next. Groups are few, and looking at each is cheaper than keeping them in
    /// order. The first one wins a tie.
    fn find_head(&mut self) {
        let waiting = self
            .sources
            .iter()
            .enumerate()
            .filter(|(_, source)| self.offers(source));
        self.head = waiting
            .map(|(index, source)| Next {
                due: source.due,
                source: index,
            })
            .min_by_key(|head| head.due);
    }
}

impl Source {
    fn new(schedule: Schedule, origin: u64) -> Self {
        let kind = match (schedule.is_burst(), schedule.is_closed()) {
            (true, _) => Kind::Burst,
            (false, true) => Kind::FirstStart,
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

    /// Returns the next operation, which is due, as one that starts at `now`.
    fn start_at(&self, now: u64, group: u16) -> Start {
        let late = now - self.due;
        let (at, lag) = match self.kind {
            Kind::Paced => (self.due, Some(late)),
            Kind::FirstStart => (now, Some(late)),
            Kind::Burst => (now, None),
        };
        Start {
            at,
            due: self.due,
            lag,
            index: self.index,
            group,
        }
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
