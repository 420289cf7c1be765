//! Cases about the metrics page.

use anyhow::{Context as _, ensure};

use super::daemon_under_test::Subject;
use crate::settings::DEFAULT_DATA;

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
/// Number of concurrent streams.
const PEAK: usize = 7;

pub(super) fn from_the_start(subject: &Subject<'_>) -> anyhow::Result<()> {
    let page = subject.page()?.context("there is no metrics page")?;
    let is_missing = |(name, kind): &(&str, &str)| {
        let parts: &[&str] = match *kind {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let has = |part: &&str| page.value(&format!("{name}{part}"), None).is_some();
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
    Ok(())
}

/// The page must include everything that a client has read to its end.
pub(super) fn bytes_and_events(subject: &Subject<'_>) -> anyhow::Result<()> {
    let handoffs = subject.watch("daemon_handoffs_total", None)?;
    let events = subject.watch("daemon_chunks_sent_total", None)?;
    let bytes = subject.watch("daemon_bytes_sent_total", None)?;
    let answer = subject.ask(DEFAULT_DATA.as_bytes())?;
    let came = [handoffs.rise()?, bytes.rise()?, events.rise()?];
    let wanted = [1.0, answer.bytes as f64, answer.events() as f64];
    ensure!(
        came == wanted,
        "handoffs, bytes and events rose by {came:?}, but the client read {wanted:?}"
    );
    Ok(())
}

pub(super) fn peak(subject: &Subject<'_>) -> anyhow::Result<()> {
    let clients = (0..PEAK)
        .map(|_| subject.hand_over(DEFAULT_DATA.as_bytes()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for client in &clients {
        subject.begins(client)?;
    }
    let open = subject.value("daemon_active_streams", None)?;
    ensure!(
        open == Some(PEAK as f64),
        "daemon_active_streams is {open:?} with {PEAK} open streams"
    );
    for client in &clients {
        subject.read(client)?;
    }
    for gauge in ["daemon_active_streams", "daemon_active_connections"] {
        while subject.value(gauge, None)? != Some(0.0) {
            subject.rest(|| format!("{gauge} does not return to 0"))?;
        }
    }
    let peak = subject.value("daemon_peak_streams", None)?;
    ensure!(
        peak == Some(PEAK as f64),
        "daemon_peak_streams is {peak:?} after {PEAK} concurrent streams"
    );
    Ok(())
}
