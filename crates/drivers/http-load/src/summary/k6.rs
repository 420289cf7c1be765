//! Summary in the format of k6.

use std::fmt::Write as _;

use load::plan::Group;
use measure::counters::Counter;
use measure::result::SeriesResult;
use measure::tally::Distribution;

use super::{Run, size, time};
use crate::k6::{Kind, METRICS};
use crate::outcome::count;
use crate::roles::checks;
use crate::settings::open_loop;

/// The column of the values.
const COLUMN: usize = 32;

/// Renders the metrics, ordered by name. Times are of successful requests; a request over an existing connection
/// adds no connecting time.
pub(super) fn block(run: &Run<'_>) -> String {
    let mut text = checks(run);
    for (name, value) in lines(run) {
        let _ = writeln!(text, "     {name:.<COLUMN$}: {value}");
    }
    text.truncate(text.trim_end().len());
    if let Some(headline) = run.result.overload() {
        let _ = write!(text, "\n\n     {headline}");
    }
    text
}

/// Renders one line per check, and one more for a check that failed.
fn checks(run: &Run<'_>) -> String {
    let mut text = String::new();
    for check in &run.plan.driver.checks {
        let of = |begin: &str| run.result.count(format!("{begin}{check}"));
        let (passed, failed) = (of(checks::PASSED), of(checks::FAILED));
        let mark = if failed == 0 && passed > 0 {
            '✓'
        } else {
            '✗'
        };
        let _ = writeln!(text, "     {mark} {check}");
        if failed > 0 {
            let share = percent(passed, passed + failed);
            let _ = writeln!(text, "      ↳  {share} — ✓ {passed} / ✗ {failed}");
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn lines(run: &Run<'_>) -> Vec<(&'static str, String)> {
    let result = run.result;
    let (ok, failed) = (result.operations.ok, result.operations.failed);
    let mut lines = Vec::new();
    if !run.plan.driver.checks.is_empty() {
        let (passed, not) = (
            result.count(count::CHECKS_PASSED),
            result.count(count::CHECKS_FAILED),
        );
        lines.push(("checks", rate(passed, not)));
        let wrong = failed + result.count(count::FAILED_A_CHECK);
        lines.push(("errors", rate(wrong, (ok + failed).saturating_sub(wrong))));
    }
    lines.push(("data_received", data(run, count::BYTES)));
    lines.push(("data_sent", data(run, count::BYTES_SENT)));
    let missed = result.operations.missed;
    if missed > 0 {
        lines.push(("dropped_iterations", counter(run, missed, missed)));
    }
    lines.extend(METRICS.iter().filter_map(|(name, kind)| match kind {
        Kind::Trend(series) => Some((*name, trend(result.series(series)?)?)),
        Kind::Rate(_) | Kind::Counter(..) => None,
    }));
    lines.push(("http_req_failed", rate(failed, ok)));
    let ended = counter(run, ok + failed, run.throughput.ok + run.throughput.failed);
    lines.push(("http_reqs", ended.clone()));
    lines.push(("iterations", ended));
    if let Some((last, least, most)) = users(run) {
        lines.push(("vus", format!("{last:<12} min={least:<10} max={most}")));
    }
    let planned = if open_loop(&run.plan) {
        run.plan.driver.connections
    } else {
        run.plan.groups.iter().map(Group::most_clients).sum()
    };
    lines.push(("vus_max", planned.to_string()));
    lines.sort_by_key(|(name, _)| *name);
    lines
}

/// Returns the number of connections at the end of the measured seconds: the last, the fewest, the most.
fn users(run: &Run<'_>) -> Option<(u64, u64, u64)> {
    let begin = run.result.opening_s() + run.plan.timeline.warmup.as_secs_f64();
    let end = begin + run.throughput.measured_s;
    let measured = run.result.seconds.iter().filter(|row| {
        let at = (row.second + 1) as f64;
        at > begin && at <= end
    });
    let held: Vec<u64> = measured
        .filter_map(|row| row.counts.get(count::HELD.name()).copied())
        .collect();
    Some((*held.last()?, *held.iter().min()?, *held.iter().max()?))
}

/// Formats a share in percent, with both counts.
fn rate(yes: u64, no: u64) -> String {
    format!("{} ✓ {yes:<12} ✗ {no}", percent(yes, yes + no))
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "0.00%".to_owned(),
        _ => format!("{:.2}%", 100.0 * part as f64 / whole as f64),
    }
}

/// Formats a number of the whole run, and the rate in the measured time.
fn counter(run: &Run<'_>, number: u64, measured: u64) -> String {
    format!("{number:<12} {:.2}/s", run.per_second(measured))
}

fn data(run: &Run<'_>, counter: Counter) -> String {
    let bytes = run.result.count(counter);
    let whole = size(bytes as f64, 1000.0, " ");
    let each_second = run.per_second(run.throughput.count(counter));
    format!("{whole:<12} {}/s", size(each_second, 1000.0, " "))
}

fn trend(series: &SeriesResult) -> Option<String> {
    let values: Distribution = series.distribution().ok()?;
    let at = |quantile| Some(time(values.quantile(quantile)? as f64));
    Some(format!(
        "avg={:<9} min={:<9} med={:<9} max={:<9} p(90)={:<9} p(95)={}",
        time(series.mean_ns),
        at(0.0)?,
        at(0.5)?,
        at(1.0)?,
        at(0.9)?,
        at(0.95)?
    ))
}
