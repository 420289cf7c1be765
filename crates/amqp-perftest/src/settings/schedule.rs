//! Validation of random start delays of producers.

use std::time::Duration;

use load::plan::{Invalid, Plan};
use load::schedule::Arrival;

use super::{PRODUCERS, Settings, group};

/// Maximum delay: that of a ramp.
const LONGEST: Duration = Duration::from_secs(3600);

impl Settings {
    /// Validates the random start delay. Such producers keep an interval each, so nothing else can shape their starts.
    pub(super) fn validate_start_delay(plan: &Plan<Self>) -> Result<(), Invalid> {
        let delay = plan.driver.random_start_delay;
        let wrong = |problem: &str| {
            let field = "driver.random_start_delay (--producer-random-start-delay)";
            Err(Invalid::new(field, problem))
        };
        if delay.is_zero() {
            return Ok(());
        }
        if delay > LONGEST {
            return wrong("is longer than an hour: shorten it");
        }
        let Some(group) = group(plan, PRODUCERS) else {
            return wrong("applies to producers, and the plan has none: add some, or leave it out");
        };
        let shaped = !group.stages.is_empty() || !group.ramp.is_zero();
        if shaped || group.arrival != Arrival::Constant {
            return wrong(
                "cannot be combined with a ramp, a variable rate or Poisson arrivals, which also shape the starts: leave one of the two out",
            );
        }
        Ok(())
    }
}
