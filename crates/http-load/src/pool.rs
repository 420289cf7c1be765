//! The connections of the open loops, opened before requests need them.

use load::driver::Phases;
use load::schedule::Share;

use crate::driver::HttpLoad;
use crate::operation::RETRY_BACKOFF_NS;

/// Maximum number of pending connection attempts per worker: a server's accept queue holds some thousands, for all
/// workers together.
const MAX_CONNECTING: u64 = 128;
/// Connection attempts per loop iteration.
pub(crate) const CONNECTS_PER_ITERATION: u64 = 32;

/// The connections that a worker keeps open for the operations of open loops.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Number of connections of this worker.
    size: u64,
    /// Nanoseconds between two attempts of this worker.
    every_ns: f64,
    origin: u64,
    begun: u64,
    /// Earliest time of the next attempt.
    not_before: u64,
    /// No attempts start at or after this time.
    end: u64,
    pub(crate) keep_alive: bool,
    share: Share,
}

impl Pool {
    pub(crate) fn new(driver: &HttpLoad, share: Share, phases: &Phases) -> Self {
        let rate = driver.settings.connect_rate;
        Self {
            size: share.count(driver.pool),
            every_ns: rate.map_or(0.0, |rate| 1e9 / rate * share.of as f64),
            origin: phases.origin,
            begun: 0,
            not_before: 0,
            end: phases.end,
            keep_alive: driver.settings.keep_alive,
            share,
        }
    }

    /// Returns true if the pool may have one more than `connections`.
    pub(crate) fn has_room(&self, connections: u64) -> bool {
        connections < self.size
    }

    /// Returns the index of the next connection.
    pub(crate) fn next_index(&mut self) -> u32 {
        let index = self.share.index + self.begun * self.share.of;
        self.begun += 1;
        index as u32
    }

    /// Returns the index of a connection to open now, given the numbers of open and pending ones. Otherwise returns the
    /// time to try again.
    pub(crate) fn next_connect(
        &mut self,
        now: u64,
        there: u64,
        connecting: u64,
    ) -> Result<u32, u64> {
        // u64::MAX: nothing is scheduled; a connect or close event will wake us.
        if !self.keep_alive
            || now >= self.end
            || connecting >= MAX_CONNECTING
            || !self.has_room(there + connecting)
        {
            return Err(u64::MAX);
        }
        let due = self.origin + (self.begun as f64 * self.every_ns) as u64;
        let due = due.max(self.not_before);
        if due > now {
            return Err(due);
        }
        Ok(self.next_index())
    }

    /// Sets a new end, after the load was moved.
    pub(crate) fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// Delays the next attempt after a failed one.
    pub(crate) fn back_off(&mut self, now: u64) {
        self.not_before = now + RETRY_BACKOFF_NS;
    }
}
