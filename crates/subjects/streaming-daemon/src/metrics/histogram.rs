//! A Prometheus histogram with fixed buckets from 10 µs to 10 min.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The upper bounds of the buckets, in nanoseconds and as the page writes them in seconds.
const BUCKETS: [(u64, &str); 20] = [
    (10_000, "0.00001"),
    (25_000, "0.000025"),
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
    (60_000_000_000, "60"),
    (120_000_000_000, "120"),
    (600_000_000_000, "600"),
];

/// A histogram of durations.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// Counts of single buckets; the page accumulates them. The last bucket has no upper bound.
    counts: [AtomicU64; BUCKETS.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    pub(super) fn record(&self, nanos: u64) {
        let bucket = BUCKETS.partition_point(|(end, _)| *end < nanos);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(nanos, Relaxed);
    }

    /// Writes the samples of the metric `name`. `labels` is empty or ends with a comma.
    pub(super) fn write(&self, page: &mut String, name: &str, labels: &str) -> fmt::Result {
        let ends = BUCKETS.iter().map(|(_, label)| *label).chain(["+Inf"]);
        let mut total = 0;
        for (end, count) in ends.zip(&self.counts) {
            total += count.load(Relaxed);
            writeln!(page, "{name}_bucket{{{labels}le=\"{end}\"}} {total}")?;
        }
        let seconds = self.sum_ns.load(Relaxed) as f64 / 1e9;
        let labels = match labels.strip_suffix(',') {
            Some(labels) => format!("{{{labels}}}"),
            None => String::new(),
        };
        writeln!(page, "{name}_sum{labels} {seconds}")?;
        writeln!(page, "{name}_count{labels} {total}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_their_ends_belong_to_them() {
        let histogram = Histogram::default();
        for nanos in [10_000, 10_001, 3_600_000_000_000] {
            histogram.record(nanos);
        }
        let mut page = String::new();
        histogram.write(&mut page, "x_seconds", "").unwrap();
        for line in [
            "x_seconds_bucket{le=\"0.00001\"} 1\n",
            "x_seconds_bucket{le=\"0.000025\"} 2\n",
            "x_seconds_bucket{le=\"600\"} 2\n",
            "x_seconds_bucket{le=\"+Inf\"} 3\n",
            "x_seconds_sum 3600.000020001\n",
            "x_seconds_count 3\n",
        ] {
            assert!(page.contains(line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn labels_stand_on_every_sample() {
        let mut page = String::new();
        Histogram::default()
            .write(&mut page, "x", "backend=\"mock\",")
            .unwrap();
        assert!(page.starts_with("x_bucket{backend=\"mock\",le=\"0.00001\"} 0\n"));
        assert!(page.ends_with("x_sum{backend=\"mock\"} 0\nx_count{backend=\"mock\"} 0\n"));
    }

    #[test]
    fn the_ends_in_seconds_are_the_ends_in_nanoseconds() {
        for (nanos, label) in BUCKETS {
            assert_eq!((label.parse::<f64>().unwrap() * 1e9).round() as u64, nanos);
        }
    }
}
