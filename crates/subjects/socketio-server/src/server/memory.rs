//! Gives freed memory back to the system.
//!
//! The allocator keeps freed memory that lies between memory in use, and returns none of it by itself: after 10,000
//! handshakes and as many ends, the process kept 67 MB and used 1 MB of it. With this, it keeps 6 MB.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::counts::Counts;

/// Interval between two looks at the number of sessions.
const INTERVAL: Duration = Duration::from_secs(2);
/// Changes since the last time without which nothing is done while there are more: sessions that began or ended,
/// connections that ended.
const CHANGES: u64 = 1000;
/// Looks after which something is done even if the changes go on.
const LOOKS: u32 = 30;

/// The numbers seen since memory was last given back.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    /// The changes by then.
    changes: u64,
    /// Looks since then.
    looks: u32,
    /// The same, at the last look.
    last: u64,
    /// The most sessions that were open.
    peak: u64,
    /// The changes when memory was last given back while there were no more.
    settled: u64,
}

impl Seen {
    /// Returns true if memory should be given back: after many changes, once there are few more, once most sessions
    /// have ended, or once a minute. The call may stall the workers for some milliseconds, so it does not come more
    /// often; without any change between two looks there is nobody to stall, and the last few changes are enough. Sessions
    /// are counted before their memory is free, so that it is done once more then.
    fn is_due(&mut self, changes: u64, open: u64) -> bool {
        self.peak = self.peak.max(open);
        let is_idle = changes == self.last && changes != self.settled;
        let is_quiet = changes - self.last < CHANGES / 10;
        self.last = changes;
        self.looks += 1;
        let is_time = is_quiet || open <= self.peak / 2 || self.looks >= LOOKS;
        let is_due = is_idle || changes - self.changes >= CHANGES && is_time;
        if is_due {
            *self = Self {
                changes,
                looks: 0,
                last: changes,
                peak: open,
                settled: if is_idle { changes } else { self.settled },
            };
        }
        is_due
    }
}

/// Gives memory back when it is due. Never ends.
pub(crate) async fn watch(counts: Arc<Counts>) {
    let mut seen = Seen::default();
    loop {
        sleep(INTERVAL).await;
        if seen.is_due(counts.changes(), counts.open_sessions()) {
            // A panic is impossible, and would cost memory only.
            let _ = spawn_blocking(trim).await;
        }
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "only the C library can release its free pages")]
fn trim() {
    // SAFETY: the function locks each arena that it changes, and may be called at any time.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries have no such call.
#[cfg(not(target_env = "gnu"))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_after_a_ramp_and_after_a_mass_disconnect() {
        let mut seen = Seen::default();
        let looks = [
            (900, 900, false),
            (50_000, 50_000, false),
            (50_010, 50_000, true),
            (50_020, 50_000, false),
            (70_000, 30_020, false),
            (80_000, 20_020, true),
            (80_999, 20_000, false),
        ];
        for (changes, open, expected) in looks {
            assert_eq!(seen.is_due(changes, open), expected, "{changes} {open}");
        }
    }

    #[test]
    fn memory_of_the_last_to_leave_is_given_back_once_nothing_changes() {
        let mut seen = Seen::default();
        for (changes, open, expected) in [
            (10_000, 10_000, false),
            (19_400, 600, true),
            (20_000, 0, false),
            (20_000, 0, true),
            (20_000, 0, false),
            // All are counted at once, but the memory of some is freed a moment later.
            (30_000, 0, true),
            (30_000, 0, true),
            (30_000, 0, false),
        ] {
            assert_eq!(seen.is_due(changes, open), expected, "{changes} {open}");
        }
    }

    #[test]
    fn memory_is_given_back_once_a_minute_while_clients_come_and_go() {
        let mut seen = Seen::default();
        let due = (1..=90).filter(|look| seen.is_due(1000 * look, 500));
        assert_eq!(due.collect::<Vec<_>>(), [30, 60, 90]);
    }
}
