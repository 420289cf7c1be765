//! When a client tries again.

use std::time::Duration;

/// The delays between attempts to open a broken connection again: exponential backoff with full jitter.
///
/// Before attempt n, counted from 0, the client waits a random time between 0 and `min × 2ⁿ`, at most `max`. The count
/// starts again once a connection has lived for longer than `max`. Full jitter spreads the clients of a restarted server
/// evenly (AWS Architecture Blog, "Exponential Backoff And Jitter").
///
/// ```
/// use std::time::Duration;
/// use presence_sdk::Reconnect;
///
/// let patient = Reconnect::new(Duration::from_secs(1), Duration::from_secs(60));
/// let limited = Reconnect::default().attempts(5);
/// let never = Reconnect::never();
/// # let _ = (patient, limited, never);
/// ```
#[derive(Debug, Clone)]
pub struct Reconnect {
    min: Duration,
    pub(crate) max: Duration,
    pub(crate) attempts: Option<u32>,
}

impl Default for Reconnect {
    /// Delays of 0.5 s to 30 s, without a limit of attempts.
    fn default() -> Self {
        Self::new(Duration::from_millis(500), Duration::from_secs(30))
    }
}

impl Reconnect {
    /// Creates the delays from the bound of the first one and the bound of all.
    #[must_use]
    pub fn new(min: Duration, max: Duration) -> Self {
        Self {
            min,
            max: max.max(min),
            attempts: None,
        }
    }

    /// Returns a policy that closes the client when its connection breaks.
    #[must_use]
    pub fn never() -> Self {
        Self::default().attempts(0)
    }

    /// Limits the attempts after a connection broke. After the last one the client is closed.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// Returns the bound of the delay before an attempt, counted from 0.
    fn bound(&self, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.min.saturating_mul(factor).min(self.max)
    }

    /// Returns half of the first bound, for attempts that must not follow at once.
    pub(crate) fn least(&self) -> Duration {
        self.min / 2
    }

    /// Returns the delay before an attempt, counted from 0.
    pub(crate) fn delay(&self, attempt: u32) -> Duration {
        self.bound(attempt).mul_f64(rand::random_range(0.0..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_double_up_to_the_largest() {
        let reconnect = Reconnect::new(Duration::from_millis(100), Duration::from_millis(350));
        let bounds: Vec<u128> = [0, 1, 2, 3, 40]
            .map(|n| reconnect.bound(n).as_millis())
            .into();
        assert_eq!(bounds, [100, 200, 350, 350, 350]);
    }

    #[test]
    fn delays_are_spread_over_the_whole_bound() {
        let reconnect = Reconnect::new(Duration::from_millis(100), Duration::from_secs(1));
        let delays: Vec<f64> = (0..1000)
            .map(|_| reconnect.delay(0).as_secs_f64())
            .collect();
        assert!(delays.iter().all(|delay| (0.0..=0.1).contains(delay)));
        assert!(delays.iter().any(|delay| *delay < 0.02));
        assert!(delays.iter().any(|delay| *delay > 0.08));
    }
}
