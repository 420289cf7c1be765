//! Counts events of the measured time, apart from the other events of its first and last second.

use std::sync::Arc;

use measure::counters::Counters;
use measure::tally::{Counts, Series, Tally, add};

use crate::clock;
use crate::driver::{Cancellation, Phases};

/// Copies events inside the measured time to the tally's `measured` part, to a turn of the worker's loop.
#[derive(Debug)]
pub(super) struct MeasuredTime {
    phases: Phases,
    cancellation: Arc<Cancellation>,
    /// The series that is compared with the due times.
    response: Series,
    state: State,
    /// Time of the first response in this turn: the clock is read once for all of them.
    now: Option<u64>,
}

#[derive(Debug)]
enum State {
    Before,
    /// Inside the measured time. Holds the counters and the number of failures of the running second at the beginning
    /// of the measured time.
    Within(Counts, u64),
    After,
}

impl MeasuredTime {
    pub(super) fn new(phases: Phases, cancellation: &Arc<Cancellation>, response: Series) -> Self {
        Self {
            phases,
            cancellation: Arc::clone(cancellation),
            response,
            state: State::Before,
            now: None,
        }
    }

    /// Takes the measured time from `phases`, unless it has begun.
    pub(super) fn move_to(&mut self, phases: Phases) {
        if matches!(self.state, State::Before) {
            self.phases = phases;
        }
    }

    pub(super) fn is_within(&self) -> bool {
        matches!(self.state, State::Within(..))
    }

    /// Advances to `now`, once everything that happened before is in the counters or in the tally.
    pub(super) fn turn(&mut self, now: u64, counters: &Counters, tally: &mut Tally) {
        self.now = None;
        if matches!(self.state, State::Before) && now >= self.phases.measure {
            counters.move_to(&mut tally.counts);
            self.state = State::Within(tally.counts.clone(), tally.errors.values().sum());
        }
        let end = self.phases.end.min(self.cancellation.requested_at());
        if self.is_within() && now >= end {
            counters.move_to(&mut tally.counts);
            self.set_apart(tally);
            self.state = State::After;
        }
    }

    /// Adds the counts since the beginning of the second, or of the measured time. The next second begins at zero.
    pub(super) fn set_apart(&mut self, tally: &mut Tally) {
        let State::Within(counts, failed_before) = &mut self.state else {
            return;
        };
        let measured = &mut tally.measured;
        for (name, count) in &tally.counts {
            let more = count - counts.get(name).unwrap_or(&0);
            if more > 0 {
                add(&mut measured.counts, name, more);
            }
        }
        let failed: u64 = tally.errors.values().sum();
        measured.failed += failed - *failed_before;
        counts.clear();
        *failed_before = 0;
    }

    /// Processes a value of `series`; a response time belongs to an operation that ends now.
    pub(super) fn value(&mut self, series: Series, ns: u64, tally: &mut Tally) {
        if series != self.response {
            return;
        }
        let now = *self.now.get_or_insert_with(clock::now);
        let due = now.saturating_sub(ns) as f64 - self.phases.measure as f64;
        tally.measured.responses.add(due / 1e9, ns as f64 / 1e9);
    }
}
