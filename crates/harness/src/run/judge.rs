//! What a run did, in numbers, and what speaks against them.

use measure::audit::Compared;
use measure::machine::Machine;
use measure::result::{Operations, Second};
use measure::tally::Tally;
use measure::warning::Warning;

use super::load::Load;
use super::pages::Ledger;
use crate::driver::Driver;
use crate::plan::{Plan, Timeline};
use crate::recorder::{MISSED, OK, STARTED, UNFINISHED};

pub(super) fn operations(total: &Tally, seconds: &[Second]) -> Operations {
    let counted = |name| total.counted(name);
    Operations {
        started: counted(STARTED),
        ok: counted(OK),
        failed: total.errors.values().sum(),
        unfinished: counted(UNFINISHED),
        missed: counted(MISSED),
        peak_active: seconds
            .iter()
            .map(|second| second.active_peak)
            .max()
            .unwrap_or(0),
    }
}

/// What speaks against the figures.
pub(super) fn doubts<D: Driver>(
    total: &Tally,
    operations: &Operations,
    plan: &Plan<D::Config>,
    load: &Load,
    machine: &Machine,
    steal_pct: Option<f64>,
    wall_s: f64,
) -> Vec<Warning> {
    let lag_p99 = total.lag.quantile(0.99).unwrap_or(0);
    let response = D::response(plan);
    let responses = total.of(response);
    let mut found = vec![
        Warning::generator_late(lag_p99, responses.quantile(0.99)),
        Warning::generator_cpu_bound(match D::spins(plan) {
            true => 0.0,
            false => load.collector.busiest_pct((wall_s * 1e9) as u64),
        }),
        nothing_succeeded::<D>(total, operations),
        Warning::unfinished(operations.unfinished),
        Warning::missed(operations.missed, operations.started),
        Warning::few_samples(D::SERIES[response.0], responses.len()),
        Warning::noisy_host(machine.load1, machine.cpus, steal_pct),
        cfg!(debug_assertions).then(Warning::debug_build),
    ];
    if !operations.add_up() {
        let accounted = operations.ok + operations.failed + operations.unfinished;
        found.push(Some(Warning::counts_disagree(
            "operations begun and operations accounted for",
            operations.started,
            accounted,
        )));
    }
    found.into_iter().flatten().collect()
}

/// Said where operations failed that were not asked to, and none succeeded.
fn nothing_succeeded<D: Driver>(total: &Tally, operations: &Operations) -> Option<Warning> {
    let errors = total.errors.iter();
    let unasked = errors.filter(|(kind, _)| !D::ASKED_FOR.contains(&kind.as_ref()));
    let (most, _) = unasked.max_by_key(|(_, count)| **count)?;
    (operations.ok == 0).then(|| Warning::nothing_succeeded(operations.failed, most))
}

/// Our counts beside the daemons' own. Where daemons were started again, what each did after its last page is lost: they
/// may then have counted less than the driver, and still never more.
pub(super) fn compared<D: Driver>(ledger: &Ledger, total: &Tally) -> Vec<Compared> {
    let compared = |(metric, name): &(&str, &str)| {
        Some(Compared {
            name: (*name).to_owned(),
            driver: total.counted(name),
            daemon: ledger.counted(metric)? as u64,
            whole: ledger.is_whole(),
        })
    };
    D::AUDIT.iter().filter_map(compared).collect()
}

/// A warning for each that does not agree.
pub(super) fn disagreements(compared: &[Compared]) -> impl Iterator<Item = Warning> {
    let differing = compared.iter().filter(|compared| !compared.agrees());
    differing.map(|of| Warning::counts_disagree(&of.name, of.driver, of.daemon))
}

/// The longest time of any series, nanoseconds.
pub(super) fn slowest_ns(total: &Tally) -> u64 {
    let longest = total
        .series()
        .filter_map(|(_, values)| values.quantile(1.0));
    longest.max().unwrap_or(0)
}

/// How long operations were started that count, seconds: less than planned where the run ended earlier.
pub(super) fn measured_s(timeline: Timeline, wall_s: f64) -> f64 {
    let ran = (wall_s - timeline.warmup.as_secs_f64()).max(0.0);
    ran.min(timeline.measure.as_secs_f64())
}
