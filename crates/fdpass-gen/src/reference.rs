//! `--output`: the keys that scripts written for the reference generator read, and the full result beside them.

use measure::result::{RunResult, SeriesResult};
use serde_json::{Value, json};

use crate::outcome;

/// The JSON of a run; of several runs, that of the last, with all results.
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

/// A response that began and did not come to its end marker.
fn is_incomplete(kind: &str) -> bool {
    [outcome::INCOMPLETE, outcome::LOST, outcome::RESET].contains(&kind)
}

/// Bytes received on average by each connection that was started.
fn bytes_each(result: &RunResult) -> f64 {
    match result.operations.started {
        0 => 0.0,
        started => result.count(outcome::count::BYTES) as f64 / started as f64,
    }
}

/// What the reference would call an error of reading, and what it did not notice.
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
