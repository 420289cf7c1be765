//! Everything known about one run of one plan against one daemon: the only thing stored, and what every report reads.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::audit::Facts;
use crate::disturbance::{Disturbance, Stalls};
use crate::imported::Imported;
use crate::machine::Machine;
use crate::redact;
pub use crate::slopes::Slopes;
use crate::system::System;
use crate::tally::{Counts, DecodeError, Distribution};
use crate::throughput::Throughput;
use crate::usage::UsageSummary;
use crate::warning::{Verdict, Warning};

/// The version of the result format that this crate writes.
pub const SCHEMA: u32 = 1;

/// One run of one plan against one daemon.
///
/// Operations add up: `operations.started = operations.ok + Σ errors + operations.unfinished`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Version of this format; a changed field is a new number.
    pub schema: u32,
    /// Unique name of the run.
    pub run_id: String,
    /// The driver that made it.
    pub driver: String,
    /// When the load began, RFC 3339 in UTC.
    pub started_at: String,
    /// From the first start, or the first connection of an opening, to the end of the drain phase, seconds.
    pub wall_s: f64,
    /// The resolved plan, whole.
    pub plan: serde_json::Value,
    /// The plan as a sentence.
    pub plan_sentence: String,
    /// How much load, as it names the folder of results: `10000`, `500-per-s`.
    #[serde(default)]
    pub level: String,
    /// What was driven.
    pub daemon: DaemonInfo,
    /// Where.
    pub machine: Machine,
    /// Processes of the driver.
    pub processes: u64,
    /// Worker threads of the driver, over all its processes.
    pub threads: u64,
    /// Whether the figures may be believed: the gravest of `warnings`.
    pub verdict: Verdict,
    /// What the driver exits with where this is its only run. Absent in older results and in imported ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Reasons to doubt them.
    pub warnings: Vec<Warning>,
    /// What became of the operations.
    pub operations: Operations,
    /// What ended in the measured time: rates are made of it. Absent in older results and in imported ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// What else was counted, by name.
    pub counts: BTreeMap<String, u64>,
    /// Failed operations by kind; kinds are disjoint.
    pub errors: BTreeMap<String, u64>,
    /// The measured series, in the driver's order, without the empty ones.
    pub series: Vec<SeriesResult>,
    /// How late the driver began operations that it was free to begin.
    pub lag: Option<SeriesResult>,
    /// One row per second.
    pub seconds: Vec<Second>,
    /// What daemon and driver cost.
    pub usage: Usage,
    /// The same over time, one look a second.
    #[serde(default)]
    pub resources: Vec<Resources>,
    /// The plan's thresholds, and whether they were met.
    #[serde(default)]
    pub thresholds: Vec<ThresholdResult>,
    /// What was done to the daemon on purpose.
    #[serde(default)]
    pub faults: Vec<FaultResult>,
    /// What the check before the run was answered, where the driver keeps it.
    #[serde(default)]
    pub answer: Option<Answer>,
    /// What another tool reported, where it made the run; absent in the results of this project's drivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// What the audit holds the figures against.
    #[serde(default)]
    pub facts: Facts,
}

/// One look at what daemon and driver cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// Seconds since the first start; below 0 before it.
    pub at_s: f64,
    /// The daemon; absent while it is not there.
    pub daemon: Option<Cost>,
    /// The driver.
    pub driver: Option<Cost>,
    /// What the daemon said was open.
    pub active: Option<f64>,
    /// Connections that waited in the daemon's accept queue.
    pub backlog: Option<u64>,
    /// CPU use of all else since the look before, on the CPUs that daemon and driver may use, in percent of one core.
    /// Absent where the daemon's own is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpu_pct: Option<f64>,
    /// Periods since the look before in which the quota of the driver's control group held it; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
}

/// What a process tree had and did at one look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Resident memory, KiB.
    pub rss_kb: u64,
    /// CPU use since the look before, in percent of one core.
    pub cpu_pct: f64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub fds: u64,
    /// How long its threads waited for a CPU since the look before, summed over them, in percent of that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_pct: Option<f64>,
}

/// A threshold of the plan, and whether the run met it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThresholdResult {
    /// As the plan has it: `first_byte.p99 <= 50ms`.
    pub text: String,
    /// What was measured, in the unit of the threshold; absent where nothing was.
    pub measured: Option<String>,
    /// Whether it was met; what was not measured is not met.
    pub met: bool,
}

/// Something that was done to the daemon on purpose while it was under load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultResult {
    /// What: `SIGKILL and a new start`, `SIGSTOP for 500ms`.
    pub what: String,
    /// Seconds from the first start to the fault.
    pub at_s: f64,
    /// Seconds from the first start until the daemon took connections again; absent where it did not.
    pub back_s: Option<f64>,
}

