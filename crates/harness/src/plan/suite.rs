//! Many runs that answer one question: daemons × levels × repetitions, or the search for a capacity.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What `drover run` makes of a plan. A driver that runs the plan itself passes over it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The daemons, by the names of their manifests.
    pub daemons: Vec<String>,
    /// Runs of each daemon at each level.
    #[serde(default = "once")]
    pub repeat: u32,
    /// The loads; absent: the plan as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
    /// A search in place of levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
}

/// One load of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Names the folder of its results.
    pub name: String,
    /// What it changes in the plan: `"groups.0.workers" = 1000`.
    pub set: BTreeMap<String, toml::Value>,
}

/// The search for the highest load at which the plan's thresholds are met: doubled until one is missed, then bisected,
/// then confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// The number that is searched for: `groups.0.workers`.
    pub set: String,
    /// Where it begins.
    pub from: u64,
    /// Where it ends at the latest.
    pub most: u64,
    /// How narrow the bracket must become, in percent of its lower end.
    #[serde(default = "five")]
    pub within_pct: f64,
    /// Runs that must confirm what was found.
    #[serde(default = "twice")]
    pub confirm: u32,
}

fn once() -> u32 {
    1
}

fn twice() -> u32 {
    2
}

fn five() -> f64 {
    5.0
}
