//! The metrics page in the Prometheus text format.

use metrics::{Key, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// Renders counters and gauges whose values a daemon keeps itself.
///
/// Daemons count on their hot paths in plain integers, in atomics of their own, or in memory that processes share, and
/// set the values when the page is requested: 40 to 100 µs for 31 metrics. Histograms are not offered: the exporter
/// accepts single samples only and allocates memory for them.
#[derive(Debug)]
pub struct MetricsPage {
    recorder: PrometheusRecorder,
}

impl MetricsPage {
    /// Creates an empty page. The first one in a process calibrates a clock, which takes from a millisecond to 200 ms,
    /// so it belongs to the start of a daemon.
    #[expect(
        clippy::new_without_default,
        reason = "a default value should not take milliseconds"
    )]
    #[must_use]
    pub fn new() -> Self {
        Self {
            recorder: PrometheusBuilder::new().build_recorder(),
        }
    }

    /// Sets a counter, which never decreases.
    pub fn set_counter(&self, name: &'static str, help: &'static str, value: u64) {
        self.set_labeled_counter(name, help, None, value);
    }

    /// Sets a counter that has a label, given as its name and its value.
    pub fn set_labeled_counter(
        &self,
        name: &'static str,
        help: &'static str,
        label: impl Into<Option<(&'static str, &'static str)>>,
        value: u64,
    ) {
        let labels = label.into().map(|(name, value)| Label::new(name, value));
        let key = Key::from_parts(name, labels.into_iter().collect::<Vec<_>>());
        self.recorder
            .describe_counter(name.into(), None, help.into());
        self.recorder
            .register_counter(&key, &METADATA)
            .absolute(value);
    }

    /// Sets a gauge. Values above 2^53 are rounded.
    pub fn set_gauge(&self, name: &'static str, help: &'static str, value: u64) {
        self.recorder.describe_gauge(name.into(), None, help.into());
        self.recorder
            .register_gauge(&Key::from_name(name), &METADATA)
            .set(value as f64);
    }

    /// Renders the metrics that were set, in the order of their names.
    #[must_use]
    pub fn render(&self) -> String {
        let text = self.recorder.handle().render();
        // The exporter leaves the order to chance. The lines of comments precede the samples.
        let mut metrics: Vec<Vec<&str>> = text.split("\n\n").map(sorted_lines).collect();
        metrics.sort_unstable();
        let mut page = String::with_capacity(text.len());
        for line in metrics.into_iter().flatten() {
            page.push_str(line);
            page.push('\n');
        }
        page
    }

    /// Returns the two lines that introduce a metric, for those that a daemon renders itself.
    #[must_use]
    pub fn head(name: &str, kind: &str, help: &str) -> String {
        format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
    }
}

fn sorted_lines(metric: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = metric.lines().collect();
    lines.sort_unstable();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_stand_in_order_below_their_help_and_type() {
        let page = MetricsPage::new();
        page.set_gauge("test_open", "Open connections.", 5);
        for (reason, count) in [("timeout", 2), ("empty", 0)] {
            page.set_labeled_counter("test_errors_total", "Errors.", ("reason", reason), count);
        }
        page.set_counter("test_bytes_total", "Bytes.", u64::MAX - 1);
        assert_eq!(
            page.render(),
            "# HELP test_bytes_total Bytes.\n\
            # TYPE test_bytes_total counter\n\
            test_bytes_total 18446744073709551614\n\
            # HELP test_errors_total Errors.\n\
            # TYPE test_errors_total counter\n\
            test_errors_total{reason=\"empty\"} 0\n\
            test_errors_total{reason=\"timeout\"} 2\n\
            # HELP test_open Open connections.\n\
            # TYPE test_open gauge\n\
            test_open 5\n"
        );
    }

    #[test]
    fn a_page_shows_the_last_values() {
        let page = MetricsPage::new();
        for value in [1, 8, 3] {
            page.set_gauge("test_open", "Open connections.", value);
            let sample = format!("\ntest_open {value}\n");
            assert!(page.render().ends_with(&sample), "{}", page.render());
        }
    }

    #[test]
    fn a_large_gauge_is_written_in_digits() {
        let page = MetricsPage::new();
        page.set_gauge("test_bytes", "Bytes.", 1 << 53);
        assert!(page.render().contains("test_bytes 9007199254740992\n"));
    }
}
