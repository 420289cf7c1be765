//! Warnings, each with a hint, and the verdict that follows from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tally::Distribution;
use crate::units;

/// The subject of a warning.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Kind {
    /// The driver started operations later than its schedule required.
    GeneratorLate,
    /// A worker of the driver used most of a core, so the driver may be the bottleneck instead of the daemon.
    GeneratorCpuBound,
    /// Workers of the driver ended with an error or a panic.
    WorkersFailed,
    /// No operation succeeded.
    NothingSucceeded,
    /// Operations were still open when the drain phase ended.
    Unfinished,
    /// Operations were due and never started.
    Missed,
    /// The daemon exited during the run.
    DaemonDied,
    /// A series has too few samples for the percentiles shown.
    FewSamples,
    /// The driver was built without optimisation.
    DebugBuild,
    /// The machine was busy before the run, or the hypervisor stole CPU time during it.
    NoisyHost,
    /// A counter of the driver and a counter of the daemon differ.
    CountsDisagree,
    /// A row of the audit failed: figures of the result contradict each other or the plan.
    Audit,
    /// The daemon delivered messages twice that it should deliver once.
    Duplicated,
    /// The daemon delivered messages out of order.
    OutOfOrder,
    /// The kernel dropped connections because an accept queue was full.
    ListenOverflow,
    /// TCP retransmitted segments that were not acknowledged in time.
    Retransmits,
    /// The daemons under comparison answer differently, or one daemon's answer differs from the expected one.
    AnswersDiffer,
    /// The run was interrupted.
    Interrupted,
    /// Rows could not be written to a file, or could not be read back into the result.
    RowsLost,
    /// The run was made by another tool, and the result holds only what that tool reported.
    Imported,
    /// Other processes used CPU time during the run that daemon and driver could have used.
    OtherWork,
    /// A worker's loop did not run although operations were due.
    Stalled,
    /// The CPU quota of a control group throttled the driver or the daemon.
    Throttled,
    /// The driver ran out of file descriptors or ports.
    DriverExhausted,
    /// A worker waited long for a CPU that daemon and driver used themselves, or whose user is not known.
    SharedCpus,
    /// A closed loop used neither the daemon nor the driver fully.
    Unfilled,
}

impl Kind {
    /// Returns true for a kind that may cause other warnings and is therefore listed before them.
    fn is_cause(self) -> bool {
        matches!(
            self,
            Self::NoisyHost
                | Self::OtherWork
                | Self::Throttled
                | Self::SharedCpus
                | Self::DriverExhausted
                | Self::DaemonDied
                | Self::WorkersFailed
        )
    }
}

/// The effect of a warning on the verdict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The figures can be used as they are. Notes keep a result VALID.
    Note,
    /// The figures may be wrong. The result is SUSPECT.
    Suspect,
    /// The figures do not describe the daemon. The result is INVALID.
    Invalid,
}

/// The reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// The plan was carried out, including the time to drain.
    Plan,
    /// The run was interrupted once; open operations had time to end.
    Interrupt,
    /// The run was interrupted twice.
    SecondInterrupt,
    /// Workers of the driver, or the daemon, failed.
    Failure,
}

/// A reason to doubt a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// The subject of the warning.
    pub kind: Kind,
    /// The effect on the verdict.
    pub severity: Severity,
    /// The observation, with its figures.
    pub message: String,
    /// The recommended action.
    pub hint: String,
}

/// The trustworthiness of a result, derived from its warnings.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// No warning is more severe than a note.
    Valid,
    /// At least one warning says that figures may be wrong. Read the warnings before the figures.
    Suspect,
    /// The figures do not describe the daemon.
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

/// Returns the verdict of all warnings: that of the most severe one.
#[must_use]
pub fn verdict(warnings: &[Warning]) -> Verdict {
    match warnings.iter().map(|warning| warning.severity).max() {
        None | Some(Severity::Note) => Verdict::Valid,
        Some(Severity::Suspect) => Verdict::Suspect,
        Some(Severity::Invalid) => Verdict::Invalid,
    }
}

