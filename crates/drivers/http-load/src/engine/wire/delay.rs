//! A short sleep used with `batch`, so that many responses have arrived at the next read.
//!
//! Sleeping and waking costs about as much as one request. Responses that wait for each other share that cost.

use std::time::Duration;

/// Number of responses that one poll should find: a sixteenth of those awaited, within these bounds.
const MIN_WANTED: u64 = 16;
const MAX_WANTED: u64 = 64;
/// Step by which the sleep is adjusted after each poll.
const STEP_NS: u64 = 5_000;
/// Maximum sleep: the most that batching may add to a latency.
const MAX_NS: u64 = 500_000;

/// The time to sleep before the next poll.
#[derive(Debug)]
pub(super) struct BatchDelay {
    wanted: bool,
    ns: u64,
}

impl BatchDelay {
    /// Creates a delay that only sleeps if `wanted`.
    pub(super) fn new(wanted: bool) -> Self {
        if wanted {
            // By default the kernel extends a sleep by up to 50 µs; if this call fails, it still does.
            let _ = nix::sys::prctl::set_timerslack(1);
        }
        Self { wanted, ns: 0 }
    }

    /// Sleeps, but not beyond `until`.
    pub(super) fn sleep(&self, until: u64, now: u64) {
        let ns = self.ns.min(until.saturating_sub(now));
        if ns > 0 {
            std::thread::sleep(Duration::from_nanos(ns));
        }
    }

    /// Adjusts the sleep by the number of events found and of responses awaited.
    pub(super) fn adjust(&mut self, found: u64, awaited: u64) {
        let wanted = (awaited / 16).clamp(MIN_WANTED, MAX_WANTED);
        self.ns = match found {
            _ if !self.wanted || awaited < 2 * MIN_WANTED => 0,
            found if found < wanted => (self.ns + STEP_NS).min(MAX_NS),
            found if found > 2 * wanted => self.ns.saturating_sub(STEP_NS),
            _ => self.ns,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_until_enough_is_found_and_is_none_where_little_is_awaited() {
        let mut delay = BatchDelay::new(true);
        (0..10).for_each(|_| delay.adjust(3, 100));
        assert_eq!(delay.ns, 10 * STEP_NS);
        delay.adjust(20, 100);
        assert_eq!(delay.ns, 10 * STEP_NS);
        delay.adjust(90, 100);
        assert_eq!(delay.ns, 9 * STEP_NS);
        (0..1_000).for_each(|_| delay.adjust(1, 100));
        assert_eq!(delay.ns, MAX_NS);
        delay.adjust(1, 2 * MIN_WANTED - 1);
        assert_eq!(delay.ns, 0);
        let mut never = BatchDelay::new(false);
        never.adjust(1, 100);
        assert_eq!(never.ns, 0);
    }
}
