//! What of a plan can't be run about how consumers take messages, each with its field and the remedy.

use harness::plan::Invalid;

use super::Settings;

impl Settings {
    /// Whether consumers ask, and how often.
    pub(super) fn validate_taking(&self) -> Result<(), Invalid> {
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
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
        if self.is_of_type("stream") {
            return wrong(
                "driver.polling (--polling)",
                "a stream can't be asked for single messages (basic.get): leave one of the two out",
            );
        }
        Ok(())
    }
}
