//! Warnings about a run, each with its hint.

use super::{Kind, Severity, Warning};
use crate::isolation::Isolation;
use crate::result::{Operations, ThresholdResult};
use crate::tally::{Counts, WARMUP, WARMUP_FAILED, warmup_failures};
use crate::units;

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
/// Due operations per one that the driver did not begin: more than one of 100 is another load than the planned one. As
/// large a share makes an overload, if it is the daemon that does not serve it.
const DUE_PER_UNDRIVEN: u64 = 100;
/// Operations per one that failed: more than one of 100 in the warm-up, and fewer after it, are a daemon that changed.
const OPERATIONS_PER_FAILED: u64 = 100;
/// Maximum number of kinds of failures of the warm-up that are named.
const WARMUP_KINDS: usize = 3;
/// Samples that a p99 needs so that ten of them lie beyond it.
const MIN_SAMPLES: u64 = 1_000;

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

impl Warning {
    /// Warns of `number` events that must not happen, if there are any: "3 events reached a member twice". `rule` says why
    /// they must not. The warning is only a note, with an excuse instead of the rule, if one of the excuses holds.
    #[must_use]
    pub fn of_events(
        kind: Kind,
        number: u64,
        what: &str,
        excuses: &[(bool, &str)],
        rule: &str,
    ) -> Option<Self> {
        let excuse = excuses.iter().find(|(holds, _)| *holds);
        (number > 0).then(|| Self {
            kind,
            severity: excuse.map_or(Severity::Suspect, |_| Severity::Note),
            message: format!("{number} {what}"),
            hint: excuse.map_or(rule, |(_, excuse)| excuse).to_owned(),
        })
    }

