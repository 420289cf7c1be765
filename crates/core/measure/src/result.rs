//! The result of one run of one plan against one daemon. Only results are stored, and every report is made from them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calibration::Calibration;
use crate::disturbance::{Disturbance, Stalls};
pub use crate::growth::Trend;
use crate::imported::Imported;
use crate::isolation::Isolation;
use crate::machine::Machine;
use crate::shard::{RunPart, ShardSummary};
use crate::spec::Spec;
use crate::system::System;
use crate::tally::{MISSED, OK, STARTED, Tally, UNFINISHED};
use crate::throughput::Throughput;
use crate::usage::UsageSummary;
use crate::warning::{Verdict, Warning};

mod audit_inputs;
mod derived;
mod series;

pub use audit_inputs::{
    AuditInputs, CounterComparison, Lifetime, OpeningTime, PlannedPhases, RateStep, StagedGroup,
};
pub use series::{SecondSeries, SeriesResult};

/// The version of the result format that this crate writes and reads.
pub const SCHEMA: u32 = 2;

/// A run of a plan against a daemon.
///
/// The counts are consistent: `operations.started = operations.ok + Σ errors + operations.unfinished`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Version of this format; it increases when a field changes.
    pub schema: u32,
    /// Unique name of the run.
    pub run_id: String,
    /// Name of the driver.
    pub driver: String,
    /// The meaning of the driver's series, errors and counters.
    #[serde(default)]
    pub spec: Spec,
    /// Start time of the load, RFC 3339 in UTC.
    pub started_at: String,
    /// Seconds from the first start, or from the first connection of an opening phase, to the end of the drain phase.
    pub wall_s: f64,
    /// The complete resolved plan.
    pub plan: serde_json::Value,
    /// The phases of the plan; absent in the results of other tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<PlannedPhases>,
    /// The plan as a sentence.
    pub plan_sentence: String,
    /// The command lines that made the result, without secrets, quoted for a shell: the suite's, if it is a run of one,
    /// then the driver's. A merged result has the ones from its shards. Absent in older and in imported results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Size of the load, as used in the names of result folders: `10000`, `500-per-s`.
    #[serde(default)]
    pub level: String,
    /// The daemon under test.
    pub daemon: DaemonInfo,
    /// The machine.
    pub machine: Machine,
    /// Processes of the driver.
    pub processes: u64,
    /// Worker threads of the driver, over all its processes.
    pub threads: u64,
    /// CPUs and limits that kept driver and daemon apart; absent if nothing was restricted.
    #[serde(default, skip_serializing_if = "Isolation::is_none")]
    pub isolation: Isolation,
    /// Number of CPU samples that were taken of each side, `daemon` or `driver`; absent if none were to be taken.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_samples: BTreeMap<String, u64>,
    /// The driver's own times and rate on the machine, if this build of it was calibrated there (`drover calibrate`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Trustworthiness of the figures: the most severe of `warnings`.
    pub verdict: Verdict,
    /// Reasons to doubt the figures.
    pub warnings: Vec<Warning>,
    /// Outcomes of the operations.
    pub operations: Operations,
    /// Operations that ended in the measured time; rates are based on them. Absent in older results and in imported
    /// ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// Further counters, by name.
    pub counts: BTreeMap<String, u64>,
    /// Failed operations by kind; kinds are disjoint.
    pub errors: BTreeMap<String, u64>,
    /// The measured series, in the driver's order, without the empty ones.
    pub series: Vec<SeriesResult>,
    /// Lateness of the driver when starting operations that it was free to start.
    pub lag: Option<SeriesResult>,
    /// Figures of each second.
    pub seconds: Vec<Second>,
    /// Resource use of daemon and driver.
    pub usage: Usage,
    /// Services that the daemon used, such as a Redis, with what they used themselves; absent without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceResult>,
    /// Resource use over time, one sample a second.
    #[serde(default)]
    pub resources: Vec<Resources>,
    /// The plan's thresholds and their outcomes.
    #[serde(default)]
    pub thresholds: Vec<ThresholdResult>,
    /// Faults injected into the daemon.
    #[serde(default)]
    pub faults: Vec<FaultResult>,
    /// The daemon's answer to the check before the run, if the driver keeps it.
    #[serde(default)]
    pub answer: Option<Answer>,
    /// The report of another tool, if it made the run; absent in the results of this project's drivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// Expectations that the audit compares the figures with.
    #[serde(default, rename = "facts")]
    pub audit_inputs: AuditInputs,
    /// The part of a divided run that this result describes; absent if it describes the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<RunPart>,
    /// The shards that this result was merged from, by index; absent if the run was not divided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardSummary>,
}

/// A sample of the resource use of daemon and driver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// Seconds since the first start; negative before it.
    pub at_s: f64,
    /// The daemon; absent while it is not running.
    pub daemon: Option<Cost>,
    /// The driver.
    pub driver: Option<Cost>,
    /// Open operations or connections, as reported by the daemon.
    pub active: Option<f64>,
    /// Connections waiting in the daemon's accept queue.
    pub backlog: Option<u64>,
    /// CPU use of all other processes since the previous sample, on the CPUs that daemon and driver may use, in percent
    /// of one core. Absent if the daemon's own use is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpu_pct: Option<f64>,
    /// Periods since the previous sample in which the CPU quota throttled the driver's control group; absent without a
    /// quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// The services that run, by name; absent without one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, Cost>,
}

