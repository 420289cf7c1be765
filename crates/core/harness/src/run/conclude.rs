//! Derives a result from what was observed of a load: one way for a run, for a part of one, and for a merge of parts.

use std::collections::BTreeMap;

use load::driver::{Driver, Findings, ValidPlan};
use load::redact;
use measure::audit;
use measure::result::{AuditInputs, OpeningTime, Operations, RunResult, Second, SeriesResult};
use measure::tally::Tally;
use measure::threshold::Threshold;
use measure::throughput::{Offer, Throughput};
use measure::warning::{EndedBy, Warning};

use super::scrape::Counted;
use super::warnings::{compared, raise};

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
    /// Returns true unless it is a part that only launched the daemon.
    pub(super) fn has_load(self) -> bool {
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
    /// CPU use of the busiest worker, percent of a core.
    pub(crate) worker_cpu_pct: Option<f64>,
    pub(crate) opening: Option<OpeningTime>,
    /// The fields of the result that nothing here derives. Its warnings are those that only the observer can raise.
    pub(crate) facts: RunResult,
}

/// Derives the figures, the warnings and the verdict of a load.
pub(crate) fn conclude<D: Driver>(
    load: &ValidPlan<D::Config>,
    mut observed: Observed,
) -> RunResult {
    let description = &load.description;
    let total = &observed.total;
    let operations = Operations::from_tally(total, &observed.seconds);
    let findings = if observed.scope.has_load() {
        D::findings(&load.plan, total)
    } else {
        Findings::default()
    };
    observed.facts.audit_inputs = AuditInputs {
        worker_cpu_pct: observed.worker_cpu_pct,
        opening: observed.opening.take(),
        compared: compared(
            load.spec,
            &observed.daemon_counts,
            &findings.bounds,
            total,
            observed.is_short,
        ),
        ..description.audit_inputs.clone()
    };
    let offer = Offer::new(description.is_open_loop, &operations, description.longest);
    let throughput = Throughput::new(&total.measured, observed.measured_s, &offer, load.spec);
    let of_driver = findings.warnings;
    let raised = raise::<D>(load, &observed, &operations, &throughput, of_driver);
    let Observed {
        scope,
        total,
        seconds,
        mut facts,
        ..
    } = observed;
    facts.warnings.extend(raised);
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
        counts: total.counts.clone(),
        errors: total.errors.clone(),
        series: series.collect(),
        lag: SeriesResult::from_distribution("lag", &total.lag),
        seconds,
        ..facts
    };
    let response = &load.spec.series[description.response.0].name;
    let unsteady = result.unsteady(response);
    result.warnings.extend(unsteady);
    let near = Warning::of_calibration(&result);
    result.warnings.extend(near);
    audit::judge(&mut result);
    Threshold::judge_all(&observed.thresholds, &mut result);
    redact::result(&mut result);
    result
}
