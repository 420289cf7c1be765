//! Reasons to doubt a result, each with a hint, and the verdict that they add up to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units;

/// What is doubtful.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Kind {
    /// The driver began operations later than its schedule asked.
    GeneratorLate,
    /// A worker used most of a core: the driver, not the daemon, may be what was measured.
    GeneratorCpuBound,
    /// Workers ended with an error or a panic.
    WorkersFailed,
    /// Not one operation ended as it should.
    NothingSucceeded,
    /// Operations were still open when the drain phase ended.
    Unfinished,
    /// Operations were due and never started.
    Missed,
    /// The daemon ended during the run.
    DaemonDied,
    /// Too few samples for the percentiles shown.
    FewSamples,
    /// The driver was built without optimisation.
    DebugBuild,
    /// The machine was busy with something else.
    NoisyHost,
    /// What the driver counted and what the daemon counted differ.
    CountsDisagree,
    /// Figures of the result contradict each other or what was planned: a row of the audit.
    Audit,
    /// The daemon delivered some things twice that it should deliver once.
    Duplicated,
    /// The daemon delivered some things in another order than it should.
    OutOfOrder,
    /// The kernel dropped connections that a listener was slow to accept.
    ListenOverflow,
    /// TCP sent again what was not acknowledged in time.
    Retransmits,
    /// Daemons that are compared answer differently.
    AnswersDiffer,
    /// The run was interrupted.
    Interrupted,
    /// A file lacks what could not be written, or the result what could not be read back.
    RowsLost,
    /// Another tool made the run: what is known of it is what that tool reported.
    Imported,
}

/// How much a warning takes from a result.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; the figures stand.
    Note,
    /// The figures may be off.
    Suspect,
    /// The figures are not of the daemon.
    Invalid,
}

/// A reason to doubt a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// What is doubtful.
    pub kind: Kind,
    /// How much it takes from the result.
    pub severity: Severity,
    /// What was seen, with its figures.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Whether a result may be believed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Nothing speaks against the figures.
    Valid,
    /// Something does: read the warnings before the figures.
    Suspect,
    /// The figures are not of the daemon.
    Invalid,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Valid => "VALID",
            Self::Suspect => "SUSPECT",
            Self::Invalid => "INVALID",
        })
    }
}

/// The verdict of all warnings together: that of the gravest.
#[must_use]
pub fn verdict(warnings: &[Warning]) -> Verdict {
    match warnings.iter().map(|warning| warning.severity).max() {
        None | Some(Severity::Note) => Verdict::Valid,
        Some(Severity::Suspect) => Verdict::Suspect,
        Some(Severity::Invalid) => Verdict::Invalid,
    }
}

/// Lateness that invalidates a run whatever its latencies are, in nanoseconds.
const LAG_LIMIT_NS: u64 = 1_000_000;
/// CPU use of one worker, in percent of a core, above which the driver may be the bottleneck.
pub(crate) const WORKER_CPU_LIMIT_PCT: f64 = 85.0;
/// Stolen CPU time above which a run is invalid, in percent.
const STEAL_LIMIT_PCT: f64 = 2.0;
/// Load average before the start above which a host is called noisy.
const LOAD_LIMIT: f64 = 0.5;
/// One missed operation in so many started ones is no other load than the one that was asked for.
const LEAST_MISSED: u64 = 10_000;
/// Samples that a p99 needs, so that ten of them lie beyond it.
const FEW_SAMPLES: u64 = 1_000;

impl Warning {
    fn new(kind: Kind, severity: Severity, message: String, hint: &str) -> Self {
        Self {
            kind,
            severity,
            message,
            hint: hint.to_owned(),
        }
    }

    /// Judges the driver's own lateness against the 99th percentile of the response time, where there is one, both in
    /// nanoseconds.
    ///
    /// Invalid where the lateness exceeds both 1 ms and a tenth of the response; a note where only the tenth.
    #[must_use]
    pub fn generator_late(lag_p99_ns: u64, response_p99_ns: Option<u64>) -> Option<Self> {
        let beyond_a_tenth = response_p99_ns.is_none_or(|response| lag_p99_ns > response / 10);
        let severity = match (lag_p99_ns > LAG_LIMIT_NS, beyond_a_tenth) {
            (true, true) => Severity::Invalid,
            (false, true) if response_p99_ns.is_some() => Severity::Note,
            _ => return None,
        };
        let beside = response_p99_ns
            .map(|response| format!(" beside a response p99 of {}", units::duration(response)))
            .unwrap_or_default();
        let message = format!(
            "the driver began operations late: p99 {}{beside}",
            units::duration(lag_p99_ns)
        );
        let hint = "lower the rate, give the driver cores of its own, or split it (--processes)";
        Some(Self::new(Kind::GeneratorLate, severity, message, hint))
    }

