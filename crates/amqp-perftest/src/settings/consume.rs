//! Validation of consumer rates and polling.

use load::plan::Invalid;

use super::Settings;

impl Settings {
    /// Validates polling and the consumer rate.
    pub(super) fn validate_polling(&self) -> Result<(), Invalid> {
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        if let Some(rate) = self.consumer_rate {
            const RATE: &str = "driver.consumer_rate (--consumer-rate)";
            if !(rate.is_finite() && rate > 0.0) {
                return wrong(
                    RATE,
                    "must be above 0: give messages per second, or leave it out for no limit",
                );
            }
            if !self.polling && (self.auto_ack || self.prefetch == 0) {
                return wrong(
                    RATE,
                    "works by delaying acknowledgements, and with auto_ack or without a prefetch the broker does not wait for them: leave these out, or use polling",
                );
            }
        }
        if !self.polling {
            return match self.polling_interval.is_zero() {
                true => Ok(()),
                false => wrong(
                    "driver.polling_interval (--polling-interval)",
                    "is the time between two basic.get, and consumers do not poll: add polling, or leave it out",
                ),
            };
        }
        if self.prefetch != Self::default().prefetch || self.global_qos {
            return wrong(
                "driver.prefetch (--prefetch)",
                "limits deliveries of basic.consume, and with `polling` there are none: leave one of the two out",
            );
        }
        if !self.consumer_args.is_empty() {
            return wrong(
                "driver.consumer_args (--consumer-args)",
                "are arguments of basic.consume, which `polling` does not use: leave one of the two out",
            );
        }
        if self.is_of_type("stream") {
            return wrong(
                "driver.polling (--polling)",
                "a stream does not support basic.get: leave one of the two out",
            );
        }
        Ok(())
    }
}