/// What the check before the run was answered: daemons that are compared must answer alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Status of the protocol.
    pub status: u64,
    /// Bytes of content.
    pub length: u64,
    /// SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
}

/// What became of the operations of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operations {
    /// Operations begun.
    pub started: u64,
    /// Operations that ended as they should.
    pub ok: u64,
    /// Operations that ended otherwise: the sum of `errors`.
    pub failed: u64,
    /// Operations still open when the drain phase ended.
    pub unfinished: u64,
    /// Operations that were due and never begun.
    pub missed: u64,
    /// Most operations open at once, as the driver saw it. With several workers the sum of the peaks of each, taken
    /// second by second: an upper bound.
    pub peak_active: u64,
}

impl Operations {
    /// Whether every operation that was begun is accounted for.
    #[must_use]
    pub fn add_up(&self) -> bool {
        self.started == self.ok + self.failed + self.unfinished
    }
}

/// The subject of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonInfo {
    /// Its name: that of its manifest, or for one that was already running the one that it was given, or `external`.
    pub name: String,
    /// Its manifest's one line.
    pub about: Option<String>,
    /// Its version, as it prints it.
    pub version: Option<String>,
    /// The socket or address that was driven.
    pub target: String,
    /// Daemons that were started side by side to share the load.
    #[serde(default = "one")]
    pub instances: u64,
    /// Metrics pages that were given of a daemon that was already running, without name and password.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
}

fn one() -> u64 {
    1
}

/// What daemon and driver cost over the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// The daemon's process tree; absent where it is not on this machine or not ours to look at.
    pub daemon: Option<UsageSummary>,
    /// The driver's process tree, without the daemon.
    pub driver: Option<UsageSummary>,
    /// The machine that both run on; absent where nobody looked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system: Option<System>,
    /// What kept both from running; absent in older results.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disturbance: Option<Disturbance>,
}

/// One series over the whole run. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesResult {
    /// The driver's name for it.
    pub name: String,
    /// Values recorded.
    pub count: u64,
    /// Smallest value.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 75th percentile; absent in older results.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p75_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest value.
    pub max_ns: u64,
    /// Values outside 1 ns to 1 h, recorded at the bound.
    pub clamped: u64,
    /// The histogram, lossless: HdrHistogram V2 + deflate in base64.
    pub histogram: String,
}

impl SeriesResult {
    /// The figures of a distribution, or `None` for an empty one.
    #[must_use]
    pub fn of(name: &str, values: &Distribution) -> Option<Self> {
        let at = |quantile| values.quantile(quantile);
        Some(Self {
            name: name.to_owned(),
            count: values.len(),
            min_ns: at(0.0)?,
            mean_ns: values.histogram().mean(),
            p50_ns: at(0.5)?,
            p75_ns: at(0.75),
            p90_ns: at(0.9)?,
            p95_ns: at(0.95)?,
            p99_ns: at(0.99)?,
            p999_ns: at(0.999)?,
            max_ns: at(1.0)?,
            clamped: values.clamped(),
            histogram: values.encode(),
        })
    }

    /// The distribution itself, for any other percentile and for merging.
    ///
    /// # Errors
    /// A stored histogram that can't be decoded.
    pub fn distribution(&self) -> Result<Distribution, DecodeError> {
        Distribution::decode(&self.histogram, self.clamped)
    }
}

/// One second of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// The second since the first start: row 0 covers 0 to 1 s.
    pub second: u64,
    /// Operations open at its end.
    pub active: u64,
    /// Most operations open at once during it.
    pub active_peak: u64,
    /// Operations open on average during it: the integral over time of what was open, in operation-seconds, so that of a
    /// run's last second, which is not whole, it is the part that passed. Absent where nobody integrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_mean: Option<f64>,
    /// How far that may be off, in the same unit, since some began or ended in turns of a loop that took long. Absent where
    /// none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_slack: Option<f64>,
    /// Stalls of the workers that ended in it; absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// CPU use of the worker that was busiest in it, percent of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_cpu_pct: Option<f64>,
    /// How long the worker that waited longest in it waited for a CPU, percent of the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_wait_pct: Option<f64>,
    /// What was counted in it, by name.
    pub counts: BTreeMap<String, u64>,
    /// Operations that failed in it, by kind.
    pub errors: BTreeMap<String, u64>,
    /// The series of this second, with their histograms, without the empty ones.
    pub series: Vec<SecondSeries>,
}

