//! Counters of a daemon: single series of its Prometheus page.

use std::collections::BTreeSet;

use anyhow::Context as _;
use harness::launcher::Launcher;
use subject::prometheus;

/// Attempts to fetch a page: a daemon on a busy machine may not answer the first.
const ATTEMPTS: usize = 10;

/// The page at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Page(String);

impl Page {
    /// Fetches the page.
    pub(crate) fn fetch(launcher: &Launcher, url: &str) -> anyhow::Result<Self> {
        let mut text = launcher.wait(prometheus::page(url));
        for _ in 1..ATTEMPTS {
            text = text.or_else(|_| launcher.wait(prometheus::page(url)));
        }
        text.map(Self).context("reading the daemon's counters")
    }

    /// Returns the sum of the series of a name, or of those with one label, as in `name{label="value"}`; `None` if there
    /// is no such series.
    pub(crate) fn value(&self, series: &str) -> Option<f64> {
        let (name, label) = series.split_once('{').unwrap_or((series, ""));
        let label = label.trim_end_matches('}');
        let values = self.0.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) => rest.rsplit_once('}')?,
                None => ("", rest.strip_prefix(' ')?),
            };
            let number = value.split_ascii_whitespace().next()?;
            number
                .parse::<f64>()
                .ok()
                .filter(|_| labels.contains(label))
        });
        values.reduce(|sum, value| sum + value)
    }

    /// Returns the reasons of a metric on the page.
    pub(crate) fn reasons(&self, name: &str) -> BTreeSet<&str> {
        let reasons = self.0.lines().filter_map(|line| {
            let labels = line.strip_prefix(name)?.strip_prefix('{')?;
            Some(labels.split_once("reason=\"")?.1.split_once('"')?.0)
        });
        reasons.collect()
    }

    /// Returns the type of a metric on the page.
    pub(crate) fn kind(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| {
            let rest = line.strip_prefix("# TYPE ")?.strip_prefix(name)?;
            rest.strip_prefix(' ').map(str::trim)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_found_by_name_and_reason() {
        let page = Page(
            "# TYPE daemon_errors_total counter\ndaemon_errors_total{reason=\"a\"} 1\n\
             daemon_errors_total{worker=\"2\",reason=\"b\"} 2.0 17\ndaemon_errors_total_other 9\ndaemon_open 4\n"
                .to_owned(),
        );
        assert_eq!(page.value("daemon_errors_total"), Some(3.0));
        assert_eq!(page.value("daemon_errors_total{reason=\"b\"}"), Some(2.0));
        assert_eq!(page.value("daemon_errors_total{reason=\"c\"}"), None);
        assert_eq!(page.value("daemon_open"), Some(4.0));
        assert_eq!(page.value("daemon"), None);
        assert_eq!(page.kind("daemon_errors_total"), Some("counter"));
        assert_eq!(page.kind("daemon_errors"), None);
        assert_eq!(
            Vec::from_iter(page.reasons("daemon_errors_total")),
            ["a", "b"]
        );
    }
}
