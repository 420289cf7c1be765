//! Describes the stages of a group: a rate, or a number of users, that changes from one value to the next.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Group, Invalid, LONGEST, MOST_CLIENTS, Plan};
use crate::duration;
use crate::schedule::{Schedule, Share, Stage, UserStage};

/// A stage of a group: its load changes linearly from the end of the stage before (0 at first) to `to`. Written as `{
/// rate = 100.0, over = "30s" }` or `{ users = 100, over = "30s" }`. All stages of a group are of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written", into = "Written")]
#[schemars(with = "Written")]
pub struct PlannedStage {
    /// The load at its end.
    pub to: Goal,
    /// Its duration; 0 changes the load at once.
    pub over: Duration,
}

/// The load that a stage leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// Operations per second, independent of the daemon (open loop).
    Rate(f64),
    /// Users, each of which continues by itself (closed loop).
    Users(u64),
}

/// A stage as written in a plan.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    users: Option<u64>,
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    over: Duration,
}

impl TryFrom<Written> for PlannedStage {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let to = match (written.rate, written.users) {
            (Some(rate), None) => Goal::Rate(rate),
            (None, Some(users)) => Goal::Users(users),
            (None, None) => {
                return Err("stages: a stage has neither `rate` nor `users`: give it one");
            }
            (Some(_), Some(_)) => {
                return Err("stages: a stage has both `rate` and `users`: give it one of the two");
            }
        };
        Ok(Self {
            to,
            over: written.over,
        })
    }
}

impl From<PlannedStage> for Written {
    fn from(stage: PlannedStage) -> Self {
        Self {
            rate: stage.rate(),
            users: stage.users(),
            over: stage.over,
        }
    }
}

impl PlannedStage {
    /// Creates a stage that leads to a rate.
    #[must_use]
    pub fn to_rate(rate: f64, over: Duration) -> Self {
        let to = Goal::Rate(rate);
        Self { to, over }
    }

    /// Creates a stage that leads to a number of users.
    #[must_use]
    pub fn to_users(users: u64, over: Duration) -> Self {
        let to = Goal::Users(users);
        Self { to, over }
    }

    /// Returns the operations per second at its end, if it leads to a rate.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        match self.to {
            Goal::Rate(rate) => Some(rate),
            Goal::Users(_) => None,
        }
    }

    /// Returns the users at its end, if it leads to a number of users.
    #[must_use]
    pub fn users(&self) -> Option<u64> {
        match self.to {
            Goal::Users(users) => Some(users),
            Goal::Rate(_) => None,
        }
    }
}

impl<D> Plan<D> {
    /// Sets the measured time to the rest of the stages, if no time is given and the groups have stages.
    pub fn measure_the_stages(&mut self) {
        if self.timeline.measure.is_zero() {
            let staged = self.groups.iter().map(Group::staged_for).max();
            let staged = staged.unwrap_or_default();
            self.timeline.measure = staged.saturating_sub(self.timeline.warmup);
        }
    }

    /// Checks that the stages of each group last as long as warm-up and measurement. A curve that is cut off is not
    /// the planned one, and one that is too short leaves a part of the measurement without load.
    pub(super) fn stages_fit(&self) -> Result<(), Invalid> {
        let planned = self.planned();
        let misfit = |group: &Group| !group.stages.is_empty() && group.staged_for() != planned;
        let Some(index) = self.groups.iter().position(misfit) else {
            return Ok(());
        };
        let problem = format!(
            "last {}, while timeline.warmup and timeline.measure last {}: make them equal, or leave timeline.measure out",
            duration::format(self.groups[index].staged_for()),
            duration::format(planned)
        );
        Err(Invalid::new(format!("groups[{index}].stages"), problem))
    }
}

