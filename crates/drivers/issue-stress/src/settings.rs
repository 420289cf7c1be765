//! The driver's own settings: the `[driver]` table of a plan.

use std::time::Duration;

use clap::{Args, ValueEnum};
use harness::cli::default_settings;
use load::duration;
use load::plan::{Group, Plan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the group whose agents send long batches in the scenario `polling-agents`.
pub(crate) const BULK: &str = "bulk";

/// The driver's own settings, and the options of the command line that set them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Choose the work of the agents
    #[arg(
        long,
        help_heading = "Load",
        value_enum,
        default_value = "concurrent-agents"
    )]
    pub scenario: Scenario,
    /// Wait this long for each answer; the deadline travels with the request
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub timeout: Duration,
    /// Limit the answers to list and ready to this many issues
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
    /// Let the agents of mixed-operations update and read this many issues together
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub shared_issues: u32,
    /// Set the number of creates in each batch: of batch-operations, and of the group `bulk` of polling-agents
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub batch_size: u16,
    /// Create this many issues before the load begins
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub preload: u64,
    /// Let each preloaded issue depend on this many earlier ones
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub preload_dependencies: u32,
    /// Limit the operations of an open loop that are under way at once; further ones wait for a free agent
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub agents_of_rate: u64,
    /// Use a database that holds issues of others. Issues are added to it, and none is removed
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub existing_database: bool,
}

/// The work of the agents.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// Each operation creates an issue: by default 8 agents with 100 each.
    #[default]
    ConcurrentAgents,
    /// Each operation is a batch, and two of five must fail: by default 4 agents with 50 each.
    BatchOperations,
    /// Creates, closes, updates, shows, lists and readies at random: by default 6 agents with 50 each.
    MixedOperations,
    /// Requests that are late, time out, and are sent again: by default 4 agents with 25 each.
    Timeouts,
    /// Each operation leaves in the middle of a request or before its answer, and creates an issue over a new connection:
    /// by default 4 agents with 25 each.
    LeavingClients,
    /// Each operation creates an issue: by default 10 agents with 100 each.
    UniqueIds,
    /// Each operation reads ready issues, claims one, creates one and closes the claimed one, beside the group `bulk`:
    /// by default 15 agents for 10 s.
    PollingAgents,
    /// Each operation changes the priority of an issue of the agent.
    Update,
    /// Each operation lists issues.
    List,
    /// Each operation lists ready issues.
    Ready,
    /// Each operation is answered without the database.
    Ping,
}

impl Scenario {
    /// Returns the agents of the scenario, and the operations of each; without a number, they go on to the end.
    pub(crate) fn size(self) -> (u64, Option<u64>) {
        match self {
            Self::ConcurrentAgents => (8, Some(100)),
            Self::BatchOperations => (4, Some(50)),
            Self::MixedOperations => (6, Some(50)),
            Self::Timeouts | Self::LeavingClients => (4, Some(25)),
            Self::UniqueIds => (10, Some(100)),
            Self::PollingAgents => (15, None),
            Self::Update | Self::List | Self::Ready | Self::Ping => (1, None),
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::ConcurrentAgents | Self::UniqueIds => "creates of issues",
            Self::BatchOperations => "batches of creates",
            Self::MixedOperations => "mixed operations on issues",
            Self::Timeouts => "creates that time out",
            Self::LeavingClients => "creates by clients that leave",
            Self::PollingAgents => "polls, claims and creates of issues",
            Self::Update => "updates of issues",
            Self::List => "lists of issues",
            Self::Ready => "lists of ready issues",
            Self::Ping => "pings",
        }
    }

    /// Returns true if its issues have descriptions. Those that are compared with other databases have none.
    pub(crate) fn describes(self) -> bool {
        matches!(
            self,
            Self::MixedOperations | Self::Timeouts | Self::LeavingClients
        )
    }

    /// Returns true if operations change the database.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::List | Self::Ready | Self::Ping)
    }

    /// Returns true if a database without the daemon's protocol can do the same.
    pub(crate) fn is_for_peers(self) -> bool {
        matches!(self, Self::ConcurrentAgents | Self::UniqueIds | Self::Ping)
    }
}

impl Default for Settings {
    fn default() -> Self {
        default_settings()
    }
}

impl Settings {
    /// Returns the agents of a group.
    pub(crate) fn agents_of(&self, group: &Group) -> u64 {
        if group.is_closed() {
            group.clients
        } else {
            self.agents_of_rate
        }
    }

    /// Returns the agents of all groups.
    pub(crate) fn agents(plan: &Plan<Self>) -> u64 {
        let agents = plan.groups.iter().map(|group| plan.driver.agents_of(group));
        agents.fold(0, u64::saturating_add)
    }

    /// Describes the plan in one sentence. The sentence does not name the daemon: runs of one plan against several
    /// daemons are matched by it.
    pub(crate) fn sentence(plan: &Plan<Self>) -> String {
        let settings = &plan.driver;
        let preloaded = match settings.preload {
            0 => String::new(),
            number => format!(
                " in a database of {} issues with {} dependencies each",
                measure::units::count(number),
                settings.preload_dependencies
            ),
        };
        format!(
            "{}{preloaded}: {} for up to {}",
            settings.scenario.sentence(),
            plan.load_sentence(),
            duration::format(plan.timeline.measure),
        )
    }
}
