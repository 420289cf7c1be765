//! The record of how long requests were really held.

use std::fmt;
use std::time::Duration;

use measure::tally::Distribution;
use serde_json::json;

/// Times from reading a request to having written its answer. As text it is a line of JSON.
#[derive(Debug, Default)]
pub struct Held {
    times: Distribution,
    /// Times at which requests were read whose answers are about to be written.
    answered: Vec<u64>,
}

impl Held {
    /// Notes that the answer to a request is about to be written. It was read at `read_at`, nanoseconds of
    /// CLOCK_MONOTONIC.
    #[inline]
    pub fn answer(&mut self, read_at: u64) {
        self.answered.push(read_at);
    }

    /// Records the times of all noted answers, which are written `now`.
    #[inline]
    pub fn written(&mut self, now: u64) {
        for read_at in self.answered.drain(..) {
            self.times.record(now.saturating_sub(read_at));
        }
    }

    /// Returns true if answers are noted that are not yet written.
    #[must_use]
    pub fn has_unwritten(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Returns the longest time; 0 without any.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.times.quantile(1.0).unwrap_or(0))
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quantile = |quantile| self.times.quantile(quantile);
        let held = json!({
            "count": self.times.len(),
            "p50_ns": quantile(0.5),
            "p90_ns": quantile(0.9),
            "p99_ns": quantile(0.99),
            "max_ns": quantile(1.0),
        });
        write!(f, "{}", json!({ "held": held }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_number_of_answers_and_their_percentiles() {
        let mut held = Held::default();
        assert_eq!(
            held.to_string(),
            r#"{"held":{"count":0,"max_ns":null,"p50_ns":null,"p90_ns":null,"p99_ns":null}}"#
        );
        for read_at in 1..=100 {
            held.answer(read_at);
        }
        assert!(held.has_unwritten());
        held.written(101);
        held.written(200);
        assert!(!held.has_unwritten());
        assert_eq!(
            held.to_string(),
            r#"{"held":{"count":100,"max_ns":100,"p50_ns":50,"p90_ns":90,"p99_ns":99}}"#
        );
    }
}
