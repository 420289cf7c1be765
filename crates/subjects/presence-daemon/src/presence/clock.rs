//! The server's time.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// A clock of milliseconds since 1970 that never goes back: it reads the system's time once, and counts on from there.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    start_ms: u64,
}

impl Clock {
    /// Starts a clock with the system's time.
    #[expect(
        clippy::new_without_default,
        reason = "two clocks differ, so none is a default"
    )]
    #[must_use]
    pub fn new() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            started: Instant::now(),
            // A system whose time is before 1970 counts from there.
            start_ms: since_1970.map_or(0, |time| time.as_millis() as u64),
        }
    }

    /// Returns the time in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.start_ms + self.started.elapsed().as_millis() as u64
    }
}
