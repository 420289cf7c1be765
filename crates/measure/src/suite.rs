//! Runs that answer one question together: several daemons, several levels, several repetitions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::RunResult;

/// The runs of one suite. Those of one daemon at one level are repetitions of each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suite {
    /// The name of its plan.
    pub name: String,
    /// The question that it answers: the plan's opening comment.
    pub question: Option<String>,
    /// What was typed to make it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command: Option<String>,
    /// What was measured, in the order of the runs.
    pub results: Vec<RunResult>,
    /// What could not be measured.
    pub unreached: Vec<Unreached>,
}

/// A level that could not be measured, or a daemon at any level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unreached {
    /// The daemon.
    pub daemon: String,
    /// The level, as results name it.
    pub level: String,
    /// What stopped it: a limit of the machine, a missing tool, an error; with the remedy.
    pub reason: String,
}
