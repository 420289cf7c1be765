//! What of a plan can't be run about its end, each with its field and the remedy.

use harness::duration;
use harness::plan::{Invalid, Plan};
use serde::{Deserialize, Serialize};

use super::{Settings, consumers, producers};

/// What of its consumers ends a run before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ExitWhen {
    /// All have found their queue empty, and have dealt with all that they took from it.
    Empty,
    /// None was given anything for `exit_idle_after`.
    Idle,
}

impl Settings {
    /// What ends the run before its time, as part of the plan's sentence.
    pub(super) fn end_sentence(&self) -> String {
        let each = self
            .cmessages
            .map(|each| format!(", or until each consumer has had {each}"));
        let when = self.exit_when.map(|when| match when {
            ExitWhen::Empty => ", or until the queues are empty".to_owned(),
            ExitWhen::Idle => format!(
                ", or until nothing comes for {}",
                duration::format(self.exit_idle_after)
            ),
        });
        each.into_iter().chain(when).collect()
    }

    /// What ends the run before its time.
    pub(super) fn validate_ending(plan: &Plan<Self>) -> Result<(), Invalid> {
        const EXIT: &str = "driver.exit_when (--exit-when)";
        let settings = &plan.driver;
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        let (is_given, usual) = (settings.exit_when, Self::default());
        if settings.cmessages == Some(0) {
            return wrong(
                "driver.cmessages (--cmessages)",
                "0 messages are none to wait for: give at least 1, or leave it out",
            );
        }
        if consumers(plan) == 0 && (is_given.is_some() || settings.cmessages.is_some()) {
            let field = match is_given {
                Some(_) => EXIT,
                None => "driver.cmessages (--cmessages)",
            };
            return wrong(
                field,
                "is about consumers, and there are none: add some, or leave it out",
            );
        }
        let idle = is_given == Some(ExitWhen::Idle);
        if settings.exit_idle_after.is_zero()
            || (!idle && settings.exit_idle_after != usual.exit_idle_after)
        {
            return wrong(
                "driver.exit_idle_after (--exit-idle-after)",
                "is how long nothing comes, with `exit_when = \"idle\"`: give both, longer than 0, or leave it out",
            );
        }
        if is_given != Some(ExitWhen::Empty) {
            return Ok(());
        }
        if producers(plan) > 0 {
            return wrong(
                EXIT,
                "with producers a run ends by itself once all that they published was consumed: leave it out, or drain with --producers 0",
            );
        }
        if !settings.predeclared {
            return wrong(
                EXIT,
                "a queue that the run declares is emptied before it: take one as it is with predeclared",
            );
        }
        if settings.is_of_type("stream") {
            return wrong(
                EXIT,
                "a stream keeps what was consumed, so that it is never empty: give idle",
            );
        }
        Ok(())
    }
}
