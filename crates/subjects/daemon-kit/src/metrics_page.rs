//! The metrics page in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

/// A label: its name and its value.
type Label = (&'static str, &'static str);

/// Renders counters and gauges whose values a daemon keeps itself.
///
/// Daemons count on their hot paths in plain integers, in atomics of their own, or in memory that processes share, and
/// set the values when the page is requested. A registry of such metrics would keep them a second time, and one that
/// hashes their names fills its heap in another order at each request, so that the memory of a daemon grows for hours.
#[derive(Debug, Default)]
pub struct MetricsPage {
    metrics: Mutex<BTreeMap<&'static str, Metric>>,
}

#[derive(Debug)]
struct Metric {
    kind: &'static str,
    help: &'static str,
    samples: BTreeMap<Option<Label>, u64>,
}

impl MetricsPage {
    /// Creates an empty page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a counter, which never decreases.
    pub fn set_counter(&self, name: &'static str, help: &'static str, value: u64) {
        self.set(name, "counter", help, None, value);
    }

    /// Sets a counter that has a label, given as its name and its value. Nothing is escaped.
    pub fn set_labeled_counter(
        &self,
        name: &'static str,
        help: &'static str,
        label: impl Into<Option<Label>>,
        value: u64,
    ) {
        self.set(name, "counter", help, label.into(), value);
    }

    /// Sets a gauge.
    pub fn set_gauge(&self, name: &'static str, help: &'static str, value: u64) {
        self.set(name, "gauge", help, None, value);
    }

    fn set(
        &self,
        name: &'static str,
        kind: &'static str,
        help: &'static str,
        label: Option<Label>,
        value: u64,
    ) {
        let mut metrics = self.metrics.lock().expect("nothing panics with the lock");
        let metric = metrics.entry(name).or_insert_with(|| Metric {
            kind,
            help,
            samples: BTreeMap::new(),
        });
        metric.samples.insert(label, value);
    }

    /// Renders the metrics that were set, in the order of their names.
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = String::new();
        let metrics = self.metrics.lock().expect("nothing panics with the lock");
        for (name, metric) in &*metrics {
            page.push_str(&Self::head(name, metric.kind, metric.help));
            for (label, value) in &metric.samples {
                let label = label.map(|(name, value)| format!("{{{name}=\"{value}\"}}"));
                let label = label.unwrap_or_default();
                writeln!(page, "{name}{label} {value}").expect("a text takes everything");
            }
        }
        page
    }

    /// Returns the two lines that introduce a metric, for those that a daemon renders itself.
    #[must_use]
    pub fn head(name: &str, kind: &str, help: &str) -> String {
        format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
    }
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
}