/// A service that was started for the run and that all instances of the daemon shared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceResult {
    /// Name in the daemon's manifest.
    pub name: String,
    /// Version, as the service prints it.
    pub version: Option<String>,
    /// Resource use of its process tree, which the daemon's does not include.
    pub usage: UsageSummary,
}

/// Resource use of a process tree in one sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Resident memory, KiB.
    pub rss_kb: u64,
    /// CPU use since the previous sample, in percent of one core.
    pub cpu_pct: f64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub fds: u64,
    /// Time that its threads waited for a CPU since the previous sample, summed over threads, in percent of that
    /// interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_pct: Option<f64>,
}

/// A threshold of the plan and its outcome.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThresholdResult {
    /// The text from the plan: `lag.p99 <= 50ms`.
    pub text: String,
    /// The measured value, in the unit of the threshold; absent if nothing was measured.
    pub measured: Option<String>,
    /// True if the threshold was met; a threshold without a measured value is not met.
    pub met: bool,
}

/// A fault injected into the daemon under load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultResult {
    /// The fault: `SIGKILL and a new start`, `SIGSTOP for 500ms`.
    pub what: String,
    /// Seconds from the first start to the fault.
    pub at_s: f64,
    /// Seconds from the first start until the daemon, or the part of it that the fault affected, accepted connections
    /// again; absent if it did not.
    pub back_s: Option<f64>,
}

/// The daemon's answer to the check before the run. Daemons under comparison must answer alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Status code of the protocol.
    pub status: u64,
    /// Length of the content in bytes.
    pub length: u64,
    /// SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
}

/// Outcomes of the operations of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operations {
    /// Operations started.
    pub started: u64,
    /// Operations that succeeded.
    pub ok: u64,
    /// Operations that failed: the sum of `errors`.
    pub failed: u64,
    /// Operations still open when the drain phase ended.
    pub unfinished: u64,
    /// Operations that were due and never started.
    pub missed: u64,
    /// Peak number of open operations, as the driver counted them. With several workers it is the sum of their peaks,
    /// taken second by second: an upper bound.
    pub peak_active: u64,
}

impl Operations {
    /// Returns the outcomes that the counters of a whole run tell.
    pub fn from_tally(total: &Tally, seconds: &[Second]) -> Self {
        let counted = |name| total.counted(name);
        let peaks = seconds.iter().map(|second| second.active_peak);
        Self {
            started: counted(STARTED),
            ok: counted(OK),
            failed: total.errors.values().sum(),
            unfinished: counted(UNFINISHED),
            missed: counted(MISSED),
            peak_active: peaks.max().unwrap_or(0),
        }
    }

    /// Returns true if every started operation is accounted for.
    pub fn add_up(&self) -> bool {
        self.started == self.ok + self.failed + self.unfinished
    }
}

/// The daemon under test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonInfo {
    /// Name: its manifest's, or for a daemon that was already running the given name, or its address, such as
    /// `localhost:8080`.
    pub name: String,
    /// One-line description from its manifest.
    pub about: Option<String>,
    /// Version, as the daemon prints it.
    pub version: Option<String>,
    /// The socket or address that the driver connected to.
    pub target: String,
    /// Daemon instances started to share the load.
    #[serde(default = "one")]
    pub instances: u64,
    /// URLs of the metrics pages given for a daemon that was already running, without user name and password.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// Processes that were measured of a daemon that was already running, with their command: `nginx (process 4711):
    /// nginx: master process nginx`. Absent if they are not known, or if the daemon was launched for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// SHA-256 of the file that the first process of a launched daemon runs, in hexadecimal digits; absent if the daemon
    /// was already running, or had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_sha256: Option<String>,
}

fn one() -> u64 {
    1
}

/// Resource use of daemon and driver over the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// The daemon's process tree; absent if it is on another machine or cannot be read.
    pub daemon: Option<UsageSummary>,
    /// The driver's process tree, without the daemon.
    pub driver: Option<UsageSummary>,
    /// The machine that both run on; absent if it was not sampled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system: Option<System>,
    /// Disturbances that kept both from running; absent in older results.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disturbance: Option<Disturbance>,
}

/// A second of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// The second since the first start: row 0 covers 0 to 1 s.
    pub second: u64,
    /// Operations open at the end of the second.
    pub active: u64,
    /// Peak number of open operations in the second.
    pub active_peak: u64,
    /// Mean number of open operations in the second: their integral over time, in operation-seconds. The last second of
    /// a run is not whole, so its value covers only the part that passed. Below 0 in a part of a divided run that ends
    /// what other parts began. Absent if the driver did not integrate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_mean: Option<f64>,
    /// Possible error of `active_mean`, in the same unit, from operations that started or ended in long loop turns.
    /// Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_slack: Option<f64>,
    /// Stalls of the workers that ended in the second; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// CPU use of the busiest worker in the second, percent of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_cpu_pct: Option<f64>,
    /// Time that the longest-waiting worker waited for a CPU in the second, percent of the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_wait_pct: Option<f64>,
    /// Counters of the second, by name.
    pub counts: BTreeMap<String, u64>,
    /// Operations that failed in the second, by kind.
    pub errors: BTreeMap<String, u64>,
    /// The series of this second, with their histograms, without the empty ones.
    pub series: Vec<SecondSeries>,
}

impl RunResult {
    /// Returns the result as a JSON value. Serializing it here compiles it once, and not in every driver.
    ///
    /// # Panics
    /// Never: a result has only values of JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a result is text, numbers, lists and objects")
    }
}

/// Returns the JSON Schema of [`RunResult`], pretty-printed.
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(RunResult))
        .expect("a schema is plain JSON");
    text.push('\n');
    text
}
