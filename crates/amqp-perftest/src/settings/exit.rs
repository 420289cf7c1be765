//! Validation of the early end of a run.

use load::duration;
use load::plan::{Invalid, Plan};
use serde::{Deserialize, Serialize};

use super::{Settings, consumers, producers};

/// A condition on consumers that ends a run early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ExitWhen {
    /// All have found their queue empty, and have processed everything they took from it.
    Empty,
    /// No consumer received anything for `exit_idle_after`.
    Idle,
}

impl Settings {
    /// Describes the early end, as part of the plan's sentence.
    pub(super) fn end_sentence(&self) -> String {
        let each = self
            .cmessages
            .map(|each| format!(", or until each consumer has received {each}"));
        let when = self.exit_when.map(|when| match when {
            ExitWhen::Empty => ", or until the queues are empty".to_owned(),
            ExitWhen::Idle => format!(
                ", or until nothing comes for {}",
                duration::format(self.exit_idle_after)
            ),
        });
        each.into_iter().chain(when).collect()
    }

    /// Validates the settings for the early end.
    pub(super) fn validate_exit(plan: &Plan<Self>) -> Result<(), Invalid> {
        const EXIT: &str = "driver.exit_when (--exit-when)";
        let settings = &plan.driver;
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        let (is_given, usual) = (settings.exit_when, Self::default());
        if settings.cmessages == Some(0) {
            return wrong(
                "driver.cmessages (--cmessages)",
                "must be at least 1: raise it, or leave it out",
            );
        }
        if consumers(plan) == 0 && (is_given.is_some() || settings.cmessages.is_some()) {
            let field = match is_given {
                Some(_) => EXIT,
                None => "driver.cmessages (--cmessages)",
            };
            return wrong(
                field,
                "applies to consumers, and the plan has none: add some, or leave it out",
            );
        }
        let idle = is_given == Some(ExitWhen::Idle);
        if settings.exit_idle_after.is_zero()
            || (!idle && settings.exit_idle_after != usual.exit_idle_after)
        {
            return wrong(
                "driver.exit_idle_after (--exit-idle-after)",
                "applies to `exit_when = \"idle\"` and must be longer than 0: give both, or leave it out",
            );
        }
        if is_given != Some(ExitWhen::Empty) {
            return Ok(());
        }
        if producers(plan) > 0 {
            return wrong(
                EXIT,
                "a run with producers ends by itself once everything published was consumed: leave it out, or drain with --producers 0",
            );
        }
        if !settings.predeclared {
            return wrong(
                EXIT,
                "a queue that the run declares is purged first: use an existing one with predeclared",
            );
        }
        if settings.is_of_type("stream") {
            return wrong(
                EXIT,
                "a stream keeps consumed messages and never becomes empty: use idle",
            );
        }
        Ok(())
    }
}
