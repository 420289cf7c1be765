//! The connections of the open loops, which are made before requests need them.

use harness::driver::Phases;
use harness::schedule::Share;

use crate::driver::HttpLoad;
use crate::operation::REST_NS;

/// Connections of a worker that are being made at the same time: a server's accept queue has room for some thousands, of
/// all workers.
const AT_ONCE: u64 = 128;
/// Connections that are begun before events are looked at again.
pub(crate) const DIALS_A_TURN: u64 = 32;

/// The connections that a worker keeps open for the operations of open loops.
#[derive(Debug)]
pub(crate) struct Pool {
    /// How many.
    size: u64,
    /// Nanoseconds from one to the next, of this worker.
    every_ns: f64,
    origin: u64,
    begun: u64,
    /// Nothing is begun before.
    not_before: u64,
    /// Nothing is begun then or later.
    end: u64,
    pub(crate) keeps: bool,
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
            keeps: driver.settings.keep_alive,
            share,
        }
    }

    /// Whether there may be one more than so many.
    pub(crate) fn has_room(&self, connections: u64) -> bool {
        connections < self.size
    }

    /// The place of the next connection among all.
    pub(crate) fn next_place(&mut self) -> u32 {
        let place = self.share.index + self.begun * self.share.of;
        self.begun += 1;
        place as u32
    }

    /// The place of a connection that is to be begun now, of so many that are there and so many that are being made; or
    /// when to ask again.
    pub(crate) fn begin_one(&mut self, now: u64, there: u64, connecting: u64) -> Result<u32, u64> {
        // Where there is no time to wait for, an event tells: one of them is made or lost.
        if !self.keeps
            || now >= self.end
            || connecting >= AT_ONCE
            || !self.has_room(there + connecting)
        {
            return Err(u64::MAX);
        }
        let due = self.origin + (self.begun as f64 * self.every_ns) as u64;
        let due = due.max(self.not_before);
        if due > now {
            return Err(due);
        }
        Ok(self.next_place())
    }

    /// Takes over phases whose load begins at another time.
    pub(crate) fn end_at(&mut self, end: u64) {
        self.end = end;
    }

    /// One could not be made: the next one is begun a moment later.
    pub(crate) fn rest(&mut self, now: u64) {
        self.not_before = now + REST_NS;
    }
}
