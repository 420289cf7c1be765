//! `--output`: JSON with the keys of the reference generator, and the full result beside them.

use measure::result::{RunResult, SeriesResult};
use serde_json::{Value, json};

use crate::outcome;

/// Renders the JSON of a run; of several runs, the last one's, with all results.
pub(crate) fn json(results: &[RunResult]) -> Value {
    let Some(result) = results.last() else {
        return json!({});
    };
    let sum = |is_wanted: fn(&str) -> bool| -> u64 {
        let errors = result.errors.iter().filter(|(kind, _)| is_wanted(kind));
        errors.map(|(_, count)| count).sum()
    };
    let bytes = result.count(outcome::count::BYTES);
    let mut keys = json!({
        "connections_started": result.operations.started,
        "connections_completed": result.operations.ok,
        "connections_failed": result.operations.failed + result.operations.unfinished,
        "incomplete_responses": sum(is_incomplete),
        "bytes_received": bytes,
        "bytes_per_connection": bytes as f64 / result.operations.started.max(1) as f64,
        "errors": {
            "connect": sum(|kind| kind.starts_with("connect_")),
            "send": sum(|kind| kind == outcome::SEND),
            "receive": sum(is_receive),
            "timeout": sum(|kind| kind.starts_with("timeout_")),
            "rejected": sum(|kind| kind == outcome::REJECTED),
        },
        "handoff_latency_ms": percentiles(result.series("handoff")),
        "ttfb_latency_ms": percentiles(result.series("first_byte")),
        "stream_duration_ms": percentiles(result.series("stream")),
        "result": result.to_json(),
    });
    if results.len() > 1 {
        keys["results"] = results.iter().map(RunResult::to_json).collect();
    }
    keys
}

/// Returns true for a response that began and did not reach its end marker.
fn is_incomplete(kind: &str) -> bool {
    [outcome::INCOMPLETE, outcome::LOST, outcome::RESET].contains(&kind)
}

/// Returns true for a failure that the reference calls a read error, or does not notice.
fn is_receive(kind: &str) -> bool {
    let elsewhere = kind.starts_with("connect_") || kind.starts_with("timeout_");
    !elsewhere && ![outcome::SEND, outcome::REJECTED].contains(&kind)
}

/// Returns the percentiles in milliseconds; all are 0 without the series.
fn percentiles(series: Option<&SeriesResult>) -> Value {
    let ms =
        |value: fn(&SeriesResult) -> u64| series.map_or(0.0, |series| value(series) as f64 / 1e6);
    json!({
        "p50": ms(|series| series.p50_ns),
        "p95": ms(|series| series.p95_ns),
        "p99": ms(|series| series.p99_ns),
        "p999": ms(|series| series.p999_ns),
    })
}
