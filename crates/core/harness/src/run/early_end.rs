//! Ends a load once a threshold is missed.

use load::clock;
use load::driver::{Driver, Phases, ValidPlan};
use measure::result::{Operations, RunResult, SeriesResult};
use measure::spec::Spec;
use measure::tally::Tally;
use measure::threshold::Threshold;
use measure::throughput::{Offer, Throughput};
use measure::warning::Warning;

use super::Settings;
use crate::part::Part;

/// The thresholds that are judged each second, from some time into the measured time on.
#[derive(Debug)]
pub(super) struct EarlyEnd {
    after_ns: u64,
    thresholds: Vec<Threshold>,
    spec: &'static Spec,
    planned_s: f64,
}

impl EarlyEnd {
    /// Returns `None` unless the plan asks for it. A part of a run can't judge the whole.
    pub(super) fn new<D: Driver>(
        load: &ValidPlan<D::Config>,
        settings: &Settings,
    ) -> anyhow::Result<Option<Self>> {
        let (Part::Whole, Some(after)) = (&settings.part, load.plan.abort_on_fail) else {
            return Ok(None);
        };
        Ok(Some(Self {
            after_ns: after.as_nanos() as u64,
            thresholds: load.plan.thresholds(load.spec)?,
            spec: load.spec,
            planned_s: load.plan.planned().as_secs_f64(),
        }))
    }

    /// Returns the warning about an early end, if a threshold is missed by what was counted so far.
    pub(super) fn judge(&self, total: &Tally, phases: &Phases) -> Option<Warning> {
        let now = clock::now();
        let from = phases.measure.saturating_add(self.after_ns);
        if !(from..phases.end).contains(&now) {
            return None;
        }
        let ended = Operations::from_tally(total, &[]);
        let operations = Operations {
            // Open operations may still succeed.
            started: ended.ok + ended.failed,
            unfinished: 0,
            ..ended
        };
        let measured_s = (now - phases.measure) as f64 / 1e9;
        let offer = Offer::new(false, &operations, std::time::Duration::ZERO);
        let is_judged = |name: &str| self.thresholds.iter().any(|own| own.reads_series(name));
        let series = total.series().filter(|(name, _)| is_judged(name));
        let result = RunResult {
            throughput: Some(Throughput::new(
                &total.measured,
                measured_s,
                &offer,
                self.spec,
            )),
            spec: self.spec.clone(),
            operations,
            counts: total.counts.clone(),
            errors: total.errors.clone(),
            series: series
                .filter_map(|(name, values)| SeriesResult::from_distribution(name, values))
                .collect(),
            lag: SeriesResult::from_distribution("lag", &total.lag),
            wall_s: (now - phases.origin) as f64 / 1e9,
            ..RunResult::default()
        };
        let mut missed = self.thresholds.iter();
        let missed = missed.find_map(|threshold| threshold.missed_by_now(&result))?;
        let after_s = now.saturating_sub(phases.begin) as f64 / 1e9;
        Some(Warning::ended_by_threshold(
            after_s,
            self.planned_s,
            &missed,
        ))
    }
}
