//! `--output`: JSON with the keys of the reference generator, and the full result beside them.

use measure::result::{RunResult, SeriesResult};
use serde_json::{Value, json};

use crate::outcome;

/// Renders the JSON of a run; of several runs, that of the last, with all results.
#[must_use]
pub fn json(results: &[RunResult]) -> Value {
    let Some(result) = results.last() else {
        return json!({});
    };
    let sum = |wanted: fn(&str) -> bool| {
        result
            .errors
            .iter()
            .filter(|(kind, _)| wanted(kind))
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    let mut keys = json!({
        "connections_started": result.operations.started,
        "connections_completed": result.operations.ok,
        "connections_failed": result.operations.failed + result.operations.unfinished,
        "incomplete_responses": sum(is_incomplete),
        "bytes_received": result.count(outcome::count::BYTES),
        "bytes_per_connection": bytes_each(result),
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
        "result": result,
    });
    if results.len() > 1 {
        keys["results"] = json!(results);
    }
    keys
}

/// Returns true for a response that began and did not reach its end marker.
fn is_incomplete(kind: &str) -> bool {
    [outcome::INCOMPLETE, outcome::LOST, outcome::RESET].contains(&kind)
}

/// Returns the average number of bytes received per started connection.
fn bytes_each(result: &RunResult) -> f64 {
    match result.operations.started {
        0 => 0.0,
        started => result.count(outcome::count::BYTES) as f64 / started as f64,
    }
}

/// Returns true for a failure that the reference calls a read error, or does not notice.
fn is_receive(kind: &str) -> bool {
    let elsewhere = kind.starts_with("connect_") || kind.starts_with("timeout_");
    !elsewhere && ![outcome::SEND, outcome::REJECTED].contains(&kind)
}

fn percentiles(series: Option<&SeriesResult>) -> Value {
    let ms = |ns: u64| ns as f64 / 1e6;
    match series {
        Some(series) => {
            json!({
                "p50": ms(series.p50_ns),
                "p95": ms(series.p95_ns),
                "p99": ms(series.p99_ns),
                "p999": ms(series.p999_ns),
            })
        }
        None => json!({ "p50": 0.0, "p95": 0.0, "p99": 0.0, "p999": 0.0 }),
    }
}
