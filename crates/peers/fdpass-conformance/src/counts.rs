//! Cases about the metrics page.

use anyhow::{Context as _, ensure};

use super::case::{Case, FRESH_WITH_METRICS, NOTHING, Needs};
use super::subject::{PAYLOAD, Subject};

/// All metrics with their types.
const ALL: [(&str, &str); 16] = [
    ("daemon_active_connections", "gauge"),
    ("daemon_active_streams", "gauge"),
    ("daemon_peak_streams", "gauge"),
    ("daemon_connections_total", "counter"),
    ("daemon_connections_rejected_total", "counter"),
    ("daemon_handoffs_total", "counter"),
    ("daemon_handoff_errors_total", "counter"),
    ("daemon_stream_errors_total", "counter"),
    ("daemon_bytes_sent_total", "counter"),
    ("daemon_chunks_sent_total", "counter"),
    ("daemon_backend_requests_total", "counter"),
    ("daemon_backend_errors_total", "counter"),
    ("daemon_handoff_duration_seconds", "histogram"),
    ("daemon_stream_duration_seconds", "histogram"),
    ("daemon_backend_duration_seconds", "histogram"),
    ("daemon_backend_ttfb_seconds", "histogram"),
];
/// The reasons of the two metrics that have them. Every daemon has all, so that one query works for each.
const REASONS: [(&str, &[&str]); 2] = [
    (
        "daemon_handoff_errors_total",
        &[
            "canceled",
            "client_disconnected",
            "empty",
            "invalid_json",
            "network",
            "no_descriptor",
            "not_a_stream_socket",
            "other",
            "out_of_descriptors",
            "peer_refused",
            "surplus_descriptors",
            "timeout",
            "too_large",
            "truncated",
        ],
    ),
    (
        "daemon_stream_errors_total",
        &[
            "backend",
            "backend_timeout",
            "canceled",
            "client_disconnected",
            "network",
            "other",
            "timeout",
        ],
    ),
];
/// Number of concurrent streams.
const PEAK: usize = 7;
const METRICS: Needs = Needs {
    metrics: true,
    ..NOTHING
};
const OPEN_STREAMS: Needs = Needs {
    metrics: true,
    ..Needs::launch(&[("DAEMON_MESSAGE_DELAY", "50ms")])
};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "metrics are there from the start",
        FRESH_WITH_METRICS,
        from_the_start,
    ),
    Case::new("bytes and events are counted", METRICS, bytes_and_events),
    Case::new("peak of streams is counted", OPEN_STREAMS, peak),
];

fn from_the_start(subject: &Subject<'_>) -> anyhow::Result<()> {
    let page = subject.page()?.context("there is no metrics page")?;
    let is_missing = |(name, kind): &(&str, &str)| {
        let parts: &[&str] = match *kind {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let has = |part: &&str| page.value(&format!("{name}{part}")).is_some();
        page.kind(name) != Some(*kind) || !parts.iter().all(has)
    };
    let missing: Vec<String> = ALL
        .iter()
        .filter(|metric| is_missing(metric))
        .map(|(name, kind)| format!("{name} ({kind})"))
        .collect();
    ensure!(
        missing.is_empty(),
        "before the first handoff, the page lacks {}",
        missing.join(", ")
    );
    for (name, wanted) in REASONS {
        let reasons = page.reasons(name);
        ensure!(
            reasons.iter().eq(wanted),
            "{name} has the reasons {reasons:?}, expected {wanted:?}"
        );
    }
    Ok(())
}

/// The page must include everything that a client has read to its end.
fn bytes_and_events(subject: &Subject<'_>) -> anyhow::Result<()> {
    let handoffs = subject.watch("daemon_handoffs_total")?;
    let events = subject.watch("daemon_chunks_sent_total")?;
    let bytes = subject.watch("daemon_bytes_sent_total")?;
    let answer = subject.ask(PAYLOAD)?;
    let came = [handoffs.rise()?, bytes.rise()?, events.rise()?];
    let wanted = [1.0, answer.bytes as f64, answer.contents.len() as f64];
    ensure!(
        came == wanted,
        "handoffs, bytes and events rose by {came:?}, but the client read {wanted:?}"
    );
    Ok(())
}

fn peak(subject: &Subject<'_>) -> anyhow::Result<()> {
    let streams = subject.watch("daemon_active_streams")?;
    let connections = subject.watch("daemon_active_connections")?;
    let peak = subject.watch("daemon_peak_streams")?;
    let clients = subject.open(PEAK)?;
    for client in &clients {
        subject.begins(client)?;
    }
    let open = streams.rise()?;
    ensure!(
        open == PEAK as f64,
        "daemon_active_streams is {open} with {PEAK} open streams"
    );
    for client in &clients {
        subject.read(client)?;
    }
    streams.returns()?;
    connections.returns()?;
    let peak = peak.rise()?;
    ensure!(
        peak == PEAK as f64,
        "daemon_peak_streams is {peak} after {PEAK} concurrent streams"
    );
    Ok(())
}
