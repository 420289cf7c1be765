//! Derives a result from what was observed of a load: one way for a run, for a part of one, and for a merge of parts.

use std::collections::BTreeMap;

use load::driver::{Driver, Findings, ValidPlan};
use measure::audit;
use measure::result::{AuditInputs, Operations, RunResult, Second, SeriesResult};
use measure::tally::{Tally, owned};
use measure::threshold::Threshold;
use measure::throughput::{Offer, Throughput};
use measure::warning::{EndedBy, Kind, Warning};

use super::scrape::Counted;
use super::warnings::{compared, counter_warnings, disturbances, run_warnings};

/// The load that was observed. Each is judged by what its observer can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A whole run.
    Run,
    /// A part of a divided run.
    Part {
        /// False if it only launched the daemon.
        drives_load: bool,
        /// True if operations begin in one part and end in another.
        shares_operations: bool,
    },
    /// The sum of the parts, which have judged their own machines.
    Sum,
}

impl Scope {
    fn has_load(self) -> bool {
        !matches!(
            self,
            Self::Part {
                drives_load: false,
                ..
            }
        )
    }
}

/// The observations of a load, before anything is derived from them.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) scope: Scope,
    pub(crate) total: Tally,
    pub(crate) seconds: Vec<Second>,
    /// Length of the measured time, seconds.
    pub(crate) measured_s: f64,
    /// The reason why the load ended; absent if the parts have given it.
    pub(crate) ended_by: Option<EndedBy>,
    /// The daemons' counts, by the name of the driver's counter.
    pub(crate) daemon_counts: BTreeMap<String, Counted>,
    /// True if the seconds of a worker are missing.
    pub(crate) is_short: bool,
    /// Workers of this program.
    pub(crate) workers: u64,
    /// Thresholds of the whole load; a part has none.
    pub(crate) thresholds: Vec<Threshold>,
    /// The other fields of the result. Its warnings are those that only the observer can raise, and its audit inputs
    /// have only what was observed.
    pub(crate) facts: RunResult,
}

/// Derives the figures, the warnings and the verdict of a load.
pub(crate) fn conclude<D: Driver>(load: &ValidPlan<D::Config>, observed: Observed) -> RunResult {
    let Observed {
        scope,
        total,
        seconds,
        mut facts,
        ..
    } = observed;
    let operations = Operations::from_tally(&total, &seconds);
    let findings = if scope.has_load() {
        D::findings(&load.plan, &total)
    } else {
        Findings::default()
    };
    facts.audit_inputs = AuditInputs {
        worker_cpu_pct: facts.audit_inputs.worker_cpu_pct,
        opening: facts.audit_inputs.opening.take(),
        compared: compared(
            D::SPEC,
            &observed.daemon_counts,
            &findings.bounds,
            &total,
            observed.is_short,
        ),
        ..load.description.audit_inputs.clone()
    };
    let description = &load.description;
    let offer = Offer::new(description.is_open_loop, &operations, description.longest);
    let throughput = Throughput::new(&total.measured, observed.measured_s, &offer, D::SPEC);
    let unfinished = observed
        .ended_by
        .and_then(|ended_by| Warning::unfinished(operations.unfinished, ended_by));
    facts.warnings.extend(unfinished);
    let derived = derived_warnings::<D>(load, scope, &total, &operations, findings, &facts);
    facts.warnings.extend(derived);
    if scope != Scope::Sum {
        let of_machine = disturbances(&facts, description.busy_waits, observed.workers);
        facts.warnings.extend(of_machine);
    }
    facts.warnings.extend(throughput.backlog_note(&operations));
    if let Scope::Part {
        shares_operations: true,
        ..
    } = scope
    {
        // The others are about outcomes, which only the sum of all parts has.
        facts.warnings.retain(|warning| warning.kind.is_local());
    }
    let series = total
        .series()
        .filter_map(|(name, values)| SeriesResult::from_distribution(name, values));
    let mut result = RunResult {
        plan_sentence: description.sentence.clone(),
        operations,
        throughput: Some(throughput),
        counts: owned(&total.counts),
        errors: owned(&total.errors),
        series: series.collect(),
        lag: SeriesResult::from_distribution("lag", &total.lag),
        seconds,
        ..facts
    };
    audit::judge(&mut result);
    Threshold::judge_all(&observed.thresholds, &mut result);
    result.redact();
    result
}

/// Returns the warnings about the totals, about the daemon's counters, and of the driver.
fn derived_warnings<D: Driver>(
    load: &ValidPlan<D::Config>,
    scope: Scope,
    total: &Tally,
    operations: &Operations,
    findings: Findings,
    facts: &RunResult,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if scope.has_load() {
        warnings = run_warnings::<D>(total, operations, load);
    }
    if scope == Scope::Sum {
        // The build of this program is not the one that drove the load.
        warnings.retain(|warning| warning.kind != Kind::DebugBuild);
    }
    // The daemon has served all parts, not only this one.
    if !matches!(scope, Scope::Part { .. }) {
        warnings.extend(counter_warnings(&facts.audit_inputs.compared));
    }
    warnings.extend(findings.warnings);
    warnings
}
