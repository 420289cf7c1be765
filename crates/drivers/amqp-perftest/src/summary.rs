//! The output of `perf-test`: a line for each second and a block at the end.

use std::fmt::Write as _;

use measure::counters::Counter;
use measure::result::RunResult;
use measure::tally::Tally;
use measure::units;
use measure::warning::Kind;

use crate::outcome::count;

/// Renders `published: 15234 msg/s, consumed: 15189 msg/s, confirmed: 15234`; the last is the total so far. A second in
/// which the broker blocked publishers says so.
pub(crate) fn line(second: &Tally, total: &Tally) -> String {
    if total.counted(count::CHURNED) > 0 {
        return format!("churned: {}/s", second.counted(count::CHURNED));
    }
    let blocked = match second.counted(count::BLOCKED_MS) {
        0 => "",
        _ => ", blocked by the broker",
    };
    format!(
        "published: {} msg/s, consumed: {} msg/s, confirmed: {}{blocked}",
        second.counted(count::PUBLISHED),
        second.counted(count::CONSUMED),
        total.counted(count::CONFIRMED),
    )
}

/// Renders the final block. Rates are of the measured time; messages that came while the run drained are in the counts
/// alone.
pub(crate) fn block(result: &RunResult) -> String {
    let planned = result.plan["timeline"]["measure"].as_str();
    let planned = planned.and_then(|text| load::duration::parse_with_unit(text).ok());
    let seconds = planned.map_or(result.wall_s, |time| time.as_secs_f64().min(result.wall_s));
    // A run shorter than a second only has its total.
    let whole = |counter: Counter| result.count(counter) as f64 / seconds.max(1e-9);
    let rate = |counter: Counter| result.per_second(counter).unwrap_or_else(|| whole(counter));
    let churned = result.count(count::CHURNED);
    let mut text = if churned > 0 {
        format!(
            "=== Performance Test Results ===\nDuration: {seconds:.2}s\n\nChurn:\n  {churned} operations ({:.0}/s)\n",
            rate(count::CHURNED)
        )
    } else {
        throughput(result, seconds, rate)
    };
    for (title, name) in [
        ("Consumer Latency", "end_to_end"),
        ("Confirm Latency", "confirm"),
        ("Publish Latency", "publish"),
        ("Churn Latency", "churn"),
    ] {
        let Some(series) = result.series(name) else {
            continue;
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{title}:");
        for (label, ns) in [
            ("min:   ", series.min_ns),
            ("median:", series.p50_ns),
            ("75th:  ", quantile(series, 0.75)),
            ("95th:  ", series.p95_ns),
            ("99th:  ", series.p99_ns),
            ("max:   ", series.max_ns),
        ] {
            let _ = writeln!(text, "  {label} {}", units::duration(ns));
        }
    }
    let mut warnings = result.warnings.iter();
    if let Some(blocked) = warnings.find(|warning| warning.kind == Kind::Blocked) {
        let _ = writeln!(text, "\n{}: {}", blocked.message, blocked.hint);
    }
    if let Some(headline) = result.overload() {
        let _ = writeln!(text, "\n{headline}");
    }
    text
}

fn throughput(result: &RunResult, seconds: f64, rate: impl Fn(Counter) -> f64) -> String {
    format!(
        "=== Performance Test Results ===\nDuration: {seconds:.2}s\n\nThroughput:\n  Published: {} messages ({:.0} msg/s)\n  Consumed:  {} messages ({:.0} msg/s)\n  Confirmed: {} messages\n",
        result.count(count::PUBLISHED),
        rate(count::PUBLISHED),
        result.count(count::CONSUMED),
        rate(count::CONSUMED),
        result.count(count::CONFIRMED),
    )
}

fn quantile(series: &measure::result::SeriesResult, quantile: f64) -> u64 {
    let values = series.distribution().ok();
    values
        .and_then(|values| values.quantile(quantile))
        .unwrap_or(series.p50_ns)
}
