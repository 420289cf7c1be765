//! What of a plan can't be run about how consumers take messages, each with its field and the remedy.

use harness::plan::Invalid;

use super::Settings;

impl Settings {
    /// Whether consumers ask, and how often.
    pub(super) fn validate_taking(&self) -> Result<(), Invalid> {
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        if let Some(rate) = self.consumer_rate {
            const RATE: &str = "driver.consumer_rate (--consumer-rate)";
            if !(rate.is_finite() && rate > 0.0) {
                return wrong(
                    RATE,
                    "is not above 0: give messages per second, or leave it out for no bound",
                );
            }
            if !self.polling && (self.auto_ack || self.prefetch == 0) {
                return wrong(
                    RATE,
                    "holds acknowledgements back, and nothing waits for them with auto_ack or without a prefetch: leave these out, or ask for each message with polling",
                );
            }
        }
        if !self.polling {
            return match self.polling_interval.is_zero() {
                true => Ok(()),
                false => wrong(
                    "driver.polling_interval (--polling-interval)",
                    "is the time between two basic.get, and nobody asks: add polling, or leave it out",
                ),
            };
        }
        if self.prefetch != Self::default().prefetch || self.global_qos {
            return wrong(
                "driver.prefetch (--prefetch)",
                "limits what is delivered unasked, and with `polling` each message is asked for: leave one of the two out",
            );
        }
        if !self.consumer_args.is_empty() {
            return wrong(
                "driver.consumer_args (--consumer-args)",
                "are those of basic.consume, and with `polling` nobody consumes: leave one of the two out",
            );
        }
        if self.is_of_type("stream") {
            return wrong(
                "driver.polling (--polling)",
                "a stream can't be asked for single messages (basic.get): leave one of the two out",
            );
        }
        Ok(())
    }
}
