//! How many connections are open, and when the next one is opened: a pool that is filled at a rate, and a limit on the
//! clients that connect at once.

use crate::schedule::Share;

/// Backoff of a client that could not connect, nanoseconds, so that a dead server is not flooded.
pub const RETRY_BACKOFF_NS: u64 = 10_000_000;
/// Connection attempts per iteration of a worker's loop.
pub const CONNECTS_PER_ITERATION: u64 = 32;
/// Maximum number of pending connection attempts per worker: a server's accept queue holds some thousands, for all
/// workers together.
const MAX_CONNECTING: u64 = 128;
/// Maximum number of clients, over all workers, whose first request is not answered yet. On loopback a handshake takes
/// no time, so thousands of clients that start at once fill the server's accept queue (4,096 by default) before it
/// accepts one; the kernel then drops their data.
const MAX_UNANSWERED_FIRST_REQUESTS: u64 = 1_024;

/// The size of a pool, and how it is filled.
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// Number of connections of all workers.
    pub size: u64,
    /// Maximum number of connections opened per second by all workers; absent: as fast as possible.
    pub rate: Option<f64>,
    /// True if connections are kept: the pool opens them before they are needed, and replaces lost ones.
    pub keep_alive: bool,
}

/// The connections that a worker keeps open for the operations of open loops.
#[derive(Debug)]
pub struct Pool {
    /// Number of connections of this worker.
    size: u64,
    /// Nanoseconds between two attempts of this worker.
    every_ns: f64,
    origin: u64,
    begun: u64,
    /// Earliest time of the next attempt.
    not_before: u64,
    keep_alive: bool,
    share: Share,
}

impl Pool {
    /// Creates a worker's share of a pool, which is filled from `origin` on (nanoseconds of CLOCK_MONOTONIC).
    #[must_use]
    pub fn new(config: PoolConfig, share: Share, origin: u64) -> Self {
        Self {
            size: share.count(config.size),
            every_ns: config.rate.map_or(0.0, |rate| 1e9 / rate * share.of as f64),
            origin,
            begun: 0,
            not_before: 0,
            keep_alive: config.keep_alive,
            share,
        }
    }

    /// Returns true if the pool may have one more than `connections`.
    #[must_use]
    pub fn has_room(&self, connections: u64) -> bool {
        connections < self.size
    }

    /// Returns true if an operation may open a connection of its own, beside the `connections` that are open or
    /// pending: connections are not kept, and there is room.
    #[must_use]
    pub fn opens_on_demand(&self, connections: u64) -> bool {
        !self.keep_alive && self.has_room(connections)
    }

    /// Returns the index of the next connection.
    pub fn next_index(&mut self) -> u32 {
        let index = self.share.index + self.begun * self.share.of;
        self.begun += 1;
        index as u32
    }

    /// Returns the index of a connection to open now, given the numbers of open and pending ones.
    ///
    /// # Errors
    /// The time to try again; `u64::MAX` if only a connection that opens or closes makes room.
    pub fn next_connect(&mut self, now: u64, open: u64, connecting: u64) -> Result<u32, u64> {
        let is_busy = connecting >= MAX_CONNECTING || !self.has_room(open + connecting);
        if !self.keep_alive || is_busy {
            return Err(u64::MAX);
        }
        let due = self.origin + (self.begun as f64 * self.every_ns) as u64;
        let due = due.max(self.not_before);
        if due > now {
            return Err(due);
        }
        Ok(self.next_index())
    }

    /// Delays the next attempt after a failed one.
    pub fn back_off(&mut self, now: u64) {
        self.not_before = now + RETRY_BACKOFF_NS;
    }
}

/// Limits the closed-loop clients of a worker whose first request is not answered yet: the next client starts when one
/// of them is answered, or has lost its connection.
///
/// A client that starts at a rate never waits: its wait would be the server's latency.
#[derive(Debug)]
pub struct RampLimit {
    unanswered: u64,
    most: u64,
}

impl RampLimit {
    /// Creates the limit of one worker. Without `is_closed` (every group of the plan is a closed loop) nothing waits.
    #[must_use]
    pub fn new(share: Share, is_closed: bool) -> Self {
        Self {
            unanswered: 0,
            most: if is_closed {
                (MAX_UNANSWERED_FIRST_REQUESTS / share.of).max(16)
            } else {
                u64::MAX
            },
        }
    }

    /// Returns true if new clients must wait until earlier ones are answered.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.unanswered >= self.most
    }

    /// Counts a client that sends its first request.
    pub fn start(&mut self) {
        self.unanswered += 1;
    }

    /// Counts a client whose first request was answered, or failed.
    pub fn end(&mut self) {
        self.unanswered -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(config: PoolConfig) -> Pool {
        Pool::new(config, Share { index: 1, of: 2 }, 1_000)
    }

    #[test]
    fn a_pool_is_filled_at_its_rate_with_every_nth_index() {
        let mut pool = pool(PoolConfig {
            size: 6,
            rate: Some(1e9),
            keep_alive: true,
        });
        assert_eq!(pool.next_connect(1_000, 0, 0), Ok(1));
        assert_eq!(pool.next_connect(1_001, 0, 1), Err(1_002));
        assert_eq!(pool.next_connect(1_002, 1, 0), Ok(3));
        assert_eq!(pool.next_connect(2_000, 1, 1), Ok(5));
        assert_eq!(pool.next_connect(2_000, 3, 0), Err(u64::MAX));
        pool.back_off(3_000);
        let later = 3_000 + RETRY_BACKOFF_NS;
        assert_eq!(pool.next_connect(3_000, 2, 0), Err(later));
        assert_eq!(pool.next_connect(later, 2, 0), Ok(7));
    }

    #[test]
    fn connections_that_are_not_kept_are_opened_on_demand() {
        let mut pool = pool(PoolConfig {
            size: 4,
            rate: None,
            keep_alive: false,
        });
        assert_eq!(pool.next_connect(1_000, 0, 0), Err(u64::MAX));
        assert!(pool.opens_on_demand(1) && !pool.opens_on_demand(2));
    }

    #[test]
    fn a_limit_holds_for_all_workers_together_and_only_for_closed_loops() {
        for (of, is_closed, most) in [(1, true, 1_024), (4, true, 256), (100, true, 16)] {
            let mut limit = RampLimit::new(Share { index: 0, of }, is_closed);
            let started = (0..2_000).take_while(|_| {
                !limit.is_reached() && {
                    limit.start();
                    true
                }
            });
            assert_eq!(started.count(), most);
            limit.end();
            assert!(!limit.is_reached());
        }
        let mut none = RampLimit::new(Share { index: 0, of: 1 }, false);
        (0..2_000).for_each(|_| none.start());
        assert!(!none.is_reached());
    }
}
