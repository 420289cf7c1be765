//! A short sleep before the next poll of a closed loop, so that several responses have arrived then.
//!
//! Sleeping and waking costs the driver about as much as one request, and each request that finds the server asleep costs
//! about as much again. Responses that wait for each other share these costs. A server that is busy meanwhile loses
//! nothing: the other requests wait at it. One that is not busy gets the next requests later, by half of the sleep on
//! average, so the sleep is bounded by the service time.

use std::time::Duration;

/// The most of the service time from one poll to the next, as a divisor.
const SHARE: f64 = 8.0;
/// Number of responses that are worth a sleep, and the most that it waits for.
const LEAST: f64 = 3.0;
const MOST: f64 = 32.0;
/// The longest time from one poll to the next.
const MOST_NS: f64 = 500_000.0;
/// The shortest sleep: waking up takes as long.
const LEAST_NS: u64 = 10_000;
/// The number of responses over which the mean reaches back.
const REACH: f64 = 256.0;

/// The time to sleep before the next poll.
#[derive(Debug)]
pub(super) struct BatchDelay {
    pub(super) is_on: bool,
    /// Mean time from one response to the next, nanoseconds; 0 before the first.
    each_ns: f64,
    /// Number of responses before the last poll, and its time.
    found: u64,
    polled: u64,
    slept_ns: u64,
    /// Time that responses have waited, not yet taken.
    waited_ns: u64,
}

impl BatchDelay {
    /// Creates a delay that sleeps only if it `is_on`.
    pub(super) fn new(is_on: bool) -> Self {
        if is_on {
            // By default the kernel extends a sleep by up to 50 µs; if this call fails, it still does.
            let _ = nix::sys::prctl::set_timerslack(1);
        }
        Self {
            is_on,
            each_ns: 0.0,
            found: 0,
            polled: 0,
            slept_ns: 0,
            waited_ns: 0,
        }
    }

    /// Sleeps, but not beyond `until`, while `open` operations wait for a response.
    pub(super) fn sleep(&mut self, open: u64, until: u64, now: u64) {
        let end = (self.polled + self.period(open)).min(until);
        let ns = end.saturating_sub(now);
        if ns >= LEAST_NS {
            self.slept_ns = ns;
            std::thread::sleep(Duration::from_nanos(ns));
        }
    }

    /// Returns the time from the last poll to the next, nanoseconds; 0 if a sleep is not worth it.
    fn period(&self, open: u64) -> u64 {
        let most = (open as f64 / SHARE).min(MOST) * self.each_ns;
        let period = most.min(MOST_NS);
        if period >= LEAST * self.each_ns {
            period as u64
        } else {
            0
        }
    }

    /// Learns from a poll that has ended at `now`, up to which this many responses were `found`.
    pub(super) fn polled(&mut self, found: u64, now: u64) {
        let more = (found - self.found) as f64;
        if more > 0.0 {
            let each = (now - self.polled) as f64 / more;
            self.each_ns += (each - self.each_ns) * (more / REACH).min(0.5);
            // They came at any time of the sleep.
            self.waited_ns += (more * self.slept_ns as f64 / 2.0) as u64;
            (self.found, self.polled) = (found, now);
        }
        self.slept_ns = 0;
    }

    /// Returns the whole milliseconds that responses have waited since the last call.
    pub(super) fn take_waited_ms(&mut self) -> u64 {
        let ms = self.waited_ns / 1_000_000;
        self.waited_ns -= ms * 1_000_000;
        ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the period with this many open operations, after responses that came in this interval.
    fn period(open: u64, each_ns: u64) -> u64 {
        let mut delay = BatchDelay::new(false);
        (1..2_000).for_each(|found| delay.polled(found, found * each_ns));
        delay.period(open)
    }

    #[test]
    fn a_sleep_is_a_small_part_of_the_service_time_and_none_without_use() {
        // The service times are 1.6 ms, 16 ms, 160 ms; 320 and 160 µs; and 1 s.
        for (open, each_ns, expected) in [
            (100, 16_000, 200_000),
            (1_000, 16_000, 500_000),
            (10_000, 16_000, 500_000),
            (1_000, 10_000, 320_000),
            (20, 16_000, 0),
            (10, 16_000, 0),
            (100, 10_000_000, 0),
        ] {
            let period = period(open, each_ns);
            assert!(
                period.abs_diff(expected) <= expected / 50,
                "{open} {each_ns}: {period}"
            );
        }
    }

    #[test]
    fn responses_wait_for_half_of_a_sleep() {
        let mut delay = BatchDelay::new(true);
        (1..2_000).for_each(|found| delay.polled(found, found * 10_000));
        delay.sleep(100, u64::MAX, 1_999 * 10_000);
        assert!(delay.slept_ns.abs_diff(125_000) < 1_000, "{delay:?}");
        delay.polled(1_999 + 100, 30_000_000);
        assert_eq!(delay.take_waited_ms(), 6);
        assert_eq!(delay.take_waited_ms(), 0);
        // A poll that finds nothing is the end of the sleep too.
        delay.slept_ns = 1_000_000;
        delay.polled(1_999 + 100, 31_000_000);
        delay.polled(1_999 + 200, 32_000_000);
        assert_eq!(delay.take_waited_ms(), 0);
    }
}