    /// Judges the CPU use of the busiest worker, in percent of one core over the run.
    #[must_use]
    pub fn generator_cpu_bound(worker_cpu_pct: f64) -> Option<Self> {
        (worker_cpu_pct > WORKER_CPU_LIMIT_PCT).then(|| {
            let message = format!("a worker of the driver used {worker_cpu_pct:.0} % of a core: it may be the bottleneck");
            Self::new(Kind::GeneratorCpuBound, Severity::Invalid, message, "use more threads or processes, or less load")
        })
    }

    /// Workers that ended with an error or a panic, with the first reason.
    #[must_use]
    pub fn workers_failed(failed: u64, of: u64, first: &str) -> Self {
        let message = format!("{failed} of {of} workers failed; the first: {first}");
        Self::new(
            Kind::WorkersFailed,
            Severity::Invalid,
            message,
            "their share of the load is missing: run again",
        )
    }

    /// Operations failed, and none ended as it should; `most` is the kind of most of them.
    #[must_use]
    pub fn nothing_succeeded(failed: u64, most: &str) -> Self {
        let message = format!(
            "all {} operations failed, most as {most}",
            units::count(failed)
        );
        Self::new(
            Kind::NothingSucceeded,
            Severity::Suspect,
            message,
            "the figures are of failures alone: see the errors, and the end of the daemon's log",
        )
    }

    /// Operations that were still open when the drain phase ended.
    #[must_use]
    pub fn unfinished(operations: u64) -> Option<Self> {
        (operations > 0).then(|| {
            let message = format!("still open when the run ended: {operations}");
            Self::new(
                Kind::Unfinished,
                Severity::Suspect,
                message,
                "their times are in no percentile: give the run a longer drain",
            )
        })
    }

    /// Operations that were due and never started.
    #[must_use]
    pub fn missed(operations: u64, started: u64) -> Option<Self> {
        // What is due in the last moment before the end is not begun by a driver that wakes a moment later.
        let severity = match operations.saturating_mul(LEAST_MISSED) > started {
            true => Severity::Suspect,
            false => Severity::Note,
        };
        (operations > 0).then(|| {
            let message = format!("due and never started: {operations}");
            Self::new(
                Kind::Missed,
                severity,
                message,
                "the load was lower than asked: lower the rate or add processes",
            )
        })
    }

    /// The daemon ended during the run.
    #[must_use]
    pub fn daemon_died(status: &str, last_lines: &str) -> Self {
        let message =
            format!("the daemon ended during the run ({status}); its last lines:\n{last_lines}");
        Self::new(
            Kind::DaemonDied,
            Severity::Invalid,
            message,
            "its log is kept beside the result",
        )
    }

    /// A daemon that was ended on purpose did not come back, so that what was asked for after that met nobody.
    #[must_use]
    pub fn daemon_not_back(problem: &str, last_lines: &str) -> Self {
        let message = format!(
            "the daemon did not come back after a fault ({problem}); its last lines:\n{last_lines}"
        );
        Self::new(
            Kind::DaemonDied,
            Severity::Invalid,
            message,
            "its log is kept beside the result; if it needs longer, raise `ready.timeout` in its manifest",
        )
    }

    /// Judges whether a series has enough samples for its 99th percentile.
    #[must_use]
    pub fn few_samples(series: &str, samples: u64) -> Option<Self> {
        (samples > 0 && samples < FEW_SAMPLES).then(|| {
            let message =
                format!("{series} has {samples} samples: fewer than ten lie beyond its p99");
            Self::new(
                Kind::FewSamples,
                Severity::Note,
                message,
                "quote the median, or run longer",
            )
        })
    }