impl Group {
    /// Returns true if its users form a closed loop: each continues as soon as its operation has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.rate.is_none() && self.stages.iter().all(|stage| stage.users().is_some())
    }

    /// Returns the maximum number of simultaneous clients. Clients of a rate are not counted.
    #[must_use]
    pub fn most_clients(&self) -> u64 {
        let staged = self.stages.iter().filter_map(PlannedStage::users).max();
        staged.unwrap_or(self.clients)
    }

    /// Returns the total duration of its stages.
    fn staged_for(&self) -> Duration {
        self.stages.iter().map(|stage| stage.over).sum()
    }

    pub(super) fn validate_stages(&self, path: &str) -> Result<(), Invalid> {
        let of_users = self.stages.iter().any(|stage| stage.users().is_some());
        let mixed = |stage: &PlannedStage| of_users != stage.users().is_some();
        // If some stages have users, those with a rate are the wrong ones.
        if let Some(index) = self.stages.iter().position(mixed) {
            let problem = "is mixed with stages of `users`: a group has stages of one kind, add another group for the rest";
            return Err(Invalid::new(
                format!("{path}.stages[{index}].rate"),
                problem,
            ));
        }
        if self.clients > 0 {
            let problem =
                "cannot be combined with `stages`, which set the load: leave `clients` out";
            return Err(Invalid::new(format!("{path}.clients"), problem));
        }
        if !self.ramp.is_zero() {
            let problem =
                "cannot be combined with `stages`, which set how the load rises: leave `ramp` out";
            return Err(Invalid::new(format!("{path}.ramp"), problem));
        }
        if self.stages.iter().any(|stage| stage.over > 24 * LONGEST) {
            let problem = "a stage is longer than a day: split the run";
            return Err(Invalid::new(format!("{path}.stages"), problem));
        }
        if of_users {
            self.validate_users(path)
        } else {
            self.validate_ops(path)
        }
    }

    fn validate_users(&self, path: &str) -> Result<(), Invalid> {
        let most = self.most_clients();
        if most == 0 {
            let problem = "no stage has users: give a stage with at least 1 user";
            return Err(Invalid::new(format!("{path}.stages"), problem));
        }
        if most > MOST_CLIENTS {
            let problem = format!("{most} users are more than 10,000,000: lower it");
            return Err(Invalid::new(format!("{path}.stages"), problem));
        }
        if self.ops.is_some() {
            let problem = "users continue until the stages remove them: leave `ops` out";
            return Err(Invalid::new(format!("{path}.ops"), problem));
        }
        Ok(())
    }

    /// Returns the curve of its rate: its stages, or its ramp and its rate until `planned`.
    pub(super) fn rate_stages(&self, planned: Duration) -> Vec<Stage> {
        let written = match self.rate {
            Some(rate) => vec![
                PlannedStage::to_rate(rate, self.ramp),
                PlannedStage::to_rate(rate, planned.saturating_sub(self.ramp)),
            ],
            None => self.stages.clone(),
        };
        let mut from = 0.0;
        let stage = |stage: PlannedStage| {
            let to = stage.rate().unwrap_or(0.0);
            let from = std::mem::replace(&mut from, to);
            Stage {
                from,
                to,
                over: stage.over,
            }
        };
        written.into_iter().map(stage).collect()
    }

    /// Returns the schedule of its stages of users.
    pub(super) fn users_schedule(&self, share: Share) -> Schedule {
        let stage = |stage: &PlannedStage| UserStage {
            users: stage.users().unwrap_or(0),
            over: stage.over,
        };
        let stages: Vec<UserStage> = self.stages.iter().map(stage).collect();
        Schedule::users(&stages, share)
    }

    pub(super) fn stages_sentence(&self) -> String {
        let stage = |stage: &PlannedStage| {
            let to = match stage.to {
                Goal::Rate(rate) => format!("{rate}/s"),
                Goal::Users(users) => users.to_string(),
            };
            match stage.over {
                Duration::ZERO => format!("to {to} at once"),
                over => format!("to {to} within {}", duration::format(over)),
            }
        };
        let stages = self.stages.iter().map(stage).collect::<Vec<_>>().join(", ");
        if self.is_closed() {
            format!("users going {stages}")
        } else {
            format!("a rate going {stages} ({})", self.arrival)
        }
    }
}
