//! The metrics page.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use daemon_kit::MetricsPage;

use super::Metrics;
use crate::failure::{HandoffFailure, StreamFailure};

impl Metrics {
    /// Renders every metric, including those that are still zero.
    #[must_use]
    pub fn render(&self, page: &MetricsPage) -> String {
        self.set_gauges(page);
        self.set_counters(page);
        let mut text = page.render();
        self.write_histograms(&mut text)
            .expect("writing to a string cannot fail");
        text
    }

    fn set_gauges(&self, page: &MetricsPage) {
        for (name, help, value) in [
            (
                "daemon_active_connections",
                "Accepted handoff connections whose client is not finished yet.",
                &self.active_connections,
            ),
            (
                "daemon_active_streams",
                "Open streams.",
                &self.active_streams,
            ),
            (
                "daemon_peak_streams",
                "Maximum number of streams open at once.",
                &self.peak_streams,
            ),
        ] {
            page.set_gauge(name, help, value.load(Relaxed));
        }
    }

    fn set_counters(&self, page: &MetricsPage) {
        let backend = Some(("backend", self.backend.name()));
        for (name, help, label, value) in [
            (
                "daemon_connections_total",
                "Handoff connections accepted.",
                None,
                &self.connections,
            ),
            (
                "daemon_connections_rejected_total",
                "Clients answered with 503 because the limit was reached.",
                None,
                &self.rejected,
            ),
            (
                "daemon_handoffs_total",
                "Client sockets received.",
                None,
                &self.handoffs,
            ),
            (
                "daemon_bytes_sent_total",
                "Bytes written to clients.",
                None,
                &self.bytes,
            ),
            (
                "daemon_chunks_sent_total",
                "Events written to clients.",
                None,
                &self.chunks,
            ),
            (
                "daemon_backend_requests_total",
                "Requests to the backend.",
                backend,
                &self.streams,
            ),
            (
                "daemon_backend_errors_total",
                "Requests that the backend failed.",
                backend,
                &self.backend_failures,
            ),
        ] {
            page.set_labeled_counter(name, help, label, value.load(Relaxed));
        }
        for (name, help, labels, values) in [
            (
                "daemon_handoff_errors_total",
                "Handoff errors, by reason.",
                HandoffFailure::LABELS,
                &self.handoff_failures[..],
            ),
            (
                "daemon_stream_errors_total",
                "Streams that ended early, by reason.",
                StreamFailure::LABELS,
                &self.stream_failures,
            ),
        ] {
            for (label, value) in labels.iter().zip(values) {
                page.set_labeled_counter(name, help, ("reason", *label), value.load(Relaxed));
            }
        }
    }

    fn write_histograms(&self, page: &mut String) -> fmt::Result {
        let backend = format!("backend=\"{}\",", self.backend.name());
        for (name, help, labels, histogram) in [
            (
                "daemon_handoff_duration_seconds",
                "Time from accepting a handoff to receiving its client socket.",
                "",
                &self.handoff_duration,
            ),
            (
                "daemon_stream_duration_seconds",
                "Time from receiving the client socket to the last byte of a complete stream.",
                "",
                &self.stream_duration,
            ),
            (
                "daemon_backend_duration_seconds",
                "Time from the request to the backend to its last event.",
                &backend,
                &self.backend_duration,
            ),
            (
                "daemon_backend_ttfb_seconds",
                "Time from the request to the backend to its first event.",
                &backend,
                &self.backend_ttfb,
            ),
        ] {
            page.push_str(&MetricsPage::head(name, "histogram", help));
            histogram.write(page, name, labels)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_counters_are_on_the_page() {
        let metrics = Metrics::default();
        for _ in 0..3 {
            metrics.connection_opened();
        }
        metrics.handoff_failed(HandoffFailure::Empty);
        for _ in 0..2 {
            metrics.handoff_done(20_000);
            assert!(metrics.try_start_stream(10));
        }
        metrics.wrote(18, 1226);
        metrics.stream_completed(850_000_000, 800_000_000);
        metrics.stream_failed(StreamFailure::ClientDisconnected);
        let page = metrics.render(&MetricsPage::new());
        for line in [
            "daemon_active_connections 0",
            "daemon_active_streams 0",
            "daemon_peak_streams 2",
            "daemon_connections_total 3",
            "daemon_handoffs_total 2",
            "daemon_handoff_errors_total{reason=\"empty\"} 1",
            "daemon_handoff_errors_total{reason=\"timeout\"} 0",
            "daemon_stream_errors_total{reason=\"client_disconnected\"} 1",
            "daemon_bytes_sent_total 1226",
            "daemon_chunks_sent_total 18",
            "daemon_backend_requests_total{backend=\"mock\"} 2",
            "daemon_handoff_duration_seconds_bucket{le=\"0.000025\"} 2",
            "daemon_stream_duration_seconds_sum 0.85",
            "daemon_backend_duration_seconds_count{backend=\"mock\"} 1",
        ] {
            assert!(
                page.lines().any(|found| found == line),
                "{line} is not in\n{page}"
            );
        }
    }

    #[test]
    fn every_sample_is_introduced_by_its_help_and_type() {
        let page = Metrics::default().render(&MetricsPage::new());
        let mut introduced = "";
        for line in page.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(rest) => introduced = rest.split(' ').next().unwrap(),
                None if line.starts_with('#') => {}
                None => assert!(
                    line.starts_with(introduced) && !introduced.is_empty(),
                    "{line}"
                ),
            }
        }
        assert_eq!(page.matches("# TYPE").count(), 16);
    }
}
