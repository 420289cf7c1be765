//! The resource use of a run, compared with its samples over time.

use super::{Damaged, at_most, differs};
use crate::disturbance::Disturbance;
use crate::result::{Cost, Resources, RunResult};
use crate::usage::UsageSummary;
use crate::warning::Kind;

/// Multiple of the largest sample of the CPU use, and percent of a core above that, that a mean never reaches. A short
/// run has two samples, whose times are read at other instants than the CPU use.
const CPU_BOUND: (f64, f64) = (2.0, 10.0);
/// Tolerance of the time at which the measured time begins, seconds.
const BEGIN_S: f64 = 0.001;

const BY: &str = "`resources`";

pub(super) fn check(result: &RunResult) -> Result<(), Damaged> {
    // A merge adds the samples of machines, and peaks of different times. Older results have no samples.
    if !result.shards.is_empty() || result.resources.is_empty() {
        return Ok(());
    }
    if let Some(usage) = &result.usage.daemon {
        side("usage.daemon", usage, result, |sample| sample.daemon)?;
    }
    if let Some(usage) = &result.usage.driver {
        side("usage.driver", usage, result, |sample| sample.driver)?;
    }
    for service in &result.services {
        let field = format!("services.{}", service.name);
        side(&field, &service.usage, result, |sample| {
            sample.services.get(&service.name).copied()
        })?;
    }
    disturbance(result)
}

fn side(
    field: &str,
    usage: &UsageSummary,
    result: &RunResult,
    cost: impl Fn(&Resources) -> Option<Cost>,
) -> Result<(), Damaged> {
    let samples: Vec<Cost> = result.resources.iter().filter_map(cost).collect();
    let peak = |read: fn(&Cost) -> u64| samples.iter().map(read).max().unwrap_or(0);
    let first = samples.first().map_or(0, |sample| sample.rss_kb);
    for (name, found, expected) in [
        ("samples", usage.samples, samples.len() as u64),
        ("rss_baseline_kb", usage.rss_baseline_kb, first),
        ("rss_peak_kb", usage.rss_peak_kb, peak(|at| at.rss_kb)),
        ("threads_peak", usage.threads_peak, peak(|at| at.threads)),
        ("fds_peak", usage.fds_peak, peak(|at| at.fds)),
    ] {
        differs(&format!("{field}.{name}"), &found, &expected, BY)?;
    }
    // The first sample has nothing before it. Processes that end take their time out of the mean, so it has no least value.
    let cpu = samples.iter().skip(1).map(|sample| sample.cpu_pct);
    let most = cpu.fold(0.0, f64::max) * CPU_BOUND.0 + CPU_BOUND.1;
    if samples.len() > 1 {
        at_most(&format!("{field}.cpu_avg_pct"), usage.cpu_avg_pct, most, BY)?;
    }
    Ok(())
}

/// Compares the disturbances with the seconds and samples that they summarize.
fn disturbance(result: &RunResult) -> Result<(), Damaged> {
    let knows_others = result
        .resources
        .iter()
        .any(|at| at.others_cpu_pct.is_some());
    let stored = match result.usage.disturbance {
        Some(stored) => stored,
        None if knows_others => {
            return differs("usage.disturbance", &"absent", &"present", BY);
        }
        None => return Ok(()),
    };
    // The seconds of a part are in another file.
    let (Some(phases), None) = (result.phases, &result.part) else {
        return Ok(());
    };
    if result.has_warning(Kind::RowsLost) {
        return Ok(());
    }
    let from_s = result.opening_s() + phases.warmup_s;
    let fits = [0.0, -BEGIN_S, BEGIN_S].into_iter().any(|by| {
        let from_s = (from_s + by).max(0.0);
        let derived =
            Disturbance::from_seconds(&result.seconds, &result.resources, stored.cpus, from_s);
        is_alike(&stored, &derived)
    });
    let text = |fits| if fits { "their summary" } else { "another one" };
    differs(
        "usage.disturbance",
        &text(fits),
        &text(true),
        "`seconds` and `resources`",
    )
}

/// Returns true if two summaries have the same figures, but for rounding.
fn is_alike(one: &Disturbance, other: &Disturbance) -> bool {
    let numbers = |of: &Disturbance| {
        (
            of.stalls,
            of.seconds,
            of.full_seconds,
            of.samples,
            of.disturbed_samples,
        )
    };
    let shares = |of: &Disturbance| {
        [
            of.worker_cpu_peak_pct,
            of.worker_wait_pct,
            of.daemon_wait_pct,
            of.own_cpu_pct,
            of.others_cpu_pct,
            of.others_cpu_peak_pct,
        ]
    };
    let is_near = |(one, other): (Option<f64>, Option<f64>)| match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-6 * one.abs().max(1.0),
        (one, other) => one == other,
    };
    numbers(one) == numbers(other) && shares(one).into_iter().zip(shares(other)).all(is_near)
}