/// Sorts warnings by severity, with possible causes first: other work on the machine comes before the lateness that it
/// causes.
pub fn sort(warnings: &mut [Warning]) {
    warnings.sort_by_key(|warning| {
        let is_severe_cause = warning.kind.is_cause() && warning.severity > Severity::Note;
        std::cmp::Reverse((is_severe_cause, warning.severity, warning.kind.is_cause()))
    });
}

/// A quantile shown in reports, with the lateness that it tolerates.
struct LagLimit {
    quantile: f64,
    name: &'static str,
    /// Tolerated lateness in nanoseconds.
    limit_ns: u64,
    /// Tolerated lateness as a share of the response time.
    part: f64,
}

/// The quantiles shown in reports. Below p99.9, lateness is too large above 1 ms (a wake-up on a shared machine) and a
/// tenth of the response time. From p99.9 on, where a single wake-up is visible, the limits are 10 ms (a stall) and
/// half of the response time: beyond that, the quantile describes the driver more than the daemon.
const LAG_LIMITS: [LagLimit; 5] = [
    LagLimit::new(0.5, "p50", LAG_LIMIT_NS, LAG_PART),
    LagLimit::new(0.9, "p90", LAG_LIMIT_NS, LAG_PART),
    LagLimit::new(0.99, "p99", LAG_LIMIT_NS, LAG_PART),
    LagLimit::new(0.999, "p99.9", LAG_TAIL_LIMIT_NS, LAG_TAIL_PART),
    LagLimit::new(1.0, "max", LAG_TAIL_LIMIT_NS, LAG_TAIL_PART),
];

impl LagLimit {
    const fn new(quantile: f64, name: &'static str, limit_ns: u64, part: f64) -> Self {
        Self {
            quantile,
            name,
            limit_ns,
            part,
        }
    }
}

/// Tolerated lateness of up to a hundredth of the starts, in nanoseconds.
const LAG_LIMIT_NS: u64 = 1_000_000;
/// Tolerated share of the response time for this lateness.
const LAG_PART: f64 = 0.1;
/// Tolerated lateness of a thousandth of the starts, in nanoseconds.
const LAG_TAIL_LIMIT_NS: u64 = 10_000_000;
/// Tolerated share of the response time for this lateness.
const LAG_TAIL_PART: f64 = 0.5;
/// Starts that must lie beyond a quantile before its lateness is more than a note, so that one late wake-up is not
/// enough.
const MIN_BEYOND: f64 = 5.0;
/// CPU use of one worker, in percent of a core, above which the driver may be the bottleneck.
pub(crate) const WORKER_CPU_LIMIT_PCT: f64 = 85.0;
/// Stolen CPU time above which a run is SUSPECT, in percent. Comparisons call a change of 3 % a difference.
const STEAL_SUSPECT_PCT: f64 = 2.0;
/// Stolen CPU time above which a run is INVALID, in percent: a tenth, as for the driver's lateness.
const STEAL_INVALID_PCT: f64 = 10.0;
/// Load average before the start above which a host is called noisy.
const LOAD_LIMIT: f64 = 0.5;
/// Started operations per missed one: up to one missed per 10,000 started operations is only a note.
const STARTED_PER_MISSED: u64 = 10_000;
/// Samples that a p99 needs so that ten of them lie beyond it.
const MIN_SAMPLES: u64 = 1_000;

impl Warning {
    fn new(kind: Kind, severity: Severity, message: String, hint: &str) -> Self {
        Self {
            kind,
            severity,
            message,
            hint: hint.to_owned(),
        }
    }

