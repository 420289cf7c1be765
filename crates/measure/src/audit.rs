//! Whether the figures of a result fit each other and what was planned: a pure function of the result, so that one that
//! another tool measured is audited as far as its figures go.
//!
//! Each comparison is a row, also where both sides agree. What can't be compared, because a side was not measured, has
//! none. Tolerances are those of good runs: a row that does not add up is worth stopping for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::RunResult;
use crate::warning::{self, Kind, Warning, verdict};

mod counts;
mod load;

/// Names of counts that the audit reads. A driver that counts these is asked about them.
pub mod count {
    /// Answers that came whole, whatever they say.
    pub const ANSWERS: &str = "answers";
    /// Bytes read, with everything that the protocol puts around them.
    pub const BYTES: &str = "bytes";
    /// Bytes of the bodies of answers.
    pub const BODY_BYTES: &str = "body_bytes";
    /// What `body_bytes` must be of these answers: for each the length that its target had before the run.
    pub const EXPECTED_BODY_BYTES: &str = "expected_body_bytes";
    /// Connections opened.
    pub const OPENED: &str = "opened";
    /// Connections held open, told by each worker once a second: of seconds, not of a run.
    pub const HELD: &str = "held";
    /// Connections that ended while they were held open.
    pub const LOST: &str = "lost";
    /// Bytes that came after the end of an answer, where nothing else was asked for.
    pub const EXCESS_BYTES: &str = "excess_bytes";
    /// Attempts that were made again within an operation.
    pub const RETRIES: &str = "retries";
}

/// The setting of a driver (`driver.keep_alive` of the plan) that says whether connections outlive an answer.
pub const KEEP_ALIVE: &str = "keep_alive";

/// What the audit must know of a run besides its figures. What is absent is not asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// Where the time in which an operation is open is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lifetime>,
    /// Users that the plan keeps busy, on average over the measured time: of a closed loop without a think time. One that
    /// has several operations open at once counts as so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<f64>,
    /// Connections that the plan opens before the load, to hold all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// The phase before the load in which connections are opened, where the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<OpeningTime>,
    /// Seconds of load that were planned, warm-up and measure, where nothing but time ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_s: Option<f64>,
    /// Seconds after them that what is open may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_s: Option<f64>,
    /// CPU use of the driver's busiest worker over the run, percent of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_cpu_pct: Option<f64>,
    /// The daemon's gauge of the most operations that were open at once, where the protocol has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_metric: Option<String>,
    /// What driver and daemon counted both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Compared>,
}

/// How long connections were opened before the load began. The seconds of a run count from the beginning of that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpeningTime {
    /// Seconds from the first connection to the beginning of the load.
    pub took_s: f64,
    /// Seconds after which the load begins with what is open.
    pub limit_s: f64,
    /// Whether all connections were open when it began.
    pub complete: bool,
}

/// Where the time in which an operation is open is recorded, from when it is counted as begun to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lifetime {
    /// One series, or several that follow each other within an operation.
    pub series: Vec<String>,
    /// Whether they also hold what passed between the due time of an operation and its beginning.
    #[serde(default)]
    pub from_due: bool,
    /// How much later than it happened an end may be counted, nanoseconds.
    #[serde(default)]
    pub counted_late_ns: u64,
}

impl Lifetime {
    /// One series that lasts exactly as long as an operation is open.
    #[must_use]
    pub fn of(series: &str) -> Self {
        Self {
            series: vec![series.to_owned()],
            ..Self::default()
        }
    }
}

/// What driver and daemon counted both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// The driver's name for it.
    pub name: String,
    /// What the driver counted.
    pub driver: u64,
    /// What the daemon counted.
    pub daemon: u64,
    /// Whether the daemon counted all of it: not where it was started again, or did not get all that was sent.
    pub whole: bool,
    /// True where the driver did not count all of it: a worker was lost, or not all that the daemon sent was read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub driver_short: bool,
}

impl Compared {
    /// Whether the two agree: exactly, or as far as the daemon could say.
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
    /// What is compared.
    pub what: String,
    /// What it must be.
    pub expected: String,
    /// What it is.
    pub found: String,
    /// Whether the two fit.
    pub adds_up: bool,
    /// What it may mean where they don't, and what to do.
    pub hint: &'static str,
    /// The kind of the warning that says so.
    kind: Kind,
}

impl Row {
    fn new(
        what: impl Into<String>,
        expected: String,
        found: String,
        adds_up: bool,
        hint: &'static str,
    ) -> Self {
        Self {
            what: what.into(),
            expected,
            found,
            adds_up,
            hint,
            kind: Kind::Audit,
        }
    }

    /// The same, of which a warning of another kind speaks.
    fn told_by(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }
}

/// All comparisons that the result allows.
#[must_use]
pub fn of(result: &RunResult) -> Vec<Row> {
    let mut rows = Vec::new();
    // What a fault or an early end leads to shows in times that no series has, and is told by warnings of its own.
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

/// Adds a warning for each row that does not add up and of which no warning speaks, and makes the verdict theirs.
pub fn judge(result: &mut RunResult) {
    let told = |kind: Kind| {
        let mut kinds = result.warnings.iter().map(|warning| warning.kind);
        kinds.any(|told| told == kind)
    };
    let rows = of(result).into_iter();
    let untold: Vec<Warning> = rows
        .filter(|row| !row.adds_up && (row.kind == Kind::Audit || !told(row.kind)))
        .map(|row| {
            let message = format!(
                "{}: {}, where {} was expected",
                row.what, row.found, row.expected
            );
            Warning::audit(message, row.hint)
        })
        .collect();
    result.warnings.extend(untold);
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

/// Operations whose time is in no series: those that failed, were left open or tried again, and those that ended well
/// where fewer times than these were recorded. Each may have lasted as long as the run.
fn untimed(result: &RunResult, timed: u64) -> u64 {
    let operations = &result.operations;
    [
        operations.unfinished,
        result.count(count::RETRIES),
        operations.ok.saturating_sub(timed),
    ]
    .into_iter()
    .fold(operations.failed, u64::saturating_add)
}

/// A number with as many digits as say something.
fn number(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 999.5 => crate::units::count(value.max(0.0).round() as u64),
        magnitude if magnitude >= 9.95 => format!("{value:.0}"),
        magnitude if magnitude >= 0.1 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}
