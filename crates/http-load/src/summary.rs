//! What users of wrk and of k6 expect to read at the end, before the report that all drivers share.

use harness::plan::Plan;
use measure::result::RunResult;
use measure::throughput::Throughput;

use crate::settings::Settings;

mod k6;
#[cfg(test)]
mod tests;
mod wrk;

/// A result with the plan that it is of.
struct Run<'a> {
    result: &'a RunResult,
    plan: Plan<Settings>,
    /// What ended in the measured time.
    throughput: Throughput,
}

/// The block of k6 where what only it has is used: stages, checks or thresholds; that of wrk otherwise.
pub(crate) fn of(result: &RunResult) -> Option<String> {
    let plan: Plan<Settings> = serde_json::from_value(result.plan.clone()).ok()?;
    let run = Run {
        throughput: result.throughput.clone()?,
        plan,
        result,
    };
    let staged = run.plan.groups.iter().any(|group| !group.stages.is_empty());
    let of_k6 = staged || !run.plan.driver.checks.is_empty() || !run.plan.thresholds.is_empty();
    Some(if of_k6 {
        k6::block(&run)
    } else {
        wrk::block(&run)
    })
}

impl Run<'_> {
    /// So many of the measured time as a rate.
    fn per_second(&self, number: u64) -> f64 {
        self.throughput.per_second(number).unwrap_or(0.0)
    }

    fn failed(&self, kinds: &[&str]) -> u64 {
        let of = |kind: &&str| self.result.errors.get(*kind).copied().unwrap_or(0);
        kinds.iter().map(of).sum()
    }
}

/// A time with up to two decimals, in the unit that suits it. 1 ns, the least that a histogram holds, stands for none.
fn time(ns: f64) -> String {
    if ns <= 1.0 {
        return "0s".to_owned();
    }
    let (scale, unit) = match ns {
        ns if ns < 1e3 => (1.0, "ns"),
        ns if ns < 1e6 => (1e3, "µs"),
        ns if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let text = format!("{:.2}", ns / scale);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A size with two decimals in units of `base`, and what stands before the unit.
fn size(bytes: f64, base: f64, gap: &str) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let steps = (0..units.len() - 1).take_while(|steps| bytes >= base.powi(*steps as i32 + 1));
    let steps = steps.count();
    match steps {
        0 => format!("{bytes:.0}{gap}B"),
        steps => format!(
            "{:.2}{gap}{}",
            bytes / base.powi(steps as i32),
            units[steps]
        ),
    }
}