    /// Compares the driver's lateness with the response time, if there is one, at every quantile shown in reports.
    ///
    /// Returns a note if fewer than five starts lie beyond the quantile, and in a closed loop, where only the first
    /// start of each client has a due time.
    #[must_use]
    pub fn generator_late(
        lag: &Distribution,
        responses: &Distribution,
        is_paced: bool,
    ) -> Option<Self> {
        let mut late = Vec::new();
        let mut severity = None;
        for lag_limit in &LAG_LIMITS {
            let (Some(lag_ns), response) = (
                lag.quantile(lag_limit.quantile),
                responses.quantile(lag_limit.quantile),
            ) else {
                continue;
            };
            let is_large = response.is_none_or(|all| lag_ns as f64 > lag_limit.part * all as f64);
            if lag_ns <= lag_limit.limit_ns || !is_large {
                continue;
            }
            // Quantiles are computed in floating point: 50 starts have five beyond their p90.
            let beyond = lag.len() as f64 * (1.0 - lag_limit.quantile) + 1e-6;
            let of_this = match is_paced && beyond >= MIN_BEYOND {
                true => Severity::Invalid,
                false => Severity::Note,
            };
            severity = severity.max(Some(of_this));
            late.push((of_this, lag_at(lag_limit.name, lag_ns, response)));
        }
        if late.is_empty() {
            let lag_ns = lag.quantile(0.99)?;
            let response = responses.quantile(0.99)?;
            if lag_ns as f64 <= LAG_PART * response as f64 {
                return None;
            }
            late.push((Severity::Note, lag_at("p99", lag_ns, Some(response))));
        }
        let severity = severity.unwrap_or(Severity::Note);
        let shown: Vec<String> = late
            .into_iter()
            .filter_map(|(of_this, text)| (of_this == severity).then_some(text))
            .collect();
        let message = format!("the driver started operations late: {}", shown.join(", "));
        let hint = "lower the rate, give the driver its own cores, or split it (--processes)";
        Some(Self::new(Kind::GeneratorLate, severity, message, hint))
    }

    /// Reports a worker that used most of its core, over the run or in `full_seconds` of `seconds` measured seconds.
    #[must_use]
    pub fn generator_cpu_bound(
        severity: Severity,
        worker_cpu_pct: f64,
        full_seconds: u64,
        seconds: u64,
    ) -> Self {
        let of_seconds = match full_seconds {
            0 => String::new(),
            full => format!(
                " over the run, and more than {WORKER_CPU_LIMIT_PCT:.0} % in {full} of {seconds} seconds"
            ),
        };
        let message = format!(
            "a worker of the driver used {worker_cpu_pct:.0} % of a core{of_seconds}: it may be the bottleneck"
        );
        Self::new(
            Kind::GeneratorCpuBound,
            severity,
            message,
            "use more threads or processes, or lower the load",
        )
    }

    /// Reports operations that failed because the driver ran out of file descriptors or ports, with their count by
    /// error kind. Such failures say nothing about the daemon.
    #[must_use]
    pub fn driver_exhausted(kinds: &[(&str, u64)]) -> Option<Self> {
        let found: Vec<String> = kinds
            .iter()
            .map(|(kind, count)| format!("{} as {kind}", units::count(*count)))
            .collect();
        (!found.is_empty()).then(|| {
            let message = format!(
                "the driver ran out of file descriptors or ports, which is not a failure of the daemon: {}",
                found.join(", ")
            );
            Self::new(
                Kind::DriverExhausted,
                Severity::Invalid,
                message,
                "raise the driver's open-file limit (ulimit -n), widen net.ipv4.ip_local_port_range, give the driver more source addresses, or lower the number of connections",
            )
        })
    }

    /// Reports workers that ended with an error or a panic, with the first reason.
    #[must_use]
    pub fn workers_failed(failed: u64, of: u64, first: &str) -> Self {
        let message = format!("{failed} of {of} workers failed; the first: {first}");
        Self::new(
            Kind::WorkersFailed,
            Severity::Invalid,
            message,
            "their share of the load is missing: repeat the run",
        )
    }