    /// Reports a worker that used most of its core, over the run or in `full_seconds` of `seconds` measured seconds.
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
        Kind::GeneratorCpuBound.warning(
            severity,
            format!(
                "a worker of the driver used {worker_cpu_pct:.0} % of a core{of_seconds}: it may be the bottleneck"
            ),
            "use more threads or processes, or lower the load",
        )
    }

    /// Reports operations that failed because the driver ran out of file descriptors or ports, with their count by
    /// error kind. Such failures say nothing about the daemon.
    pub fn driver_exhausted(kinds: &[(&str, u64)]) -> Option<Self> {
        let found: Vec<String> = kinds
            .iter()
            .map(|(kind, count)| format!("{} as {kind}", units::count(*count)))
            .collect();
        (!found.is_empty()).then(|| {
            Kind::DriverExhausted.invalid(
                format!(
                    "the driver ran out of file descriptors or ports, which is not a failure of the daemon: {}",
                    found.join(", ")
                ),
                "raise the driver's open-file limit (ulimit -n), widen net.ipv4.ip_local_port_range, give the driver more source addresses, or lower the number of connections",
            )
        })
    }

    /// Reports workers that ended with an error or a panic, with the first reason.
    pub fn workers_failed(failed: u64, of: u64, first: &str) -> Self {
        Kind::WorkersFailed.invalid(
            format!("{failed} of {of} workers failed; the first: {first}"),
            "their share of the load is missing: repeat the run",
        )
    }

    /// Reports that operations failed and none succeeded; `most` is the most frequent error kind.
    pub fn nothing_succeeded(failed: u64, most: &str) -> Self {
        let failed = units::count(failed);
        Kind::NothingSucceeded.suspect(
            format!("all {failed} operations failed, most as {most}"),
            "the figures describe failures only: see the errors and the end of the daemon's log",
        )
    }

    /// Reports operations that were still open when the run ended.
    pub fn unfinished(operations: u64, ended_by: EndedBy) -> Option<Self> {
        let reason = match ended_by {
            EndedBy::Plan => "give the run a longer drain",
            EndedBy::Interrupt => {
                "they were still open after the drain that follows an interruption"
            }
            EndedBy::SecondInterrupt => {
                "the second interruption ended the run; after a single one they are drained"
            }
            EndedBy::Failure => "they ended with the workers or the daemon that served them",
        };
        (operations > 0).then(|| {
            Kind::Unfinished.suspect(
                format!("still open when the run ended: {operations}"),
                format!("the percentiles do not include their times: {reason}"),
            )
        })
    }

    /// Reports operations that were due and never started. `waiting` of them had a client that still waited for the
    /// daemon; the others are a load that the driver did not make.
    pub fn missed(operations: u64, waiting: u64, started: u64) -> Option<Self> {
        let undriven = operations.saturating_sub(waiting);
        let severity = if undriven.saturating_mul(DUE_PER_UNDRIVEN) > started + operations {
            Severity::Invalid
        } else if operations.saturating_mul(STARTED_PER_MISSED) > started {
            Severity::Suspect
        } else {
            // A driver that wakes up a moment late misses the operations due just before the end.
            Severity::Note
        };
        (operations > 0).then(|| {
            Kind::Missed.warning(
                severity,
                format!("due and never started: {operations}"),
                "the load was lower than planned: lower the rate or add processes",
            )
        })
    }

    /// Reports that operations of the warm-up failed, which no other figure includes, by the counters of the run.
    pub fn warmup_failed(counts: &Counts, measured: &Operations) -> Option<Self> {
        let [failed, begun] =
            [WARMUP_FAILED, WARMUP].map(|name| counts.get(name).copied().unwrap_or(0));
        let is_many = |failed: u64, of| failed.saturating_mul(OPERATIONS_PER_FAILED) > of;
        let severity = if is_many(failed, begun) && !is_many(measured.failed, measured.started) {
            Severity::Suspect
        } else {
            Severity::Note
        };
        (failed > 0).then(|| {
            let kinds = warmup_failures(counts).map(|(kind, count)| (kind.to_owned(), count));
            let kinds = units::kinds(kinds.collect(), WARMUP_KINDS);
            let [failed, begun] = [failed, begun.max(failed)].map(units::count);
            Kind::WarmupFailed.warning(
                severity,
                format!("{failed} of {begun} operations of the warm-up failed{kinds}"),
                "the figures cover only the time after it: look in the daemon's log for what failed at first",
            )
        })
    }

    /// Reports that the daemon exited during the run.
    pub fn daemon_died(status: &str, last_lines: &str) -> Self {
        Kind::DaemonDied.invalid(
            format!(
                "the daemon exited during the run ({status}); the last lines of its log:\n{last_lines}"
            ),
            "see its log, stored with the result",
        )
    }

    /// Reports that a service of the daemon exited during the run; `status` begins with its name.
    pub fn service_died(status: &str, last_lines: &str) -> Self {
        Kind::DaemonDied.invalid(
            format!(
                "a service of the daemon exited during the run ({status}); the last lines of its log:\n{last_lines}"
            ),
            "see its log, stored with the result",
        )
    }

    /// Reports that a service of the daemon did not restart after an injected fault; `problem` begins with its name.
    pub fn service_not_back(problem: &str, last_lines: &str) -> Self {
        Kind::DaemonDied.invalid(
            format!(
                "a service of the daemon did not restart after a fault ({problem}); the last lines of its log:\n{last_lines}"
            ),
            "see its log, stored with the result",
        )
    }

    /// Reports that the daemon did not restart after an injected fault, so that later operations had no daemon.
    pub fn daemon_not_back(problem: &str, last_lines: &str) -> Self {
        Kind::DaemonDied.invalid(
            format!(
                "the daemon did not restart after a fault ({problem}); the last lines of its log:\n{last_lines}"
            ),
            "see its log, stored with the result; if the daemon needs longer to start, raise `ready.timeout` in its manifest",
        )
    }

    /// Reports planned faults that were not injected before the run ended, with the first one as a sentence.
    pub fn faults_not_injected(faults: usize, first: &str) -> Option<Self> {
        (faults > 0).then(|| {
            Kind::FaultsNotInjected.suspect(
                format!("the run ended before {faults} of its faults; the first: {first}"),
                "the result says nothing about them: move them earlier, or give the load more time",
            )
        })
    }

    /// Returns a note if a series has too few samples for its 99th percentile.
    pub fn few_samples(series: &str, samples: u64) -> Option<Self> {
        (1..MIN_SAMPLES).contains(&samples).then(|| {
            Kind::FewSamples.note(
                format!("{series} has only {samples} samples: fewer than ten lie beyond its p99"),
                "quote the median, or run longer",
            )
        })
    }

    /// Reports that the driver was built without optimisation.
    pub fn debug_build() -> Self {
        Kind::DebugBuild.note(
            "the driver was built without optimisation and is several times slower than a release build",
            "run it with `cargo run --release`",
        )
    }

    /// Checks the CPU time stolen during the run, in percent, and the load average before the start. `load1` is `None` if
    /// the CPU use of other processes was measured during the run.
    pub fn noisy_host(load1: Option<f64>, cpus: u64, steal_pct: Option<f64>) -> Option<Self> {
        let steal = steal_pct.unwrap_or(0.0);
        let (severity, message) = match Severity::above(steal, STEAL_SUSPECT_PCT, STEAL_INVALID_PCT)
        {
            Some(severity) => (
                severity,
                format!("the hypervisor stole {steal:.1} % of the CPU time during the run"),
            ),
            None => {
                let load = load1.filter(|load| *load > LOAD_LIMIT)?;
                let message =
                    format!("the load average was {load:.2} on {cpus} CPUs before the run began");
                (Severity::Note, message)
            }
        };
        let hint = "stop other programs and repeat; compare figures only within one run";
        Some(Kind::NoisyHost.warning(severity, message, hint))
    }

    /// Returns a note if driver and daemon were given the same CPUs.
    pub fn shared_lists(isolation: &Isolation) -> Option<Self> {
        let shared = isolation.shared_cpus()?;
        Some(Kind::SharedCpus.note(
            format!("--driver-cpus and --daemon-cpus both name {shared}: driver and daemon take that CPU time from each other"),
            "name other CPUs in each: `drover doctor` proposes two lists",
        ))
    }

    /// Reports that processes of a daemon, which itself went on, were killed by its memory limit of `limit` bytes.
    pub fn killed_by_memory_limit(kills: u64, limit: u64) -> Self {
        Kind::DaemonProcesses.suspect(
            format!(
                "processes of the daemon that were killed by its memory limit of {}: {}",
                units::bytes(limit),
                units::count(kills)
            ),
            "the figures include their loss: raise --daemon-memory, or lower the load",
        )
    }

    /// Reports that the driver's own counts contradict each other: operations started, and operations that ended or
    /// were left open.
    pub fn operations_disagree(begun: u64, ended: u64) -> Self {
        Kind::CountsDisagree.suspect(
            format!(
                "the driver counted {begun} operations started, but {ended} that ended or were left open"
            ),
            "the driver's counters are inconsistent: its figures do not cover exactly the operations that it started",
        )
    }

    /// Reports that driver and daemon counted differently.
    pub fn counts_disagree(what: &str, driver: u64, daemon: u64) -> Self {
        Kind::CountsDisagree.suspect(
            format!("{what}: the driver counted {driver}, the daemon {daemon}"),
            "check whether another client uses the daemon; otherwise one of the two counts is wrong",
        )
    }

    /// Reports that the given metrics page has none of the counters that could be compared.
    pub fn nothing_compared(metrics: &[&str]) -> Self {
        Kind::Audit.note(
            format!(
                "the daemon's metrics page has none of the counters to compare: {}",
                metrics.join(", ")
            ),
            "only the driver's counts are known: pass the metrics page of the daemon that counts them",
        )
    }

    /// Reports that a daemon's counters could not be read before or after the load, so that they are not compared with
    /// the driver's, or only as a bound.
    pub fn counters_unread(page: &str, answered_before: bool) -> Self {
        let hint = "a page has to answer within 1 s in the Prometheus text format; see the daemon's log, or leave the page out";
        if answered_before {
            Kind::CountersUnread.suspect(
                format!("the daemon's counters could not be read after the load, and could before: {page}; nothing shows whether they agree with the driver's"),
                hint,
            )
        } else {
            Kind::CountersUnread.note(
                format!("the daemon's counters are not compared, because they could not be read before the load: {page}"),
                hint,
            )
        }
    }

    /// Reports that rows of `resources.csv` could not be written.
    pub fn rows_lost(why: &str) -> Self {
        Kind::RowsLost.note(
            format!("rows are missing from resources.csv because writing failed: {why}"),
            "the result has all rows, under `resources`",
        )
    }

    /// Reports that seconds of a result, stored on disk during the run, could not be read back.
    pub fn seconds_lost(why: &str) -> Self {
        Kind::RowsLost.suspect(
            format!("seconds are missing from the result because reading them back failed: {why}"),
            "totals are complete; rerun with --out on a working disk to get the per-second rows",
        )
    }

    /// Reports that the ledger of a process could not be stored or read.
    pub fn ledger_lost(why: &str) -> Self {
        Kind::RowsLost.suspect(
            format!(
                "a ledger could not be stored or read, so outcomes that need it are unknown: {why}"
            ),
            "if the disk is full, free space; then repeat the run",
        )
    }

    /// Reports that the daemons under comparison answered the same request differently before their runs.
    pub fn answers_differ(one: &str, other: &str) -> Self {
        Kind::AnswersDiffer.suspect(
            format!("the answers differ: {one}, but {other}"),
            "make all daemons serve the same content; otherwise the comparison measures the content",
        )
    }

    /// Reports an answer that differs from the expected one; `difference` says where the first difference was.
    pub fn content_differs(difference: &str, hint: &str) -> Self {
        let message = format!("an answer differs from the expected one: {difference}");
        Kind::AnswersDiffer.note(message, hint)
    }

    /// Reports that a signal ended the run early.
    pub fn interrupted(after_s: f64, planned_s: f64) -> Self {
        Kind::Interrupted.suspect(
            format!("interrupted after {after_s:.1} s of {planned_s:.1} s planned"),
            "the result covers the time until the interruption",
        )
    }

    /// Reports that a missed threshold ended the run early.
    pub fn ended_by_threshold(after_s: f64, planned_s: f64, missed: &ThresholdResult) -> Self {
        let measured = missed.measured.as_deref().unwrap_or("not measured");
        Kind::Interrupted.suspect(
            format!(
                "ended after {after_s:.1} s of {planned_s:.1} s planned, because a threshold was missed: {} (then {measured})",
                missed.text
            ),
            "the result covers the time until then; without abort_on_fail (--abort-on-fail) the run goes on",
        )
    }

    /// Marks a run made by another tool. None of this project's checks were made during that run, so its figures are
    /// never VALID.
    pub fn imported(tool: &str, times: &str) -> Self {
        Kind::Imported.suspect(
            format!(
                "imported from {tool}, with the figures that it reported; its times are {times}; not known: the machine, the warm-up (included unless it was a separate run), the tool's own CPU use and lateness, and the daemon's resource use"
            ),
            "for a reliable comparison, measure the same daemon with a driver of this project on the same machine",
        )
    }

    /// Names the figures of the tool that made the run that can't be true, alone or together with others. They share one
    /// warning.
    pub fn left_out(tool: &str, figures: &[String]) -> Option<Self> {
        (!figures.is_empty()).then(|| {
            Kind::Audit.suspect(
                format!("left out of the figures of {tool}: {}", figures.join("; ")),
                "compare the tool's own output, which is stored with the result",
            )
        })
    }

    /// Collects known pitfalls of the report of the tool that made the run. They share one note, so that none hides
    /// another.
    pub fn misleading(tool: &str, pitfalls: &[String]) -> Option<Self> {
        (!pitfalls.is_empty()).then(|| {
            Kind::Imported.note(
                format!("how to read {tool}: {}", pitfalls.join("; ")),
                "the tool's own output is stored with the result",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::warmup_failed_as;

    #[test]
    fn cpus_that_both_sides_were_given_are_noted() {
        let noted = |driver: &str, daemon: Option<&str>| {
            let noted = Warning::shared_lists(&Isolation {
                driver_cpus: driver.parse().ok(),
                daemon_cpus: daemon.map(|list| list.parse().unwrap()),
                ..Isolation::default()
            });
            noted.map(|warning| (warning.severity, warning.message))
        };
        let (severity, message) = noted("0-3", Some("3-7")).unwrap();
        assert_eq!(severity, Severity::Note);
        assert!(message.contains("both name 3: "), "{message}");
        assert_eq!(noted("0-3", Some("4-7")), None);
        assert_eq!(noted("0-3", None), None);
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
    fn a_hundredth_of_the_load_that_was_never_driven_is_invalid() {
        let severity = |missed, waiting| {
            let found = Warning::missed(missed, waiting, 10_000 - missed);
            found.map(|warning| warning.severity)
        };
        assert_eq!(severity(0, 0), None);
        assert_eq!(severity(1, 0), Some(Severity::Suspect));
        assert_eq!(severity(100, 0), Some(Severity::Suspect));
        assert_eq!(severity(101, 0), Some(Severity::Invalid));
        assert_eq!(severity(10_000, 0), Some(Severity::Invalid));
        // The daemon did not let them begin.
        assert_eq!(severity(5_000, 5_000), Some(Severity::Suspect));
        assert_eq!(severity(5_000, 4_899), Some(Severity::Invalid));
    }

    fn warmup_warning(counts: &[(&str, u64)], measured: &Operations) -> Option<Warning> {
        let counts = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        Warning::warmup_failed(&counts.collect(), measured)
    }

    #[test]
    fn failures_of_the_warm_up_alone_are_suspect_from_a_hundredth_on() {
        let severity = |failed, failed_after_it| {
            let measured = Operations {
                started: 800,
                failed: failed_after_it,
                ..Operations::default()
            };
            let found = warmup_warning(&[(WARMUP_FAILED, failed), (WARMUP, 400)], &measured);
            found.map(|warning| warning.severity)
        };
        assert_eq!(severity(0, 0), None);
        assert_eq!(severity(4, 0), Some(Severity::Note));
        assert_eq!(severity(5, 0), Some(Severity::Suspect));
        assert_eq!(severity(295, 8), Some(Severity::Suspect));
        assert_eq!(severity(295, 9), Some(Severity::Note), "they are shown");
    }

    #[test]
    fn failures_of_the_warm_up_are_named_by_kind() {
        let kinds = [
            ("timeout", 95),
            ("status", 190),
            ("reset", 6),
            ("refused", 4),
        ];
        let kinds = kinds.map(|(kind, count)| (warmup_failed_as(kind), count));
        let mut counts: Vec<(&str, u64)> = vec![(WARMUP_FAILED, 295), (WARMUP, 400)];
        counts.extend(kinds.iter().map(|(name, count)| (name.as_str(), *count)));
        let message = warmup_warning(&counts, &Operations::default())
            .unwrap()
            .message;
        assert_eq!(
            message,
            "295 of 400 operations of the warm-up failed (status 190, timeout 95, reset 6, …)"
        );
    }

    #[test]
    fn exhausted_descriptors_are_reported_as_a_problem_of_the_driver() {
        assert_eq!(Warning::driver_exhausted(&[]), None);
        let warning = Warning::driver_exhausted(&[("connect_EMFILE", 1_074)]).unwrap();
        assert_eq!(warning.severity, Severity::Invalid);
        assert_eq!(
            warning.message,
            "the driver ran out of file descriptors or ports, which is not a failure of the daemon: 1,074 as connect_EMFILE"
        );
    }
}
