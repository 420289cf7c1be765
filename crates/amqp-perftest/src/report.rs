//! What users of the seed's tool read: a line for each second and a block at the end, in its words.

use std::fmt::Write as _;

use measure::result::RunResult;
use measure::tally::Tally;
use measure::units;

use crate::outcome::count;

/// `published: 15234 msg/s, consumed: 15189 msg/s, confirmed: 15234`; the last is the sum since the beginning.
pub(crate) fn line(second: &Tally, total: &Tally) -> String {
    format!(
        "published: {} msg/s, consumed: {} msg/s, confirmed: {}",
        second.counted(count::PUBLISHED),
        second.counted(count::CONSUMED),
        total.counted(count::CONFIRMED),
    )
}

/// The final block. Rates are over the time in which messages were started; what came in while the run drained is in
/// the counts alone: consumers that can't keep up would else seem to.
pub(crate) fn block(result: &RunResult) -> String {
    let planned = phase_s(result, "measure");
    let seconds = planned.map_or(result.wall_s, |planned| planned.min(result.wall_s));
    let rate = |name: &str| result.count(name) as f64 / seconds.max(1e-9);
    let mut text = format!(
        "=== Performance Test Results ===\nDuration: {seconds:.2}s\n\nThroughput:\n  Published: {} messages ({:.0} msg/s)\n  Consumed:  {} messages ({:.0} msg/s)\n  Confirmed: {} messages\n",
        result.count(count::PUBLISHED),
        rate(count::PUBLISHED),
        result.count(count::CONSUMED),
        consumed_per_s(result, seconds),
        result.count(count::CONFIRMED),
    );
    for (title, name) in [
        ("Consumer Latency", "end_to_end"),
        ("Confirm Latency", "confirm"),
        ("Publish Latency", "publish"),
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
    text
}

/// How long a phase was planned to last, seconds.
fn phase_s(result: &RunResult, phase: &str) -> Option<f64> {
    let text = result.plan["timeline"][phase].as_str()?;
    harness::duration::parse(text)
        .ok()
        .map(|time| time.as_secs_f64())
}

/// Messages consumed per second, in the whole seconds from the warm-up's end to the last start.
fn consumed_per_s(result: &RunResult, seconds: f64) -> f64 {
    let warmup = phase_s(result, "warmup").unwrap_or(0.0);
    let end = (warmup + seconds).ceil();
    let rows = result.seconds.iter();
    let consumed: u64 = rows
        .filter(|row| (row.second as f64) < end)
        .filter_map(|row| row.counts.get(count::CONSUMED))
        .sum();
    consumed as f64 / (end - warmup).min(result.wall_s).max(1e-9)
}

fn quantile(series: &measure::result::SeriesResult, quantile: f64) -> u64 {
    let values = series.distribution().ok();
    values
        .and_then(|values| values.quantile(quantile))
        .unwrap_or(series.p50_ns)
}