    /// Reports that operations failed and none succeeded; `most` is the most frequent error kind.
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
            "the figures describe failures only: see the errors and the end of the daemon's log",
        )
    }

    /// Reports operations that were still open when the run ended for the reason `why`.
    #[must_use]
    pub fn unfinished(operations: u64, why: EndedBy) -> Option<Self> {
        (operations > 0).then(|| {
            let message = format!("still open when the run ended: {operations}");
            let hint = match why {
                EndedBy::Plan => "the percentiles do not include their times: give the run a longer drain",
                EndedBy::Interrupt => {
                    "the percentiles do not include their times: they were still open after the drain that follows an interruption"
                }
                EndedBy::SecondInterrupt => {
                    "the percentiles do not include their times: the second interruption ended the run; after a single one they are drained"
                }
                EndedBy::Failure => {
                    "the percentiles do not include their times: they ended with the workers or the daemon that served them"
                }
            };
            Self::new(Kind::Unfinished, Severity::Suspect, message, hint)
        })
    }

    /// Reports operations that were due and never started.
    #[must_use]
    pub fn missed(operations: u64, started: u64) -> Option<Self> {
        // A driver that wakes up a moment late misses the operations due just before the end.
        let severity = match operations.saturating_mul(STARTED_PER_MISSED) > started {
            true => Severity::Suspect,
            false => Severity::Note,
        };
        (operations > 0).then(|| {
            let message = format!("due and never started: {operations}");
            Self::new(
                Kind::Missed,
                severity,
                message,
                "the load was lower than planned: lower the rate or add processes",
            )
        })
    }

    /// Reports that the daemon exited during the run.
    #[must_use]
    pub fn daemon_died(status: &str, last_lines: &str) -> Self {
        let message = format!(
            "the daemon exited during the run ({status}); the last lines of its log:\n{last_lines}"
        );
        Self::new(
            Kind::DaemonDied,
            Severity::Invalid,
            message,
            "see its log, stored with the result",
        )
    }

    /// Reports that the daemon did not restart after an injected fault, so that later operations had no daemon.
    #[must_use]
    pub fn daemon_not_back(problem: &str, last_lines: &str) -> Self {
        let message = format!(
            "the daemon did not restart after a fault ({problem}); the last lines of its log:\n{last_lines}"
        );
        Self::new(
            Kind::DaemonDied,
            Severity::Invalid,
            message,
            "see its log, stored with the result; if the daemon needs longer to start, raise `ready.timeout` in its manifest",
        )
    }

    /// Returns a note if a series has too few samples for its 99th percentile.
    #[must_use]
    pub fn few_samples(series: &str, samples: u64) -> Option<Self> {
        (samples > 0 && samples < MIN_SAMPLES).then(|| {
            let message =
                format!("{series} has only {samples} samples: fewer than ten lie beyond its p99");
            Self::new(
                Kind::FewSamples,
                Severity::Note,
                message,
                "quote the median, or run longer",
            )
        })
    }

    /// Reports that the driver was built without optimisation.
    #[must_use]
    pub fn debug_build() -> Self {
        let message =
            "the driver was built without optimisation and is several times slower than a release build"
                .to_owned();
        Self::new(
            Kind::DebugBuild,
            Severity::Note,
            message,
            "run it with `cargo run --release`",
        )
    }

    /// Checks the load average before the start and the CPU time stolen during the run, in percent.
    #[must_use]
    pub fn noisy_host(load1: Option<f64>, cpus: u64, steal_pct: Option<f64>) -> Option<Self> {
        let hint = "stop other programs and repeat; compare figures only within one run";
        if let Some(steal) = steal_pct.filter(|steal| *steal > STEAL_SUSPECT_PCT) {
            let severity = match steal > STEAL_INVALID_PCT {
                true => Severity::Invalid,
                false => Severity::Suspect,
            };
            let message =
                format!("the hypervisor stole {steal:.1} % of the CPU time during the run");
            return Some(Self::new(Kind::NoisyHost, severity, message, hint));
        }
        let load = load1.filter(|load| *load > LOAD_LIMIT)?;
        let message = format!("the load average was {load:.2} on {cpus} CPUs before the run began");
        Some(Self::new(Kind::NoisyHost, Severity::Note, message, hint))
    }

    /// Reports that the driver's own counts contradict each other: operations started, and operations that ended or
    /// were left open.
    #[must_use]
    pub fn operations_disagree(begun: u64, ended: u64) -> Self {
        let message = format!(
            "the driver counted {begun} operations started, but {ended} that ended or were left open"
        );
        Self::new(
            Kind::CountsDisagree,
            Severity::Suspect,
            message,
            "the driver's counters are inconsistent: its figures do not cover exactly the operations that it started",
        )
    }

    /// Reports that driver and daemon counted differently.
    #[must_use]
    pub fn counts_disagree(what: &str, driver: u64, daemon: u64) -> Self {
        let message = format!("{what}: the driver counted {driver}, the daemon {daemon}");
        Self::new(
            Kind::CountsDisagree,
            Severity::Suspect,
            message,
            "check whether another client uses the daemon; otherwise one of the two counts is wrong",
        )
    }

    /// Reports that the given metrics page has none of the counters that could be compared.
    #[must_use]
    pub fn nothing_compared(metrics: &[&str]) -> Self {
        Self::new(
            Kind::Audit,
            Severity::Note,
            format!(
                "the daemon's metrics page has none of the counters to compare: {}",
                metrics.join(", ")
            ),
            "only the driver's counts are known: pass the metrics page of the daemon that counts them",
        )
    }

    /// Builds the warning for two figures that should agree and do not, with the possible reason.
    #[must_use]
    pub(crate) fn audit(message: String, hint: &str) -> Self {
        Self::new(Kind::Audit, Severity::Suspect, message, hint)
    }

    /// Reports that rows of `resources.csv` could not be written.
    #[must_use]
    pub fn rows_lost(why: &str) -> Self {
        let message = format!("rows are missing from resources.csv because writing failed: {why}");
        Self::new(
            Kind::RowsLost,
            Severity::Note,
            message,
            "the result has all rows, under `resources`",
        )
    }

    /// Reports that seconds of a result, stored on disk during the run, could not be read back.
    #[must_use]
    pub fn seconds_lost(why: &str) -> Self {
        let message =
            format!("seconds are missing from the result because reading them back failed: {why}");
        Self::new(
            Kind::RowsLost,
            Severity::Suspect,
            message,
            "totals are complete; rerun with --out on a working disk to get the per-second rows",
        )
    }

    /// Reports that the daemons under comparison answered the same request differently before their runs.
    #[must_use]
    pub fn answers_differ(one: &str, other: &str) -> Self {
        Self::new(
            Kind::AnswersDiffer,
            Severity::Suspect,
            format!("the answers differ: {one}, but {other}"),
            "make all daemons serve the same content; otherwise the comparison measures the content",
        )
    }

    /// Reports an answer that differs from the expected one; `difference` says where the first difference was.
    #[must_use]
    pub fn content_differs(difference: &str, hint: &str) -> Self {
        let message = format!("an answer differs from the expected one: {difference}");
        Self::new(Kind::AnswersDiffer, Severity::Note, message, hint)
    }

    /// Reports that a signal ended the run early.
    #[must_use]
    pub fn interrupted(after_s: f64, planned_s: f64) -> Self {
        let message = format!("interrupted after {after_s:.1} s of {planned_s:.1} s planned");
        Self::new(
            Kind::Interrupted,
            Severity::Suspect,
            message,
            "the result covers the time until the interruption",
        )
    }

    /// Marks a run made by another tool. None of this project's checks were made during that run, so its figures are
    /// never VALID.
    #[must_use]
    pub fn imported(tool: &str, times: &str) -> Self {
        let message = format!(
            "imported from {tool}, with the figures that it reported; its times are {times}; not known: the machine, the warm-up (included unless it was a separate run), the tool's own CPU use and lateness, and the daemon's resource use"
        );
        Self::new(
            Kind::Imported,
            Severity::Suspect,
            message,
            "for a reliable comparison, measure the same daemon with a driver of this project on the same machine",
        )
    }

    /// Collects known pitfalls of the report of the tool that made the run. They share one note, so that none hides
    /// another.
    #[must_use]
    pub fn misleading(tool: &str, told: &[String]) -> Option<Self> {
        (!told.is_empty()).then(|| {
            let message = format!("how to read {tool}: {}", told.join("; "));
            Self::new(
                Kind::Imported,
                Severity::Note,
                message,
                "the tool's own output is stored with the result",
            )
        })
    }
}

