//! What of a plan can't be run about how producers begin, each with its field and the remedy.

use std::time::Duration;

use harness::plan::{Invalid, Plan};
use harness::schedule::Arrival;

use super::{PRODUCERS, Settings, group};

/// Longest delay: that of a ramp.
const LONGEST: Duration = Duration::from_secs(3600);

impl Settings {
    /// Producers that begin at random keep an interval each: nothing else can shape their starts.
    pub(super) fn validate_starting(plan: &Plan<Self>) -> Result<(), Invalid> {
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
            return wrong("is about producers, and there are none: add some, or leave it out");
        };
        let shaped = !group.stages.is_empty() || !group.ramp.is_zero();
        if shaped || group.arrival != Arrival::Constant {
            return wrong(
                "lets each producer begin at a time of its own, which a ramp, a rate that varies and Poisson arrivals do in other ways: leave one of the two out",
            );
        }
        Ok(())
    }
}
