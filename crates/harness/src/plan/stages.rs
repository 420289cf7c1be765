//! Stages of a group: a rate, or a number of users, that goes from one value to the next.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Group, Invalid, LONGEST, MOST_WORKERS, Plan};
use crate::duration;
use crate::schedule::{Schedule, Share, Stage, UserStage};

/// A stage of a group: its load goes evenly from that of the stage before (0 at first) to `to`. Written as
/// `{ rate = 100.0, over = "30s" }` or `{ users = 100, over = "30s" }`; the stages of a group are of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct PlannedStage {
    /// The load at its end.
    pub to: Goal,
    /// How long it takes; 0 is at once.
    pub over: Duration,
}

/// What a stage goes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// Operations per second, whatever the daemon does (open loop).
    Rate(f64),
    /// Users, of whom each goes on by himself (closed loop).
    Users(u64),
}

/// A stage as a plan has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    users: Option<u64>,
    #[serde(with = "duration")]
    over: Duration,
}

impl TryFrom<Written> for PlannedStage {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let to = match (written.rate, written.users) {
            (Some(rate), None) => Goal::Rate(rate),
            (None, Some(users)) => Goal::Users(users),
            (None, None) => return Err("stages: one has neither `rate` nor `users`: give it one"),
            (Some(_), Some(_)) => {
                return Err("stages: one has both `rate` and `users`: give it one of the two");
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
    /// A stage that goes to a rate.
    #[must_use]
    pub fn to_rate(rate: f64, over: Duration) -> Self {
        let to = Goal::Rate(rate);
        Self { to, over }
    }

    /// A stage that goes to a number of users.
    #[must_use]
    pub fn to_users(users: u64, over: Duration) -> Self {
        let to = Goal::Users(users);
        Self { to, over }
    }

    /// Operations per second at its end, if it goes to a rate.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        match self.to {
            Goal::Rate(rate) => Some(rate),
            Goal::Users(_) => None,
        }
    }

    /// Users at its end, if it goes to a number of them.
    #[must_use]
    pub fn users(&self) -> Option<u64> {
        match self.to {
            Goal::Users(users) => Some(users),
            Goal::Rate(_) => None,
        }
    }
}

impl<D> Plan<D> {
    /// Where no time to measure is given and the groups have stages: measures until they are over.
    pub fn measure_the_stages(&mut self) {
        if self.timeline.measure.is_zero() {
            let staged = self.groups.iter().map(Group::staged_for).max();
            let staged = staged.unwrap_or_default();
            self.timeline.measure = staged.saturating_sub(self.timeline.warmup);
        }
    }

    /// Whether the stages of each group last as long as warm-up and measurement: a curve that is cut off is not the one
    /// that was asked for, and one that is too short leaves a part of the measurement without load.
    pub(super) fn stages_fit(&self) -> Result<(), Invalid> {
        let planned = self.planned();
        let misfit = |group: &Group| !group.stages.is_empty() && group.staged_for() != planned;
        let Some(place) = self.groups.iter().position(misfit) else {
            return Ok(());
        };
        let problem = format!(
            "last {}, while timeline.warmup and timeline.measure last {}: make them equal, or leave timeline.measure out",
            duration::format(self.groups[place].staged_for()),
            duration::format(planned)
        );
        Err(Invalid::new(format!("groups[{place}].stages"), problem))
    }
}

impl Group {
    /// Whether its workers go on by themselves, each as soon as his operation has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.rate.is_none() && self.stages.iter().all(|stage| stage.users().is_some())
    }

    /// Most workers at once: those of a rate are not counted.
    #[must_use]
    pub fn most_workers(&self) -> u64 {
        let staged = self.stages.iter().filter_map(PlannedStage::users).max();
        staged.unwrap_or(self.workers)
    }

    /// How long its stages last.
    fn staged_for(&self) -> Duration {
        self.stages.iter().map(|stage| stage.over).sum()
    }

    pub(super) fn validate_stages(&self, path: &str) -> Result<(), Invalid> {
        let wrong = |field: String, problem: &str| Err(Invalid::new(field, problem));
        let of_users = self.stages.iter().any(|stage| stage.users().is_some());
        let mixed = |stage: &PlannedStage| of_users != stage.users().is_some();
        // Where some go to users, those that go to a rate are the odd ones.
        if let Some(place) = self.stages.iter().position(mixed) {
            let field = format!("{path}.stages[{place}].rate");
            return wrong(
                field,
                "stands beside stages of `users`: a group has stages of one kind, add another group for the rest",
            );
        }
        if self.workers > 0 {
            let field = format!("{path}.workers");
            return wrong(
                field,
                "the stages say how many or how fast: leave `workers` out",
            );
        }
        if !self.ramp.is_zero() {
            let field = format!("{path}.ramp");
            return wrong(field, "the stages say how the load rises: leave `ramp` out");
        }
        if self.stages.iter().any(|stage| stage.over > 24 * LONGEST) {
            let field = format!("{path}.stages");
            return wrong(field, "one is longer than a day: split the run");
        }
        match of_users {
            true => self.validate_users(path),
            false if self.ops == Some(0) => wrong(
                format!("{path}.ops"),
                "0 operations do nothing: give at least 1, or leave it out",
            ),
            false => Ok(()),
        }
    }

    fn validate_users(&self, path: &str) -> Result<(), Invalid> {
        let most = self.most_workers();
        if most == 0 {
            let problem = "nobody ever begins: give a stage with at least 1 user";
            return Err(Invalid::new(format!("{path}.stages"), problem));
        }
        if most > MOST_WORKERS {
            let problem = format!("{most} users are more than 10,000,000: lower it");
            return Err(Invalid::new(format!("{path}.stages"), problem));
        }
        if self.ops.is_some() {
            let problem = "users go on until the stages have them leave: leave `ops` out";
            return Err(Invalid::new(format!("{path}.ops"), problem));
        }
        Ok(())
    }

    /// The schedule of its stages.
    pub(super) fn staged(&self, seed: u64, share: Share) -> Schedule {
        if self.is_closed() {
            let stage = |stage: &PlannedStage| UserStage {
                users: stage.users().unwrap_or(0),
                over: stage.over,
            };
            let stages: Vec<UserStage> = self.stages.iter().map(stage).collect();
            return Schedule::users(&stages, share);
        }
        let mut from = 0.0;
        let stage = |stage: &PlannedStage| {
            let stage = Stage {
                from,
                to: stage.rate().unwrap_or(0.0),
                over: stage.over,
            };
            from = stage.to;
            stage
        };
        let stages: Vec<Stage> = self.stages.iter().map(stage).collect();
        Schedule::rate(&stages, self.arrival, seed, share)
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
        match self.is_closed() {
            true => format!("users going {stages}"),
            false => format!("a rate going {stages} ({})", self.arrival),
        }
    }
}
