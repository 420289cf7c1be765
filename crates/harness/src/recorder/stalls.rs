//! Finds the times for which a worker's loop was held.

use measure::disturbance::Stalls;

use crate::clock;

/// A loop turns this often even if nothing is due: otherwise nobody would notice that a closed loop was held. A hundred
/// wake-ups a second cost less than 0.1 % of a core.
pub(super) const HEARTBEAT_NS: u64 = 10_000_000;
/// A loop that turns this much later than it promised has stalled: ten times what a wake-up takes on a shared machine.
const STALL_NS: u64 = 10_000_000;
/// The CPU time of the thread is read this often at most: the call takes 0.3 µs.
const CPU_READ_NS: u64 = 1_000_000;

/// Compares when a loop turns with when it promised to. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(super) struct StallDetector {
    promised: Option<u64>,
    /// When the CPU time of the thread was last read, and the time itself.
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

    /// Notes that the loop, whose turn began at `now`, turns again at `until` or earlier. Returns until when it may wait,
    /// which is at most one heartbeat.
    pub(super) fn promise(&mut self, until: u64, now: u64) -> u64 {
        let until = until.min(now + HEARTBEAT_NS);
        self.promised = Some(until.max(now));
        if now >= self.cpu.0 + CPU_READ_NS {
            self.cpu = (now, clock::thread_cpu_ns());
        }
        until
    }

    /// Returns for how long the loop was held, if it was: the time since its promise, less the time for which it worked.
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
