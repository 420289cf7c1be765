//! Detects the times for which a worker's loop stalled.

use measure::disturbance::Stalls;

use crate::clock;

/// Longest time between two turns of a loop with an open operation, even if nothing is due: otherwise a stall of a closed
/// loop would go unnoticed. A hundred wake-ups a second cost less than 0.1 % of a core. A loop without an open operation
/// can only be late for what is due next.
pub(super) const HEARTBEAT_NS: u64 = 10_000_000;
/// Lateness of a turn above which the loop has stalled: ten times what a wake-up takes on a shared machine.
const STALL_NS: u64 = 10_000_000;
/// Shortest time between two readings of the thread's CPU time: the call takes 0.3 µs.
const CPU_READ_NS: u64 = 1_000_000;

/// Shortest interruption of a loop at work that counts: longer than the handling of interrupts between two of its
/// instructions.
const SHORT_NS: u64 = 2_000_000;

/// Compares the turns of a loop with the times that it promised. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(super) struct StallDetector {
    promised: Option<u64>,
    /// The time of the last reading of the thread's CPU time, and that CPU time.
    cpu: (u64, u64),
    /// The last reading before the promise.
    cpu_promised: u64,
    /// The end of the last wait for events, and the last reading before it.
    woken: Option<u64>,
    cpu_woken: u64,
    stalls: Stalls,
}

impl StallDetector {
    pub(super) fn new() -> Self {
        Self {
            promised: None,
            cpu: (0, clock::thread_cpu_ns()),
            cpu_promised: 0,
            woken: None,
            cpu_woken: 0,
            stalls: Stalls::default(),
        }
    }

    /// Registers that the loop, whose turn began at `now`, turns again at `until` or earlier. Returns the time until
    /// which it may wait, which is at most one heartbeat unless it `rests`.
    pub(super) fn promise(&mut self, until: u64, now: u64, rests: bool) -> u64 {
        let longest = if rests { u64::MAX } else { HEARTBEAT_NS };
        let until = until.min(now.saturating_add(longest));
        self.promised = Some(until.max(now));
        self.cpu_promised = self.read_cpu(now);
        until
    }

    /// Returns a reading of the thread's CPU time that is recent at `now`.
    fn read_cpu(&mut self, now: u64) -> u64 {
        if now >= self.cpu.0 + CPU_READ_NS {
            self.cpu = (now, clock::thread_cpu_ns());
        }
        self.cpu.1
    }

    /// Returns the length of a stall, if there was one: the time since the promise, minus the time for which the loop
    /// worked.
    pub(super) fn held(&mut self, now: u64) -> Option<u64> {
        let late = now.saturating_sub(self.promised.take()?);
        if late <= STALL_NS {
            return None;
        }
        let worked = clock::thread_cpu_ns().saturating_sub(self.cpu_promised);
        late.checked_sub(worked).filter(|held| *held > STALL_NS)
    }

    /// Registers that a wait for events ended at `now`, because of a signal or a stop if it was `interrupted`.
    pub(super) fn woken(&mut self, now: u64, interrupted: bool) {
        self.stalls.interrupted += u64::from(interrupted);
        self.woken = Some(now);
        self.cpu_woken = self.read_cpu(now);
    }

    /// Registers that the loop waits for events from `now` on. If it has worked for much less time than has passed since
    /// the last wait, it was interrupted.
    pub(super) fn waits(&mut self, now: u64) {
        let Some(woken) = self.woken.take() else {
            return;
        };
        let passed = now.saturating_sub(woken);
        if passed <= SHORT_NS {
            return;
        }
        let worked = clock::thread_cpu_ns().saturating_sub(self.cpu_woken);
        let held = passed.saturating_sub(worked);
        // A longer one is a stall, which the next turn notices.
        if (SHORT_NS..STALL_NS).contains(&held) {
            self.stalls.short_ns += held;
        }
    }

    pub(super) fn add(&mut self, held_ns: u64) {
        self.stalls.add(held_ns);
    }

    /// Returns the stalls since the last call. In that time the thread waited `wait_ns` for a CPU, which is no
    /// interruption; if that is not known, neither are the interruptions.
    pub(super) fn take(&mut self, wait_ns: Option<u64>) -> Stalls {
        let stalls = std::mem::take(&mut self.stalls);
        Stalls {
            short_ns: stalls.short_ns.saturating_sub(wait_ns.unwrap_or(u64::MAX)),
            ..stalls
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_a_loop_at_work_did_not_run_is_an_interruption_unless_it_waited_for_a_cpu() {
        const MS: u64 = 1_000_000;
        let found = |lasted_ns, wait_ns| {
            let mut detector = StallDetector::new();
            detector.woken(1_000 * MS, false);
            detector.waits(1_000 * MS + lasted_ns);
            detector.take(wait_ns).short_ns
        };
        // The test itself uses a little of the CPU time meanwhile.
        assert!((4 * MS..=5 * MS).contains(&found(5 * MS, Some(0))));
        assert_eq!(found(2 * MS, Some(0)), 0);
        assert_eq!(found(5 * MS, Some(5 * MS)), 0);
        assert_eq!(found(5 * MS, None), 0);
        assert_eq!(found(50 * MS, Some(0)), 0, "it is a stall");
        let mut detector = StallDetector::new();
        detector.waits(9 * MS);
        detector.woken(10 * MS, true);
        let stalls = detector.take(Some(0));
        assert_eq!((stalls.short_ns, stalls.interrupted), (0, 1));
    }
}
