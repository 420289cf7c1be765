//! With `batch`: a short sleep, so that many answers are there when they are looked for.
//!
//! Going to sleep and being woken costs about as much as an exchange does. Answers that wait for each other share it.

use std::time::Duration;

/// Answers that one look should find: a sixteenth of those that are awaited, within these.
const LEAST_WANTED: u64 = 16;
const MOST_WANTED: u64 = 64;
/// By how much the sleep is corrected after a look.
const STEP_NS: u64 = 5_000;
/// The longest sleep: what batching may add to a latency.
const MOST_NS: u64 = 500_000;

/// How long to sleep before the next look.
#[derive(Debug)]
pub(super) struct Pause {
    wanted: bool,
    ns: u64,
}

impl Pause {
    /// None, unless it is `wanted`.
    pub(super) fn new(wanted: bool) -> Self {
        if wanted {
            // The kernel rounds a sleep up by 50 µs unless it is told otherwise; where it refuses, it does.
            let _ = nix::sys::prctl::set_timerslack(1);
        }
        Self { wanted, ns: 0 }
    }

    /// Sleeps, but not beyond a time.
    pub(super) fn take(&self, until: u64, now: u64) {
        let ns = self.ns.min(until.saturating_sub(now));
        if ns > 0 {
            std::thread::sleep(Duration::from_nanos(ns));
        }
    }

    /// Corrects it by how many answers a look has found, of so many that are awaited.
    pub(super) fn learn(&mut self, found: u64, awaited: u64) {
        let wanted = (awaited / 16).clamp(LEAST_WANTED, MOST_WANTED);
        self.ns = match found {
            _ if !self.wanted || awaited < 2 * LEAST_WANTED => 0,
            found if found < wanted => (self.ns + STEP_NS).min(MOST_NS),
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
        let mut pause = Pause::new(true);
        (0..10).for_each(|_| pause.learn(3, 100));
        assert_eq!(pause.ns, 10 * STEP_NS);
        pause.learn(20, 100);
        assert_eq!(pause.ns, 10 * STEP_NS);
        pause.learn(90, 100);
        assert_eq!(pause.ns, 9 * STEP_NS);
        (0..1_000).for_each(|_| pause.learn(1, 100));
        assert_eq!(pause.ns, MOST_NS);
        pause.learn(1, 2 * LEAST_WANTED - 1);
        assert_eq!(pause.ns, 0);
        let mut never = Pause::new(false);
        never.learn(1, 100);
        assert_eq!(never.ns, 0);
    }
}
