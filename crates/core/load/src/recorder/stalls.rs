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

/// Compares the turns of a loop with the times that it promised. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(super) struct StallDetector {
    promised: Option<u64>,
    /// The time of the last reading of the thread's CPU time, and that CPU time.
    cpu: (u64, u64),
    stalls: Stalls,
}

impl StallDetector {
    pub(super) fn new() -> Self {
        Self {
            promised: None,
            cpu: (0, clock::thread_cpu_ns()),
            stalls: Stalls::default(),
        }
    }

    /// Registers that the loop, whose turn began at `now`, turns again at `until` or earlier. Returns the time until
    /// which it may wait, which is at most one heartbeat unless it `rests`.
    pub(super) fn promise(&mut self, until: u64, now: u64, rests: bool) -> u64 {
        let longest = if rests { u64::MAX } else { HEARTBEAT_NS };
        let until = until.min(now.saturating_add(longest));
        self.promised = Some(until.max(now));
        if now >= self.cpu.0 + CPU_READ_NS {
            self.cpu = (now, clock::thread_cpu_ns());
        }
        until
    }

    /// Returns the length of a stall, if there was one: the time since the promise, minus the time for which the loop
    /// worked.
    pub(super) fn held(&mut self, now: u64) -> Option<u64> {
        let late = now.saturating_sub(self.promised.take()?);
        if late <= STALL_NS {
            return None;
        }
        let worked = clock::thread_cpu_ns().saturating_sub(self.cpu.1);
        late.checked_sub(worked).filter(|held| *held > STALL_NS)
    }

    pub(super) fn add(&mut self, held_ns: u64) {
        self.stalls.add(held_ns);
    }

    /// Returns the stalls since the last call.
    pub(super) fn take(&mut self) -> Stalls {
        std::mem::take(&mut self.stalls)
    }
}
