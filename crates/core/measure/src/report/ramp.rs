//! The steps of a run whose rate rises: latency and served rate against the offered one, and the last step that the
//! daemon held.

use crate::objective::Objective;
use crate::result::{RateStep, RunResult, Second};
use crate::spec::SeriesRole;
use crate::tally::{Decoder, Distribution, GOODPUT, OK};
use crate::units;

/// Share of the offered operations that must be served for a step to be held.
const MIN_SERVED: f64 = 0.99;
/// Operations by which a constant rate may differ from the plan: one at each end of the step.
const EDGES: f64 = 2.0;
/// Standard deviations by which the number of random arrivals may differ from the plan.
const DEVIATIONS: f64 = 3.0;
/// Whole seconds of a step from which on the first is left out: it has responses of the step before.
const SETTLED: usize = 3;

/// The figures of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    /// Operations due per second.
    pub(super) offered_per_s: f64,
    /// Operations that succeeded per second.
    pub(super) served_per_s: f64,
    /// Median and 99th percentile of the headline series, nanoseconds; `None` without a value.
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    /// Share of the due operations that met the objectives, percent; `None` without objectives.
    pub(super) goodput_pct: Option<f64>,
    /// The reason why the step was not held; `None` if it was.
    pub(super) problem: Option<String>,
}

impl Step {
    /// Returns the share of the offered operations that succeeded, percent.
    pub(super) fn served_pct(&self) -> f64 {
        100.0 * self.served_per_s / self.offered_per_s
    }
}

impl RunResult {
    /// Returns the steps of a rate that rises, as far as whole seconds of them were measured; none for another load, and
    /// for a part of one.
    pub(super) fn steps(&self) -> Vec<Step> {
        let planned = self.audit_inputs.steps.iter();
        let planned = planned.filter(|_| self.part.is_none());
        planned.filter_map(|step| self.step(step)).collect()
    }

    /// Returns the index of the last step that was held.
    pub(super) fn knee(steps: &[Step]) -> Option<usize> {
        steps.iter().rposition(|step| step.problem.is_none())
    }

    fn step(&self, planned: &RateStep) -> Option<Step> {
        let rows = self.rows(planned);
        let seconds = rows.len() as f64;
        let due = planned.per_s * seconds;
        if due == 0.0 {
            return None;
        }
        let sum = |name: &str| -> u64 {
            let counts = rows.iter().filter_map(|row| row.counts.get(name));
            counts.sum()
        };
        let served = sum(OK) as f64;
        let headline = self.spec.series.iter();
        let headline = headline.filter(|series| series.role == SeriesRole::Headline);
        let values = headline.map(|series| values(&rows, &series.name)).next();
        let at = |share| values.as_ref()?.quantile(share);
        let has_objectives = self.objectives().next().is_some();
        let slack = (DEVIATIONS * (planned.dispersion * due).sqrt()).max(EDGES);
        let is_short = served + slack.max((1.0 - MIN_SERVED) * due) < due;
        let short = is_short.then(|| {
            let share = units::share(100.0 * served / due);
            format!("served {share} % of the offered rate")
        });
        Some(Step {
            offered_per_s: planned.per_s,
            served_per_s: served / seconds,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            goodput_pct: has_objectives.then(|| 100.0 * (sum(GOODPUT) as f64 / due).min(1.0)),
            problem: short.or_else(|| self.slow(&rows)),
        })
    }

    /// Returns the rows of the whole seconds of a step.
    fn rows(&self, planned: &RateStep) -> Vec<&Second> {
        let load = self.opening_s();
        let (from, to) = (load + planned.from_s, load + planned.to_s);
        let is_whole = |row: &&Second| {
            let (begin, end) = (row.second as f64, (row.second + 1) as f64);
            begin >= from && end <= to && end <= self.wall_s
        };
        let mut rows: Vec<&Second> = self.seconds.iter().filter(is_whole).collect();
        if rows.len() >= SETTLED {
            rows.remove(0);
        }
        rows
    }

    /// Says which objective the 99th percentile misses.
    fn slow(&self, rows: &[&Second]) -> Option<String> {
        self.objectives().find_map(|text| {
            let objective = Objective::parse(text, &self.spec).ok()?;
            let series = &self.spec.series.get(objective.series.0)?.name;
            let p99 = values(rows, series).quantile(0.99);
            match p99 {
                Some(p99) if p99 < objective.limit_ns => None,
                Some(p99) => Some(format!("{series} p99 {}, not {text}", units::duration(p99))),
                None => Some(format!("no value of {series}")),
            }
        })
    }
}

/// Returns the values of a series in some seconds, as far as their histograms can be decoded.
fn values(rows: &[&Second], name: &str) -> Distribution {
    let (mut sum, mut decoder) = (Distribution::default(), Decoder::new());
    let series = rows.iter().flat_map(|row| &row.series);
    for found in series.filter(|found| found.name == name) {
        // The integrity check reports a damaged histogram.
        let _ = decoder.add(&found.histogram, found.clamped, &mut sum);
    }
    sum
}
