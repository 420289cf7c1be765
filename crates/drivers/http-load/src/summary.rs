//! The summary that users of wrk and k6 expect at the end, printed before the report that all drivers share.

use load::plan::Plan;
use measure::result::RunResult;
use measure::throughput::Throughput;

use crate::settings::Settings;

mod k6;
#[cfg(test)]
mod tests;
mod wrk;

/// A result with its plan.
struct Run<'a> {
    result: &'a RunResult,
    plan: Plan<Settings>,
    /// Operations that ended in the measured time.
    throughput: Throughput,
}

/// Renders a summary like k6's if stages, checks or thresholds were used, otherwise one like wrk's.
pub(crate) fn render(result: &RunResult) -> Option<String> {
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
    /// Returns a number of the measured time as a rate.
    fn per_second(&self, number: u64) -> f64 {
        self.throughput.per_second(number).unwrap_or(0.0)
    }

    fn failed(&self, kinds: &[&str]) -> u64 {
        let of = |kind: &&str| self.result.errors.get(*kind).copied().unwrap_or(0);
        kinds.iter().map(of).sum()
    }
}

/// Formats a time with up to two decimals, in the unit that suits it. 1 ns, the smallest value of a histogram, stands
/// for 0.
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

/// Formats a size with two decimals in units of `base`; `gap` stands before the unit.
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
