//! The pace of a consumer: when it has processed each delivery and, if it polls, when it polls again.

use crate::settings::Settings;

/// The pace of one consumer. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Processing time of each delivery.
    latency: u64,
    /// Minimum time between the starts of two deliveries.
    gap: u64,
    /// Minimum time between two `basic.get`.
    interval: u64,
    /// Earliest start of the next delivery.
    next: u64,
    last_get: u64,
}

impl Pace {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        let latency = settings.consumer_latency.as_nanos() as u64;
        Self {
            latency,
            gap: settings
                .consumer_rate
                .map_or(latency, |rate| latency.max(gap(rate))),
            interval: settings.polling_interval.as_nanos() as u64,
            next: 0,
            last_get: 0,
        }
    }

    /// Adds a delivery. Returns when it is processed; deliveries are processed one after the other.
    pub(crate) fn done(&mut self, now: u64) -> u64 {
        if self.gap == 0 {
            return now;
        }
        let begins = self.next.max(now);
        self.next = begins + self.gap;
        begins + self.latency
    }

    pub(crate) fn on_get(&mut self, now: u64) {
        self.last_get = now;
    }

    /// Returns when the next `basic.get` may be sent, once the last is answered.
    pub(crate) fn next_get(&self) -> u64 {
        self.next.max(self.last_get + self.interval)
    }
}

/// Returns the nanoseconds between two of `rate` events per second, rounded up: the rate is an upper bound.
fn gap(rate: f64) -> u64 {
    (1e9 / rate).ceil() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn deliveries_are_dealt_with_one_after_the_other_and_idleness_is_not_made_up_for() {
        let mut pace = Pace::from_settings(&Settings {
            consumer_latency: Duration::from_nanos(10),
            ..Settings::default()
        });
        let done = [100, 100, 105, 200].map(|now| pace.done(now));
        assert_eq!(done, [110, 120, 130, 210]);
    }

    #[test]
    fn a_rate_is_an_upper_bound_whatever_the_latency() {
        for (latency, last) in [(0, 99 * 334), (100, 99 * 334 + 100), (500, 100 * 500)] {
            let mut pace = Pace::from_settings(&Settings {
                consumer_latency: Duration::from_nanos(latency),
                consumer_rate: Some(3e6),
                ..Settings::default()
            });
            let done: Vec<u64> = (0..100).map(|_| pace.done(0)).collect();
            assert_eq!(done[99], last, "{latency}");
        }
    }

    #[test]
    fn a_question_waits_for_its_interval_and_for_what_is_dealt_with() {
        let settings = Settings {
            polling: true,
            polling_interval: Duration::from_nanos(30),
            consumer_latency: Duration::from_nanos(50),
            ..Settings::default()
        };
        let mut pace = Pace::from_settings(&settings);
        pace.on_get(100);
        assert_eq!(pace.next_get(), 130);
        assert_eq!((pace.done(110), pace.next_get()), (160, 160));
    }
}
