//! How fast a consumer takes messages: when it has dealt with each, and, where it asks for them, when it asks again.

use crate::settings::Settings;

/// The pace of one consumer. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How long it deals with each delivery.
    latency: u64,
    /// Least time from the beginning of one to the beginning of the next.
    gap: u64,
    /// Least time between two questions.
    interval: u64,
    /// Before this the next delivery is not begun.
    next: u64,
    /// When it last asked.
    asked: u64,
}

impl Pace {
    pub(crate) fn of(settings: &Settings) -> Self {
        let latency = settings.consumer_latency.as_nanos() as u64;
        Self {
            latency,
            gap: settings
                .consumer_rate
                .map_or(latency, |rate| latency.max(gap(rate))),
            interval: settings.polling_interval.as_nanos() as u64,
            next: 0,
            asked: 0,
        }
    }

    /// A delivery has come: when it is dealt with, one after the other.
    pub(crate) fn done(&mut self, now: u64) -> u64 {
        if self.gap == 0 {
            return now;
        }
        let begins = self.next.max(now);
        self.next = begins + self.gap;
        begins + self.latency
    }

    /// A question is asked.
    pub(crate) fn asks(&mut self, now: u64) {
        self.asked = now;
    }

    /// When the next question may be asked, once the last is answered.
    pub(crate) fn asks_again(&self) -> u64 {
        self.next.max(self.asked + self.interval)
    }
}

/// Nanoseconds between two of so many a second, rounded up: the rate is an upper bound.
fn gap(rate: f64) -> u64 {
    (1e9 / rate).ceil() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn deliveries_are_dealt_with_one_after_the_other_and_idleness_is_not_made_up_for() {
        let mut pace = Pace::of(&Settings {
            consumer_latency: Duration::from_nanos(10),
            ..Settings::default()
        });
        let done = [100, 100, 105, 200].map(|now| pace.done(now));
        assert_eq!(done, [110, 120, 130, 210]);
    }

    #[test]
    fn a_rate_is_an_upper_bound_whatever_the_latency() {
        for (latency, last) in [(0, 99 * 334), (100, 99 * 334 + 100), (500, 100 * 500)] {
            let mut pace = Pace::of(&Settings {
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
        let mut pace = Pace::of(&settings);
        pace.asks(100);
        assert_eq!(pace.asks_again(), 130);
        assert_eq!((pace.done(110), pace.asks_again()), (160, 160));
    }
}