/// Formats a quantile of the driver's lateness next to the same quantile of the response time.
fn lag_at(quantile: &str, lag_ns: u64, response_ns: Option<u64>) -> String {
    let lag = units::duration(lag_ns);
    match response_ns {
        Some(response) => format!(
            "{quantile} {lag} against a response {quantile} of {}",
            units::duration(response)
        ),
        None => format!("{quantile} {lag}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Records `fast` values of 10 µs, and `slow` ones of a given number of milliseconds.
    fn times(short: u64, long: u64, ms: u64) -> Distribution {
        let mut times = Distribution::default();
        (0..short).for_each(|_| times.record(10_000));
        (0..long).for_each(|_| times.record(ms * MS));
        times
    }

    fn late(lag: &Distribution, responses: &Distribution, is_paced: bool) -> Option<Severity> {
        Warning::generator_late(lag, responses, is_paced).map(|warning| warning.severity)
    }

    #[test]
    fn lateness_is_judged_at_every_quantile_that_reports_show() {
        let of = |short, long, ms| late(&times(short, long, ms), &times(0, 10_000, 55), true);
        let invalid = Some(Severity::Invalid);
        assert_eq!(of(10_000, 0, 0), None);
        // A driver that was stopped for 0.5 s in 60 s at 200 operations per second: the p99 does not show it.
        assert_eq!(of(11_900, 100, 400), invalid);
        assert_eq!(
            of(11_990, 10, 400),
            Some(Severity::Note),
            "the maximum alone"
        );
        // Half of a response of 55 ms, and less.
        assert_eq!((of(9_950, 50, 28), of(9_950, 50, 27)), (invalid, None));
        // A tenth of it.
        assert_eq!((of(9_500, 500, 6), of(9_500, 500, 5)), (invalid, None));
        assert_eq!(
            (of(8_000, 2_000, 6), of(4_000, 6_000, 6)),
            (invalid, invalid)
        );
        let warning = Warning::generator_late(&times(11_900, 100, 400), &times(0, 9, 55), true);
        assert_eq!(
            warning.unwrap().message,
            "the driver started operations late: p99.9 400 ms against a response p99.9 of 55.0 ms"
        );
    }

    #[test]
    fn one_late_wake_up_of_few_starts_and_a_late_beginning_of_a_closed_loop_are_notes() {
        let note = Some(Severity::Note);
        let fast = times(0, 1_000, 2);
        assert_eq!(late(&times(99, 1, 5), &fast, true), None);
        assert_eq!(late(&times(98, 2, 5), &fast, true), note);
        assert_eq!(late(&times(46, 4, 5), &fast, true), note);
        assert_eq!(
            late(&times(40, 10, 5), &fast, true),
            Some(Severity::Invalid)
        );
        assert_eq!(late(&times(40, 10, 5), &fast, false), note);
        // Late by less than a millisecond, and by more than a tenth.
        assert_eq!(late(&times(1_000, 0, 0), &times(1_000, 0, 0), true), note);
        assert_eq!(late(&Distribution::default(), &fast, true), None);
    }

    #[test]
    fn a_little_stolen_time_is_suspect_and_more_is_invalid() {
        let of = |load1, steal| {
            let found = Warning::noisy_host(load1, 2, steal);
            found.map(|warning| warning.severity)
        };
        assert_eq!(of(Some(0.4), Some(2.0)), None);
        assert_eq!(of(Some(8.0), Some(2.0)), Some(Severity::Note));
        assert_eq!(of(Some(8.0), Some(2.2)), Some(Severity::Suspect));
        assert_eq!(of(None, Some(10.1)), Some(Severity::Invalid));
    }

    #[test]
    fn the_cause_is_named_before_what_follows_from_it() {
        let of = |kind, severity| Warning::new(kind, severity, String::new(), "");
        let mut warnings = [
            of(Kind::FewSamples, Severity::Note),
            of(Kind::NoisyHost, Severity::Note),
            of(Kind::Missed, Severity::Suspect),
            of(Kind::GeneratorLate, Severity::Invalid),
            of(Kind::OtherWork, Severity::Suspect),
            of(Kind::DriverExhausted, Severity::Invalid),
        ];
        sort(&mut warnings);
        assert_eq!(
            warnings.map(|warning| warning.kind),
            [
                Kind::DriverExhausted,
                Kind::OtherWork,
                Kind::GeneratorLate,
                Kind::Missed,
                Kind::NoisyHost,
                Kind::FewSamples,
            ]
        );
    }

    #[test]
    fn what_the_driver_had_nothing_left_for_is_named_as_its_own() {
        assert_eq!(Warning::driver_exhausted(&[]), None);
        let warning = Warning::driver_exhausted(&[("connect_EMFILE", 1_074)]).unwrap();
        assert_eq!(warning.severity, Severity::Invalid);
        assert_eq!(
            warning.message,
            "the driver ran out of file descriptors or ports, which is not a failure of the daemon: 1,074 as connect_EMFILE"
        );
    }
}
