//! The resource use of a run, compared with its samples over time.

use super::{Damaged, at_most, differs};
use crate::result::{Cost, Resources, RunResult};
use crate::usage::UsageSummary;

/// Multiple of the largest sample of the CPU use, and percent of a core above that, that a mean never reaches. A short
/// run has two samples, whose times are read at other instants than the CPU use.
const CPU_BOUND: (f64, f64) = (2.0, 10.0);

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

/// Checks that a result whose samples know the work of others has a summary of it. The summary itself is not computed
/// again: which samples count is decided by the version that made the result.
fn disturbance(result: &RunResult) -> Result<(), Damaged> {
    let mut samples = result.resources.iter();
    let knows_others = samples.any(|at| at.others_cpu_pct.is_some());
    if knows_others && result.usage.disturbance.is_none() {
        return differs("usage.disturbance", &"absent", &"present", BY);
    }
    Ok(())
}
