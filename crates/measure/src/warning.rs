//! Reasons to doubt a result, each with a hint, and the verdict that they add up to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tally::Distribution;
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
    /// The machine was busy before the run, or the hypervisor took CPU time during it.
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
    /// Daemons that are compared answer differently, or one daemon answers something else than expected.
    AnswersDiffer,
    /// The run was interrupted.
    Interrupted,
    /// A file lacks what could not be written, or the result what could not be read back.
    RowsLost,
    /// Another tool made the run: what is known of it is what that tool reported.
    Imported,
    /// Other work on the machine had CPU time during the run that daemon and driver could have used.
    OtherWork,
    /// The loop of a worker did not run although something was due.
    Stalled,
    /// The CPU quota of a control group held the driver or the daemon.
    Throttled,
    /// The driver ran out of descriptors or ports.
    DriverExhausted,
    /// A worker waited long for a CPU, which daemon and driver had themselves, or nobody knows who.
    SharedCpus,
    /// A closed loop in which neither daemon nor driver was full.
    Unfilled,
}

impl Kind {
    /// Returns true for what may be the cause of other warnings, which is named before them.
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

/// The reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// Its plan was carried out, with the time to drain.
    Plan,
    /// It was interrupted once, and what was open had time to end.
    Interrupt,
    /// It was interrupted twice.
    SecondInterrupt,
    /// Workers of the driver or the daemon were lost.
    Failure,
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

/// Puts the most severe warnings first, and before all of them what may be their cause: other work on the machine before
/// the lateness that it leads to.
pub fn sort(warnings: &mut [Warning]) {
    warnings.sort_by_key(|warning| {
        let is_grave_cause = warning.kind.is_cause() && warning.severity > Severity::Note;
        std::cmp::Reverse((is_grave_cause, warning.severity, warning.kind.is_cause()))
    });
}

/// A quantile that reports show, and the lateness that it bears.
struct Judged {
    quantile: f64,
    name: &'static str,
    /// Lateness up to this is borne, nanoseconds.
    limit_ns: u64,
    /// Lateness up to this part of the response is borne.
    part: f64,
}

/// The quantiles that reports show. Below the p99.9 lateness exceeds 1 ms (what a wake-up on a shared machine takes) and
/// a tenth of the response; from there on, where a single wake-up shows, 10 ms (as a stall does) and half of the response:
/// the quantile is then more the driver's than the daemon's.
const JUDGED: [Judged; 5] = [
    Judged::new(0.5, "p50", LAG_LIMIT_NS, LAG_PART),
    Judged::new(0.9, "p90", LAG_LIMIT_NS, LAG_PART),
    Judged::new(0.99, "p99", LAG_LIMIT_NS, LAG_PART),
    Judged::new(0.999, "p99.9", LAG_TAIL_LIMIT_NS, LAG_TAIL_PART),
    Judged::new(1.0, "max", LAG_TAIL_LIMIT_NS, LAG_TAIL_PART),
];

impl Judged {
    const fn new(quantile: f64, name: &'static str, limit_ns: u64, part: f64) -> Self {
        Self {
            quantile,
            name,
            limit_ns,
            part,
        }
    }
}

/// Lateness of half, a tenth or a hundredth of the starts that is borne, in nanoseconds.
const LAG_LIMIT_NS: u64 = 1_000_000;
/// Part of the response that this lateness may be.
const LAG_PART: f64 = 0.1;
/// Lateness of a thousandth of the starts that is borne, in nanoseconds.
const LAG_TAIL_LIMIT_NS: u64 = 10_000_000;
/// Part of the response that this lateness may be.
const LAG_TAIL_PART: f64 = 0.5;
/// Starts that must lie beyond a quantile whose lateness is more than a note: one late wake-up is not five.
const LEAST_BEYOND: f64 = 5.0;
/// CPU use of one worker, in percent of a core, above which the driver may be the bottleneck.
pub(crate) const WORKER_CPU_LIMIT_PCT: f64 = 85.0;
/// Stolen CPU time above which a run is suspect, in percent: what a comparison calls a difference is 3 %.
const STEAL_SUSPECT_PCT: f64 = 2.0;
/// Stolen CPU time above which a run is invalid, in percent: a tenth, as for the driver's lateness.
const STEAL_INVALID_PCT: f64 = 10.0;
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

