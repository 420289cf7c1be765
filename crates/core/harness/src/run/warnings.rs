//! Derives the numbers of a run, and the warnings about them.

use std::collections::BTreeMap;

use measure::result::{CounterComparison, Operations};
use measure::spec::{CounterSpec, Spec};
use measure::tally::Tally;
use measure::throughput::Throughput;
use measure::warning::Warning;

use super::conclude::{Observed, Scope};
use super::scrape::Counted;
use load::driver::{Bounds, Driver, Phases, ValidPlan};

/// Returns the warnings that follow from what was observed of a load, with the driver's own.
pub(super) fn raise<D: Driver>(
    load: &ValidPlan<D::Config>,
    observed: &Observed,
    operations: &Operations,
    throughput: &Throughput,
    of_driver: Vec<Warning>,
) -> Vec<Warning> {
    let Observed {
        scope,
        total,
        facts,
        ..
    } = observed;
    let response = load.description.response;
    let responses = total.distribution(response);
    // The build of a program that merges is not the one that drove the load.
    let drove_load = scope.has_load() && *scope != Scope::Sum;
    let ended = operations.ok + operations.failed + operations.unfinished;
    let late_ns = facts.part.as_ref().map_or(0, |part| part.late_ns);
    // Clients that think start at a time, too.
    let lifetime = &load.description.audit_inputs.lifetime;
    let counts_from_due = lifetime.as_ref().is_some_and(|lifetime| lifetime.from_due);
    let is_paced = load.plan.is_paced() || counts_from_due;
    let tick_ns = load.description.audit_inputs.tick_ns;
    let mut raised: Vec<Warning> = [
        Warning::shard_late(late_ns),
        observed
            .ended_by
            .and_then(|ended_by| Warning::unfinished(operations.unfinished, ended_by)),
        Warning::generator_late(&total.lag, responses, is_paced, tick_ns),
        Warning::few_samples(&load.spec.series[response.0].name, responses.len()),
        (cfg!(debug_assertions) && drove_load).then(Warning::debug_build),
        (!operations.add_up()).then(|| Warning::operations_disagree(operations.started, ended)),
    ]
    .into_iter()
    .flatten()
    .collect();
    raised.extend(Warning::of_outcomes(
        load.spec,
        &total.counts,
        &total.errors,
        operations,
    ));
    // The daemon has served all parts, not only one.
    if !matches!(scope, Scope::Part { .. }) {
        let compared = facts.audit_inputs.compared.iter();
        let differing = compared.filter(|compared| !compared.agrees());
        raised.extend(differing.map(|of| Warning::counts_disagree(&of.name, of.driver, of.daemon)));
    }
    raised.extend(of_driver);
    if *scope != Scope::Sum {
        let busy_waits = load.description.busy_waits;
        raised.extend(Warning::of_disturbances(
            facts,
            busy_waits,
            observed.workers,
        ));
    }
    raised.extend(throughput.backlog_note(operations));
    raised
}

/// Returns the driver's counters beside the daemons' counters of the same names. If daemons were started
/// again, their counts after the last page are lost: they may then have counted less than the driver, but never more.
pub(super) fn compared(
    spec: &'static Spec,
    daemon_counts: &BTreeMap<String, Counted>,
    bounds: &BTreeMap<&str, Bounds>,
    total: &Tally,
    driver_short: bool,
) -> Vec<CounterComparison> {
    let compared = |counter: &CounterSpec| {
        let name = counter.name.as_ref();
        let daemon = daemon_counts.get(name)?;
        let bounds = bounds.get(name).copied().unwrap_or_default();
        Some(CounterComparison {
            name: name.to_owned(),
            driver: total.counted(name),
            daemon: daemon.number as u64,
            whole: daemon.complete && !bounds.daemon_less,
            driver_short: driver_short || bounds.daemon_more,
        })
    };
    spec.counters.iter().filter_map(compared).collect()
}

/// Returns the longest time of any series, nanoseconds.
pub(super) fn slowest_ns(total: &Tally) -> u64 {
    let longest = total
        .series()
        .filter_map(|(_, values)| values.quantile(1.0));
    longest.max().unwrap_or(0)
}

/// Returns the length of the measured time, seconds. It is shorter than planned if the run was asked to end, at
/// `requested_at`, or ended by itself, at `over`, before the last `idle_tail_s` in which perhaps nothing is due.
pub(super) fn measured_s(phases: &Phases, requested_at: u64, over: u64, idle_tail_s: f64) -> f64 {
    let over = over.saturating_add((idle_tail_s * 1e9) as u64);
    let end = phases.end.min(requested_at).min(over);
    end.saturating_sub(phases.measure) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use load::plan::Timeline;
    use measure::disturbance::Disturbance;
    use measure::machine::Machine;
    use measure::result::{RunResult, Usage};
    use measure::warning::Kind;

    use super::*;

    #[test]
    fn the_time_after_the_last_operation_of_a_rate_is_measured_too() {
        let timeline = Timeline {
            warmup: Duration::from_secs(1),
            ..Timeline::new(Duration::from_secs(8), Duration::ZERO)
        };
        let phases = Phases::new(timeline, 0);
        let measured = |requested_at, over| measured_s(&phases, requested_at, over, 1.0);
        assert_eq!(measured(u64::MAX, 8_100_000_000), 8.0);
        assert_eq!(measured(u64::MAX, 4_000_000_000), 4.0);
        assert_eq!(measured(3_000_000_000, 3_500_000_000), 2.0);
    }

    #[test]
    fn the_load_before_a_run_is_noted_only_if_others_are_not_measured() {
        let is_noted = |others_cpu_pct| {
            let machine = Machine {
                load1: Some(8.0),
                cpus: 2,
                ..Machine::default()
            };
            let usage = Usage {
                disturbance: Some(Disturbance {
                    cpus: 2,
                    others_cpu_pct,
                    ..Disturbance::default()
                }),
                ..Usage::default()
            };
            let facts = RunResult {
                machine,
                usage,
                ..RunResult::default()
            };
            let found = Warning::of_disturbances(&facts, false, 1);
            found.iter().any(|warning| warning.kind == Kind::NoisyHost)
        };
        assert!(is_noted(None));
        assert!(!is_noted(Some(0.0)));
    }
}
