//! Counts the open operations of a worker, and integrates the count over time.

use serde::{Deserialize, Serialize};

use super::stalls::HEARTBEAT_NS;

/// Counts open operations and integrates the count over time. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(super) struct Active {
    /// Operations begun here minus those ended here; below 0 if the worker ends what others began.
    now: i64,
    peak: i64,
    /// The integral up to `integrated_until`, operations × nanoseconds.
    integral_ns: i64,
    integrated_until: u64,
    /// Operations open when this turn of the loop began. Events in a turn count from the end of the turn.
    at_turn: i64,
    turned: u64,
    /// Operations that began or ended in this turn, and the tolerance of the integral because of earlier ones.
    changed: u64,
    slack_ns: u64,
}

/// The open operations of one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSecond {
    /// Operations begun here minus those ended here, at the end of the second; below 0 if the worker ends what others
    /// began.
    pub at_end: i64,
    /// The maximum of that number during the second.
    pub peak: i64,
    /// The integral of that number over time, nanoseconds: exact to a turn of the loop that calls
    /// [`Recorder::tick`](super::Recorder::tick).
    pub integral_ns: i64,
    /// The tolerance of that integral: the operations that began or ended in long turns, times the length of the turn,
    /// nanoseconds.
    pub slack_ns: u64,
}

impl Active {
    pub(super) fn new(origin: u64) -> Self {
        Self {
            now: 0,
            peak: 0,
            integral_ns: 0,
            integrated_until: origin,
            at_turn: 0,
            turned: origin,
            changed: 0,
            slack_ns: 0,
        }
    }

    pub(super) fn begin(&mut self, operations: u64) {
        self.changed += operations;
        self.now += operations as i64;
        self.peak = self.peak.max(self.now);
    }

    pub(super) fn end(&mut self, operations: u64) {
        self.changed += operations;
        self.now -= operations as i64;
    }

    /// Adds operations to the slack that began or ended in a turn that took longer than a loop may wait: it is unknown
    /// when in the turn they did. A burst begins all in one turn.
    pub(super) fn add_slack(&mut self, now: u64) {
        let changed = std::mem::take(&mut self.changed);
        let took = now.saturating_sub(std::mem::replace(&mut self.turned, now));
        if took > 2 * HEARTBEAT_NS {
            self.slack_ns += changed * took;
        }
    }

    /// Integrates the operations that were open when the turn began up to `until`.
    pub(super) fn integrate(&mut self, until: u64) {
        self.integral_ns += self.at_turn * until.saturating_sub(self.integrated_until) as i64;
        self.integrated_until = self.integrated_until.max(until);
    }

    /// Integrates up to `now` and begins a new turn.
    pub(super) fn begin_turn(&mut self, now: u64) {
        self.integrate(now);
        self.at_turn = self.now;
    }

    /// Ends the turn at once: no operation is open, and nothing changes until something is due.
    pub(super) fn rest(&mut self, now: u64) {
        self.begin_turn(now);
        self.changed = 0;
    }

    /// Integrates the operations that are open now up to `end`: others will end them.
    pub(super) fn leave_open(&mut self, end: u64) {
        self.integral_ns += self.now * end.saturating_sub(self.integrated_until) as i64;
    }

    /// Returns the counts since the last call.
    pub(super) fn take(&mut self) -> ActiveSecond {
        ActiveSecond {
            at_end: self.now,
            peak: std::mem::replace(&mut self.peak, self.now),
            integral_ns: std::mem::take(&mut self.integral_ns),
            slack_ns: std::mem::take(&mut self.slack_ns),
        }
    }
}