/// One series over one second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecondSeries {
    /// The driver's name for it.
    pub name: String,
    /// Values recorded.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Largest value.
    pub max_ns: u64,
    /// Values outside 1 ns to 1 h, recorded at the bound.
    pub clamped: u64,
    /// The histogram, lossless: HdrHistogram V2 + deflate in base64.
    pub histogram: String,
}

impl SecondSeries {
    /// The figures of a distribution, or `None` for an empty one.
    #[must_use]
    pub fn of(name: &str, values: &Distribution) -> Option<Self> {
        Some(Self {
            name: name.to_owned(),
            count: values.len(),
            p50_ns: values.quantile(0.5)?,
            p99_ns: values.quantile(0.99)?,
            max_ns: values.quantile(1.0)?,
            clamped: values.clamped(),
            histogram: values.encode(),
        })
    }
}

impl RunResult {
    /// Takes the secrets out of its texts: passwords, tokens, header fields that authenticate. Stored and shown is only what
    /// went through here.
    pub fn redact(&mut self) {
        redact::value(&mut self.plan);
        let daemon = &mut self.daemon;
        let texts = [&mut self.plan_sentence, &mut daemon.target];
        let named = [&mut daemon.about, &mut daemon.version];
        let warned = self.warnings.iter_mut();
        let warned = warned.flat_map(|warning| [&mut warning.message, &mut warning.hint]);
        let judged = self.thresholds.iter_mut().map(|judged| &mut judged.text);
        let done = self.faults.iter_mut().map(|fault| &mut fault.what);
        let texts = texts.into_iter().chain(named.into_iter().flatten());
        for text in texts.chain(warned).chain(judged).chain(done) {
            if let Cow::Owned(redacted) = redact::text(text) {
                *text = redacted;
            }
        }
        // A check is counted by its text.
        let seconds = self.seconds.iter_mut();
        let counted = seconds.flat_map(|second| [&mut second.counts, &mut second.errors]);
        let measured = self
            .throughput
            .iter_mut()
            .map(|measured| &mut measured.counts);
        let all = [&mut self.counts, &mut self.errors]
            .into_iter()
            .chain(measured);
        all.chain(counted).for_each(redact_names);
    }

    /// A series by name.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&SeriesResult> {
        self.series.iter().find(|series| series.name == name)
    }

    /// A count by name, 0 where nothing was counted.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Returns the most operations that were open at once by the daemon's own gauge, which the driver names; `None` where
    /// it has none. Of several daemons side by side the sum of the peaks of each, an upper bound.
    #[must_use]
    pub fn peak_of_daemon(&self) -> Option<f64> {
        let gauges = &self.usage.daemon.as_ref()?.gauges_peak;
        // Older results do not name it.
        let name = self.facts.peak_metric.as_deref();
        gauges.get(name.unwrap_or("daemon_peak_streams")).copied()
    }

    /// Returns the seconds before the load in which connections were opened; 0 where that is no phase of the plan.
    #[must_use]
    pub fn opening_s(&self) -> f64 {
        let opening = self.facts.opening.as_ref();
        opening.map_or(0.0, |opening| opening.took_s)
    }

    /// How long faults kept the daemon from taking connections, in nanoseconds: the sum of all. `None` where there were
    /// none, or where it did not come back.
    #[must_use]
    pub fn down_ns(&self) -> Option<f64> {
        let down = |fault: &FaultResult| Some((fault.back_s? - fault.at_s) * 1e9);
        let downs: Vec<f64> = self.faults.iter().map(down).collect::<Option<_>>()?;
        (!downs.is_empty()).then(|| downs.iter().sum())
    }

    /// The share of started operations that ended as they should, in percent; `None` where none was started.
    #[must_use]
    pub fn success_pct(&self) -> Option<f64> {
        let Operations { started, ok, .. } = self.operations;
        (started > 0).then(|| 100.0 * ok as f64 / started as f64)
    }
}

fn redact_names(counts: &mut BTreeMap<String, u64>) {
    let names = counts.keys().filter_map(|name| match redact::text(name) {
        Cow::Owned(redacted) => Some((name.clone(), redacted)),
        Cow::Borrowed(_) => None,
    });
    for (name, redacted) in names.collect::<Vec<_>>() {
        let count = counts.remove(&name).unwrap_or(0);
        *counts.entry(redacted).or_default() += count;
    }
}

/// Counts with owned names, as a result keeps them.
#[must_use]
pub fn owned(counts: &Counts) -> BTreeMap<String, u64> {
    counts
        .iter()
        .map(|(name, count)| (name.clone().into_owned(), *count))
        .collect()
}

/// The JSON Schema of [`RunResult`], pretty-printed.
#[must_use]
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&schemars::schema_for!(RunResult))
        .expect("a schema is plain JSON");
    text.push('\n');
    text
}
