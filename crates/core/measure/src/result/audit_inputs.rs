//! The expectations that the audit compares a run with: values from the plan, and counts of both sides.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Expectations that the audit compares the figures of a run with. An absent field skips its check.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditInputs {
    /// The series that record how long an operation is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lifetime>,
    /// Users that the plan keeps busy, averaged over the measured time, in a closed loop without think time. A user
    /// with several open operations counts once for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<f64>,
    /// Connections that the plan opens before the load and holds open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// Connections that the plan may open at once; absent if they follow from its users, and in older results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// True if the plan keeps connections open from one request to the next.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reuses_connections: bool,
    /// The phase before the load in which connections are opened, if the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<OpeningTime>,
    /// Interval at which the plan has all operations start that are due, nanoseconds; absent if each starts when it is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_ns: Option<u64>,
    /// Planned seconds of load, warm-up plus measure, if only time ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_s: Option<f64>,
    /// Seconds at the end of the load in which no operation is due, such as the end of a ramp down to nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle_tail_s: f64,
    /// Seconds from the start of the load until its ramps are over and it stays the same. Absent if it changes as
    /// planned, and in older results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_from_s: Option<f64>,
    /// Seconds from the start of the load until the first group with a rate has all its operations; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_to_s: Option<f64>,
    /// The groups with stages that only time ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staged: Vec<StagedGroup>,
    /// The steps of a rate that rises, if there are at least three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RateStep>,
    /// CPU use of the driver's busiest worker over the run, percent of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_cpu_pct: Option<f64>,
    /// Counters that both driver and daemon have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<CounterComparison>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// The phases of a plan, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedPhases {
    /// Load whose operations do not count.
    pub warmup_s: f64,
    /// Load whose operations count.
    pub measure_s: f64,
    /// Time after the load in which open operations may end.
    pub drain_s: f64,
}

/// A group whose load follows stages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StagedGroup {
    /// Name of the group.
    pub group: String,
    /// Seconds of all stages together.
    pub planned_s: f64,
    /// Seconds at the end of the stages in which no operation is due.
    pub idle_tail_s: f64,
}

/// A step of a rate that rises: a time of the measured load in which the rate stays the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateStep {
    /// Its begin, seconds from the start of the load.
    pub from_s: f64,
    /// Its end, seconds from the start of the load.
    pub to_s: f64,
    /// Operations due per second.
    pub per_s: f64,
    /// The variance of the number of arrivals as a share of their mean: 0 if they are even, 1 for independent users.
    #[serde(default)]
    pub dispersion: f64,
}

/// The phase in which connections are opened before the load. The seconds of a run count from the start of this phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpeningTime {
    /// Seconds from the first connection to the start of the load.
    pub took_s: f64,
    /// Seconds after which the load starts with the connections that are open.
    pub limit_s: f64,
    /// True if all connections were open when the load started.
    pub complete: bool,
}

/// The series that record how long an operation is open, from its counted start to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lifetime {
    /// The names: one series, or several consecutive parts of an operation.
    pub series: Vec<String>,
    /// True if the series include the time between an operation's due time and its start.
    #[serde(default)]
    pub from_due: bool,
    /// Maximum delay in nanoseconds before an ended operation is counted as ended.
    #[serde(default)]
    pub counted_late_ns: u64,
}

impl Lifetime {
    /// Creates a lifetime of one series that lasts exactly as long as an operation is open.
    pub fn new(series: &str) -> Self {
        Self {
            series: vec![series.to_owned()],
            ..Self::default()
        }
    }
}

/// A counter that both driver and daemon have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterComparison {
    /// The driver's name of the counter.
    pub name: String,
    /// The driver's count.
    pub driver: u64,
    /// The daemon's count.
    pub daemon: u64,
    /// True if the daemon's count is complete: it was not restarted, and it received everything that was sent.
    pub whole: bool,
    /// True if the driver's count is incomplete: a worker failed, or the driver did not read everything that the daemon
    /// sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub driver_short: bool,
}

impl CounterComparison {
    /// Returns true if the two counts agree: exactly, or within the bound that an incomplete count sets.
    pub fn agrees(&self) -> bool {
        match (self.whole, self.driver_short) {
            (true, false) => self.driver == self.daemon,
            (false, false) => self.driver >= self.daemon,
            (true, true) => self.driver <= self.daemon,
            (false, true) => true,
        }
    }
}
