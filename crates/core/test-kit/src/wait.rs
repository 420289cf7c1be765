//! Waiting for a condition that sends no notification.

use std::time::Duration;

#[expect(
    clippy::disallowed_types,
    reason = "a test waits in real time, and may use nothing of the instrument"
)]
use std::time::Instant;

/// A generous limit: on a busy machine with two cores a process may take seconds to start.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Time between two looks at a condition.
const INTERVAL: Duration = Duration::from_millis(2);

/// Checks repeatedly until a condition holds.
///
/// # Panics
/// The condition does not hold within a minute.
#[track_caller]
pub fn wait_until(condition: &str, holds: impl FnMut() -> bool) {
    wait_until_within(LIMIT, condition, holds);
}

/// Checks repeatedly until a condition holds.
///
/// # Panics
/// The condition does not hold within the limit.
#[track_caller]
pub fn wait_until_within(limit: Duration, condition: &str, holds: impl FnMut() -> bool) {
    let held = becomes_true(limit, holds);
    assert!(held, "waited {limit:?} for this: {condition}");
}

/// Checks repeatedly until a condition holds; returns false if it does not within the limit.
#[expect(clippy::disallowed_types, reason = "as above")]
pub fn becomes_true(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(INTERVAL);
    }
    true
}
