//! The audit: comparisons of a result's figures with each other and with the plan. It is a pure function of the result,
//! so a result of another tool is audited as far as its figures allow.
//!
//! Each comparison is a row, including those that agree. A comparison with an unmeasured side has no row. The
//! tolerances are those of good runs: a row that fails deserves investigation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::RunResult;
use crate::warning::{self, Kind, Warning, verdict};

mod counts;
mod load;

/// Names of the counters that the audit reads. A driver that counts them is audited on them.
pub mod count {
    /// Complete answers, whatever their content.
    pub const ANSWERS: &str = "answers";
    /// Bytes read, including all protocol overhead.
    pub const BYTES: &str = "bytes";
    /// Bytes of the bodies of answers.
    pub const BODY_BYTES: &str = "body_bytes";
    /// The expected value of `body_bytes`: for each answer the body length of its target before the run.
    pub const EXPECTED_BODY_BYTES: &str = "expected_body_bytes";
    /// Connections opened.
    pub const OPENED: &str = "opened";
    /// Connections held open, reported by each worker once a second. It is a per-second figure without a meaningful
    /// total.
    pub const HELD: &str = "held";
    /// Connections that ended while they were held open.
    pub const LOST: &str = "lost";
    /// Bytes received after the end of an answer while no request was outstanding.
    pub const EXCESS_BYTES: &str = "excess_bytes";
    /// Attempts repeated within an operation.
    pub const RETRIES: &str = "retries";
}

/// The driver setting (`driver.keep_alive` of the plan) that keeps connections open between requests.
pub const KEEP_ALIVE: &str = "keep_alive";

/// Facts about a run, besides its figures, that the audit needs. An absent field skips its check.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
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
    /// The phase before the load in which connections are opened, if the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<OpeningTime>,
    /// Planned seconds of load, warm-up plus measure, if only time ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_s: Option<f64>,
    /// Seconds after the load in which open operations may end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_s: Option<f64>,
    /// CPU use of the driver's busiest worker over the run, percent of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_cpu_pct: Option<f64>,
    /// The daemon's gauge for the peak number of open operations, if the protocol has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_metric: Option<String>,
    /// Counters that both driver and daemon have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Compared>,
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
    #[must_use]
    pub fn new(series: &str) -> Self {
        Self {
            series: vec![series.to_owned()],
            ..Self::default()
        }
    }
}

/// A counter that both driver and daemon have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
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

impl Compared {
    /// Returns true if the two counts agree: exactly, or within the bound that an incomplete count sets.
    #[must_use]
    pub fn agrees(&self) -> bool {
        match (self.whole, self.driver_short) {
            (true, false) => self.driver == self.daemon,
            (false, false) => self.driver >= self.daemon,
            (true, true) => self.driver <= self.daemon,
            (false, true) => true,
        }
    }
}

/// A comparison of two figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The subject of the comparison.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The measured value.
    pub found: String,
    /// True if the two values agree.
    pub consistent: bool,
    /// The possible reason for a disagreement, and the recommended action.
    pub hint: &'static str,
    /// The kind of the warning that reports a disagreement.
    kind: Kind,
}

impl Row {
    fn new(
        what: impl Into<String>,
        expected: String,
        found: String,
        consistent: bool,
        hint: &'static str,
    ) -> Self {
        Self {
            what: what.into(),
            expected,
            found,
            consistent,
            hint,
            kind: Kind::Audit,
        }
    }

    /// Sets the kind of the existing warning that already reports this disagreement.
    fn reported_as(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }
}

/// Returns all comparisons that the result allows.
#[must_use]
pub fn comparisons(result: &RunResult) -> Vec<Row> {
    let mut rows = Vec::new();
    // Faults and early ends distort the times; their own warnings report them.
    if is_undisturbed(result) {
        rows.extend(load::concurrency(result));
        rows.extend(load::users(result));
        rows.extend(load::stages(result));
        rows.extend(load::opening(result));
        rows.extend(load::wall(result));
        rows.extend(counts::connections(result));
        rows.extend(counts::held(result));
    }
    rows.extend(counts::bytes(result));
    rows.extend(counts::excess(result));
    rows.extend(load::worker(result));
    rows.extend(counts::operations(result));
    rows.extend(counts::compared(result));
    rows
}

/// Adds a warning for each failed row that no warning reports yet, then sorts the warnings and updates the verdict.
pub fn judge(result: &mut RunResult) {
    let is_reported = |kind: Kind| {
        let mut kinds = result.warnings.iter().map(|warning| warning.kind);
        kinds.any(|other| other == kind)
    };
    let rows = comparisons(result).into_iter();
    let unreported: Vec<Warning> = rows
        .filter(|row| !row.consistent && (row.kind == Kind::Audit || !is_reported(row.kind)))
        .map(|row| {
            let message = format!("{}: {}, but expected {}", row.what, row.found, row.expected);
            Warning::audit(message, row.hint)
        })
        .collect();
    result.warnings.extend(unreported);
    warning::sort(&mut result.warnings);
    result.verdict = verdict(&result.warnings);
}

fn is_undisturbed(result: &RunResult) -> bool {
    let disturbs = |kind| {
        matches!(
            kind,
            Kind::Interrupted | Kind::DaemonDied | Kind::WorkersFailed
        )
    };
    let mut kinds = result.warnings.iter().map(|warning| warning.kind);
    result.faults.is_empty() && !kinds.any(disturbs)
}

/// Counts operations that may have no recorded time: failed, unfinished or retried ones, and successful ones beyond the
/// number of recorded times. Each may have lasted as long as the run.
fn ops_without_latency(result: &RunResult, timed: u64) -> u64 {
    let operations = &result.operations;
    [
        operations.unfinished,
        result.count(count::RETRIES),
        operations.ok.saturating_sub(timed),
    ]
    .into_iter()
    .fold(operations.failed, u64::saturating_add)
}
