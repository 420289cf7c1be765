//! The parts of a run that is divided over several programs, on one machine or many. Each part has a result of its own,
//! and a merge makes one result of all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::result::Operations;
use crate::tally::Measured;
use crate::usage::UsageSummary;
use crate::warning::Verdict;

/// The task of a program in a divided run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Drives a share of the load, against a daemon that it launches itself.
    #[default]
    Both,
    /// Drives a share of the load.
    Load,
    /// Launches the daemon and observes it.
    Daemon,
}

/// The part of a divided run that a result describes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunPart {
    /// The task of the program.
    pub role: Role,
    /// Index of the shard, from 0; absent if the program only launched the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u64>,
    /// Number of shards of the run.
    pub of: u64,
    /// SHA-256 of the plan without its secrets, in hexadecimal digits. All parts have the same.
    pub plan_sha256: String,
    /// The common start of the run, which the first second counts from: Unix time in nanoseconds.
    pub origin_unix_ns: u64,
    /// Time from the common start until the workers of the shard were running, nanoseconds; 0 if they waited for it.
    pub late_ns: u64,
    /// The wall clock of the machine.
    pub clock: Clock,
    /// Sums over the measured time.
    #[schemars(with = "serde_json::Value")]
    pub measured: Measured,
    /// True if operations may begin in one shard and end in another, so that only the merged result has their outcomes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shares_operations: bool,
    /// Number of processes whose ledgers are in the file of the shard with ledgers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ledgers: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The wall clock of a machine during a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// True if a time service keeps the clock synchronised.
    pub synchronised: bool,
    /// Bound of the clock's error, nanoseconds; absent if the clock is not synchronised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_error_ns: Option<u64>,
    /// Movement of the clock against `CLOCK_MONOTONIC` during the run, nanoseconds: it was set, or slewed.
    pub moved_ns: i64,
}

/// The summary of a shard in a merged result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardSummary {
    /// Index of the shard, from 0.
    pub shard: u64,
    /// Outcomes of its operations.
    pub operations: Operations,
    /// 99th percentile of its lateness when starting operations, nanoseconds; absent if nothing was late or on time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_p99_ns: Option<u64>,
    /// Time from the common start until its workers were running, nanoseconds.
    pub late_ns: u64,
    /// The wall clock of its machine.
    pub clock: Clock,
    /// Resource use of its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<UsageSummary>,
    /// Its own verdict.
    pub verdict: Verdict,
    /// Its machine.
    pub machine: Machine,
}