    /// Judges the driver's own lateness against the response time, where there is one, at every quantile that reports show.
    ///
    /// A note where fewer than five starts lie beyond the quantile, and in a closed loop, where nothing but the beginning
    /// of its clients has a time.
    #[must_use]
    pub fn generator_late(
        lag: &Distribution,
        responses: &Distribution,
        is_paced: bool,
    ) -> Option<Self> {
        let mut late = Vec::new();
        let mut severity = None;
        for judged in &JUDGED {
            let (Some(lag_ns), response) = (
                lag.quantile(judged.quantile),
                responses.quantile(judged.quantile),
            ) else {
                continue;
            };
            let is_large = response.is_none_or(|all| lag_ns as f64 > judged.part * all as f64);
            if lag_ns <= judged.limit_ns || !is_large {
                continue;
            }
            // A quantile is no exact number: 50 starts have five beyond their p90.
            let beyond = lag.len() as f64 * (1.0 - judged.quantile) + 1e-6;
            let of_this = match is_paced && beyond >= LEAST_BEYOND {
                true => Severity::Invalid,
                false => Severity::Note,
            };
            severity = severity.max(Some(of_this));
            late.push((of_this, lag_at(judged.name, lag_ns, response)));
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
        let message = format!("the driver began operations late: {}", shown.join(", "));
        let hint = "lower the rate, give the driver cores of its own, or split it (--processes)";
        Some(Self::new(Kind::GeneratorLate, severity, message, hint))
    }

    /// A worker that used most of its core: over the run, or in so many of its measured seconds.
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
            "use more threads or processes, or less load",
        )
    }

    /// The driver had no descriptor or port left for some operations, which says nothing of the daemon: how many ended as
    /// each of these kinds.
    #[must_use]
    pub fn driver_exhausted(kinds: &[(&str, u64)]) -> Option<Self> {
        let found: Vec<String> = kinds
            .iter()
            .map(|(kind, count)| format!("{} as {kind}", units::count(*count)))
            .collect();
        (!found.is_empty()).then(|| {
            let message = format!(
                "the driver ran out of descriptors or ports, which is no failure of the daemon: {}",
                found.join(", ")
            );
            Self::new(
                Kind::DriverExhausted,
                Severity::Invalid,
                message,
                "raise the driver's limit of open files (ulimit -n), widen net.ipv4.ip_local_port_range or give it more source addresses, or lower the number of connections",
            )
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

    /// Operations that were still open when the run ended, because of `why`.
    #[must_use]
    pub fn unfinished(operations: u64, why: EndedBy) -> Option<Self> {
        (operations > 0).then(|| {
            let message = format!("still open when the run ended: {operations}");
            let hint = match why {
                EndedBy::Plan => "their times are in no percentile: give the run a longer drain",
                EndedBy::Interrupt => {
                    "their times are in no percentile: they lasted longer than the time to drain after the interruption"
                }
                EndedBy::SecondInterrupt => {
                    "their times are in no percentile: the second interruption ended them; after one alone they are drained"
                }
                EndedBy::Failure => {
                    "their times are in no percentile: they ended with the workers or the daemon that served them"
                }
            };
            Self::new(Kind::Unfinished, Severity::Suspect, message, hint)
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
        if let Some(steal) = steal_pct.filter(|steal| *steal > STEAL_SUSPECT_PCT) {
            let severity = match steal > STEAL_INVALID_PCT {
                true => Severity::Invalid,
                false => Severity::Suspect,
            };
            let message =
                format!("the hypervisor took {steal:.1} % of the CPU time during the run");
            return Some(Self::new(Kind::NoisyHost, severity, message, hint));
        }
        let load = load1.filter(|load| *load > LOAD_LIMIT)?;
        let message = format!("the load average was {load:.2} on {cpus} CPUs before the run began");
        Some(Self::new(Kind::NoisyHost, Severity::Note, message, hint))
    }

    /// The driver's own counts contradict each other: operations begun, and operations whose end it counted.
    #[must_use]
    pub fn operations_disagree(begun: u64, ended: u64) -> Self {
        let message = format!(
            "the driver counted {begun} operations begun, and {ended} that ended or were left open"
        );
        Self::new(
            Kind::CountsDisagree,
            Severity::Suspect,
            message,
            "the driver lost count: its figures are of other operations than those that it began",
        )
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

    /// The metrics page that was given has none of the counters that could be compared.
    #[must_use]
    pub fn nothing_compared(metrics: &[&str]) -> Self {
        Self::new(
            Kind::Audit,
            Severity::Note,
            format!(
                "the daemon's metrics page has none of the counters that are compared: {}",
                metrics.join(", ")
            ),
            "the counts are the driver's alone: give the page of the daemon that counts them",
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

    /// An answer says something else than expected; `difference` tells where the first one did.
    #[must_use]
    pub fn content_differs(difference: &str, hint: &str) -> Self {
        let message = format!("an answer says something else than expected: {difference}");
        Self::new(Kind::AnswersDiffer, Severity::Note, message, hint)
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

/// A quantile of the driver's lateness beside that of the response.
fn lag_at(quantile: &str, lag_ns: u64, response_ns: Option<u64>) -> String {
    let lag = units::duration(lag_ns);
    match response_ns {
        Some(response) => format!(
            "{quantile} {lag} beside a response {quantile} of {}",
            units::duration(response)
        ),
        None => format!("{quantile} {lag}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// So many values of 10 µs, and so many of so many milliseconds.
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
        // A driver that was stopped for 0.5 s in 60 s at 200 a second: the p99 does not show it.
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
            "the driver began operations late: p99.9 400 ms beside a response p99.9 of 55.0 ms"
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
            "the driver ran out of descriptors or ports, which is no failure of the daemon: 1,074 as connect_EMFILE"
        );
    }
}
