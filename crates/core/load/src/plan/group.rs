//! Describes a group of clients: how many, or at which rate, and when they begin.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HIGHEST_RATE, Invalid, LONGEST, MOST_CLIENTS, Plan, PlannedStage};
use crate::duration;
use crate::schedule::{Arrival, Schedule, Share};

/// Clients that do the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The name of the group.
    pub name: String,
    /// Number of clients. Without a rate, each begins at its point in the ramp and does `ops` operations one after the
    /// other.
    #[serde(default, alias = "workers")]
    pub clients: u64,
    /// Time over which the clients begin, or the rate rises from 0.
    #[serde(default, with = "duration")]
    #[schemars(with = "duration::Text")]
    pub ramp: Duration,
    /// Operations per second, independent of the daemon (open loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Distribution of the open-loop starts.
    #[serde(default)]
    pub arrival: Arrival,
    /// Rates or numbers of users to go through one after the other; replaces `rate`, or `clients`, and `ramp`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<PlannedStage>,
    /// Number of operations of each client, or of the whole group if it has a rate; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
}

impl Group {
    /// Creates a group of clients that begin at once and go on to the end.
    #[must_use]
    pub fn new(name: &str, clients: u64) -> Self {
        Self {
            name: name.to_owned(),
            clients,
            ramp: Duration::ZERO,
            rate: None,
            arrival: Arrival::Constant,
            stages: Vec::new(),
            ops: None,
        }
    }

    /// Returns true if a fixed number of clients does one operation each.
    pub(super) fn is_used_once(&self) -> bool {
        self.rate.is_none() && self.stages.is_empty() && self.ops == Some(1)
    }

    /// Returns true if all clients do one operation at once, which takes no time.
    pub(super) fn is_burst(&self) -> bool {
        self.is_used_once() && self.ramp.is_zero()
    }

    /// Returns true if none of its operations has a due time that a start could be late for: clients of a closed loop, or
    /// clients that begin all at once.
    pub(super) fn is_unpaced(&self) -> bool {
        self.is_closed() && (!self.is_used_once() || self.is_burst())
    }

    /// Returns the expected time from the begin of the load to the last start, if one operation takes `duration`.
    #[must_use]
    pub fn expected_last_start(&self, planned: Duration, duration: Duration) -> Duration {
        let (Some(ops), true) = (self.ops, self.stages.is_empty()) else {
            return planned;
        };
        let last = match self.rate {
            // The ramp starts half as many as the full rate would in its time.
            Some(rate) => {
                Duration::try_from_secs_f64(ops as f64 / rate).map(|all| all + self.ramp / 2)
            }
            None => Duration::try_from_secs_f64(duration.as_secs_f64() * (ops - 1) as f64)
                .map(|others| self.ramp + others),
        };
        last.map_or(planned, |last| last.min(planned))
    }

    pub(super) fn validate(&self, path: &str) -> Result<(), Invalid> {
        let rates = self
            .rate
            .iter()
            .copied()
            .chain(self.stages.iter().filter_map(PlannedStage::rate));
        for rate in rates {
            if !(0.0..=HIGHEST_RATE).contains(&rate) {
                let problem = format!("{rate} is not between 0 and 10,000,000 per second");
                return Err(Invalid::new(format!("{path}.rate (--rate)"), problem));
            }
        }
        if self.rate == Some(0.0) {
            let problem =
                "0 starts nothing: give a rate above 0, or leave it out for a closed loop";
            return Err(Invalid::new(format!("{path}.rate (--rate)"), problem));
        }
        if self.rate.is_some() && !self.stages.is_empty() {
            let problem = "cannot be combined with `rate`: give one of the two";
            return Err(Invalid::new(format!("{path}.stages"), problem));
        }
        if !self.stages.is_empty() {
            return self.validate_stages(path);
        }
        let open = self.rate.is_some();
        if !open && self.clients == 0 {
            let problem = "0 clients do nothing: give at least 1, or a `rate`";
            return Err(Invalid::new(format!("{path}.clients"), problem));
        }
        if open && self.clients > 0 {
            let problem = "a group with a rate starts operations at that rate: leave `clients` out";
            return Err(Invalid::new(format!("{path}.clients"), problem));
        }
        if self.clients > MOST_CLIENTS {
            let problem = format!("{} is more than 10,000,000: lower it", self.clients);
            return Err(Invalid::new(format!("{path}.clients"), problem));
        }
        self.validate_ops(path)?;
        if self.ramp > LONGEST {
            let problem = "is longer than an hour: shorten it";
            return Err(Invalid::new(format!("{path}.ramp"), problem));
        }
        Ok(())
    }

    pub(super) fn validate_ops(&self, path: &str) -> Result<(), Invalid> {
        if self.ops == Some(0) {
            let problem = "0 operations do nothing: give at least 1, or leave it out";
            return Err(Invalid::new(format!("{path}.ops"), problem));
        }
        Ok(())
    }

    pub(super) fn schedule<D>(&self, plan: &Plan<D>, index: u64, share: Share) -> Schedule {
        let seed = plan.seed.wrapping_add(index);
        let limited = |schedule: Schedule| match self.ops {
            Some(ops) => schedule.limited(ops),
            None => schedule,
        };
        if !self.is_closed() {
            let stages = self.rate_stages(plan.planned());
            return limited(Schedule::rate(&stages, self.arrival, seed, share));
        }
        if !self.stages.is_empty() {
            return limited(self.users_schedule(share));
        }
        match self.ops {
            // Workers that are used once each are arrivals: their starts are due independently of the daemon.
            Some(1) => Schedule::spread(self.clients, self.ramp, share),
            _ => limited(Schedule::closed(self.clients, self.ramp, share)),
        }
    }

    pub(super) fn sentence(&self) -> String {
        let ramp = |verb: &str| match self.ramp {
            Duration::ZERO => " at once".to_owned(),
            ramp => format!(" {verb} {}", duration::format(ramp)),
        };
        let in_all = self
            .ops
            .map_or_else(String::new, |ops| format!(", {ops} in all"));
        if let Some(rate) = self.rate {
            let risen = if self.ramp.is_zero() {
                String::new()
            } else {
                ramp("reached within")
            };
            return format!("{rate} starts per second ({}){risen}{in_all}", self.arrival);
        }
        if !self.stages.is_empty() {
            return format!("{}{in_all}", self.stages_sentence());
        }
        let each = match self.ops {
            Some(1) => ", once each".to_owned(),
            Some(ops) => format!(", {ops} times each"),
            None => String::new(),
        };
        format!("{} started{}{each}", self.clients, ramp("over"))
    }
}