    /// The driver was built without optimisation.
    #[must_use]
    pub fn debug_build() -> Self {
        let message =
            "the driver was built without optimisation: it is several times slower than it can be"
                .to_owned();
        Self::new(
            Kind::DebugBuild,
            Severity::Note,
            message,
            "run it with `cargo run --release`",
        )
    }

    /// Judges the load average before the start and the CPU time stolen during the run, in percent.
    #[must_use]
    pub fn noisy_host(load1: Option<f64>, cpus: u64, steal_pct: Option<f64>) -> Option<Self> {
        let hint = "stop what else runs, compare only within one run, and repeat";
        if let Some(steal) = steal_pct.filter(|steal| *steal > STEAL_LIMIT_PCT) {
            let message =
                format!("the hypervisor took {steal:.1} % of the CPU time during the run");
            return Some(Self::new(Kind::NoisyHost, Severity::Invalid, message, hint));
        }
        let load = load1.filter(|load| *load > LOAD_LIMIT)?;
        let message = format!("the load average was {load:.2} on {cpus} CPUs before the run began");
        Some(Self::new(Kind::NoisyHost, Severity::Note, message, hint))
    }

    /// The driver and the daemon counted differently.
    #[must_use]
    pub fn counts_disagree(what: &str, driver: u64, daemon: u64) -> Self {
        let message = format!("{what}: the driver counted {driver}, the daemon {daemon}");
        Self::new(
            Kind::CountsDisagree,
            Severity::Suspect,
            message,
            "does another client use the daemon? else one of the two is wrong",
        )
    }

    /// Two figures that should agree and don't, with what that may mean.
    #[must_use]
    pub(crate) fn audit(message: String, hint: &str) -> Self {
        Self::new(Kind::Audit, Severity::Suspect, message, hint)
    }

    /// Rows of `resources.csv` could not be written.
    #[must_use]
    pub fn rows_lost(why: &str) -> Self {
        let message = format!("resources.csv lacks rows that could not be written: {why}");
        Self::new(
            Kind::RowsLost,
            Severity::Note,
            message,
            "the result itself has them all, under `resources`",
        )
    }

    /// Rows of a result that lay on disk while the run lasted could not be read back.
    #[must_use]
    pub fn seconds_lost(why: &str) -> Self {
        let message = format!("the result lacks seconds that could not be read back: {why}");
        Self::new(
            Kind::RowsLost,
            Severity::Suspect,
            message,
            "the totals hold them; for the rows, repeat the run with --out on a sound disk",
        )
    }

    /// Daemons that are compared were asked the same before their runs and answered differently.
    #[must_use]
    pub fn answers_differ(one: &str, other: &str) -> Self {
        Self::new(
            Kind::AnswersDiffer,
            Severity::Suspect,
            format!("the answers differ: {one}, but {other}"),
            "let all serve the same, or the comparison is one of what they serve",
        )
    }

    /// The run was ended early by a signal.
    #[must_use]
    pub fn interrupted(after_s: f64, planned_s: f64) -> Self {
        let message = format!("interrupted after {after_s:.1} s of {planned_s:.1} s planned");
        Self::new(
            Kind::Interrupted,
            Severity::Suspect,
            message,
            "the result holds what was measured until then",
        )
    }

    /// Another tool made the run. Nothing that this project checks in its own runs is known of it, so its figures are
    /// never VALID.
    #[must_use]
    pub fn imported(tool: &str, times: &str) -> Self {
        let message = format!(
            "imported from {tool}, figures as it reported them; its times are {times}; unknown are the machine, warm-up (counted if there was none apart), the tool's own load and lateness, and what the daemon cost"
        );
        Self::new(
            Kind::Imported,
            Severity::Suspect,
            message,
            "to compare with certainty, drive the same daemon with a driver of this project on the same machine",
        )
    }

    /// What is known to mislead in the report of the tool that made the run; in one note, so that none hides another.
    #[must_use]
    pub fn misleading(tool: &str, told: &[String]) -> Option<Self> {
        (!told.is_empty()).then(|| {
            let message = format!("how to read {tool}: {}", told.join("; "));
            Self::new(
                Kind::Imported,
                Severity::Note,
                message,
                "what the tool printed lies beside the result",
            )
        })
    }
}
