//! A suite: runs of several daemons, levels and repetitions that answer one question together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::RunResult;

/// The runs of a suite. Runs of one daemon at one level are repetitions of each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suite {
    /// Name of the plan.
    pub name: String,
    /// The question that the suite answers: the plan's opening comment.
    pub question: Option<String>,
    /// The command line that made the suite, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command: Option<String>,
    /// The size of the whole plan, of which a call may run only a part; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub planned: Option<Planned>,
    /// The daemon that the others are compared with; absent if they are compared with the best.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub control: Option<String>,
    /// Number of times that the suite was compared before it got further repetitions.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub looks: u64,
    /// The daemons of a comparison of several suites, each with its control; empty for a suite of its own.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub sides: Vec<Side>,
    /// Sentences with the results of a search for the capacity, one for each daemon; empty without a search.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub capacities: Vec<String>,
    /// The results, in the order of the runs.
    pub results: Vec<RunResult>,
    /// Number of INVALID attempts that are not among the results, because their runs were made again.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub made_again: u64,
    /// Levels that could not be measured.
    pub unreached: Vec<Unreached>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A daemon of one of several suites that are compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The daemon.
    pub daemon: String,
    /// The daemon that it is compared with; absent for a control, and for a daemon without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub control: Option<String>,
    /// Number of the block that has its runs. Runs of one block were made in turn; two blocks were made apart.
    pub block: usize,
    /// The change of a daemon that is the same program in both blocks; absent without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reference: Option<Reference>,
}

/// A daemon that was measured in two blocks of runs, and did not change between them: the machine did, if its figures
/// differ.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reference {
    /// The daemon, as both blocks name it.
    pub daemon: String,
    /// Name of its primary metric.
    pub metric: String,
    /// The metric in the second block over that in the first: the geometric mean over the levels of both.
    pub ratio: f64,
}

/// The size of the plan of a suite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// Levels.
    pub levels: u64,
    /// Runs of each daemon at each level.
    pub repetitions: u64,
}

/// A level that could not be measured, or a daemon that could not be measured at any level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unreached {
    /// The daemon.
    pub daemon: String,
    /// The level, named as in results.
    pub level: String,
    /// The reason with its remedy: a limit of the machine, a missing tool, an error.
    pub reason: String,
}

impl Suite {
    /// Returns the side of a daemon in a comparison of several suites.
    #[must_use]
    pub fn side(&self, daemon: &str) -> Option<&Side> {
        self.sides.iter().find(|side| side.daemon == daemon)
    }
}

impl From<&[RunResult]> for Suite {
    /// Creates a suite of plain results, named after the plan of the first.
    fn from(results: &[RunResult]) -> Self {
        let first = results.first();
        let name = first.and_then(|result| result.plan.get("name")?.as_str());
        Self {
            name: name.unwrap_or("results").to_owned(),
            results: results.to_vec(),
            ..Self::default()
        }
    }
}
