//! The metrics that decide between daemons: the primary one, and the others.

use super::columns::{self, Column};
use super::comparison::{Comparison, Repetitions};
use super::roles;
use crate::change::Figure;
use crate::metrics::{self, Better, FAILURES};
use crate::result::RunResult;
use crate::spec::OperationKind;
use crate::units::{self, Unit};

/// The statistics of the headline series that are compared. A high percentile varies by far more from run to run
/// than the median.
pub(super) const STATISTICS: [&str; 3] = ["p50", "p90", "p99"];

/// A metric with its words.
#[derive(Debug)]
pub(super) struct Deciding<'a> {
    /// The metric. Its head is the name within a sentence: `TTFB p99`.
    pub(super) column: Column<'a>,
    /// Label of the line.
    pub(super) label: &'static str,
    /// True for the metric whose word has the whole probability of being wrong.
    pub(super) is_primary: bool,
    /// Words after the value: ` per connection`.
    of: &'static str,
    pub(super) unit: Unit,
}

impl<'a> Deciding<'a> {
    /// Creates a metric of the catalogue.
    fn of_catalogue(label: &'static str, key: &str, noun: &str, of: &'static str) -> Self {
        Self {
            column: Column::metric(key, noun, units::significant),
            label,
            is_primary: false,
            of,
            unit: metrics::by_key(key).unit,
        }
    }

    fn of_series(comparison: &Comparison<'_>, series: &'a str, statistic: &str) -> Self {
        Self {
            column: Column::series(comparison, series, statistic),
            label: "latency",
            is_primary: false,
            of: "",
            unit: Unit::Nanoseconds,
        }
    }

    fn failures() -> Self {
        Self {
            column: columns::failed().titled("failure rate"),
            label: "failures",
            is_primary: false,
            of: "",
            unit: Unit::Percent,
        }
    }

    /// Returns true for the metric that daemons are compared by even if they failed too much for the others.
    pub(super) fn is_failures(&self) -> bool {
        self.key() == FAILURES
    }

    pub(super) fn key(&self) -> &str {
        self.column.key.as_deref().unwrap_or_default()
    }

    pub(super) fn is_lower_better(&self) -> bool {
        self.column.better == Better::Lower
    }

    /// Returns the mean of some runs, if one of them has the metric.
    pub(super) fn mean(&self, runs: &[&RunResult]) -> Option<f64> {
        Some(self.column.stats(runs)?.mean)
    }

    /// Returns the figure of a run, if it can be compared: a rate that includes a backlog cannot.
    pub(super) fn figure(&self, run: &RunResult) -> Option<Figure> {
        let value = self.column.value(run)?;
        let is_compared = !self.column.is_rate() || !run.rates_include_backlog();
        let quantum = metrics::quantum(self.key(), value, run);
        is_compared.then_some(Figure { value, quantum })
    }

    /// Returns true if the driver limits the metric when it has no CPU time left.
    pub(super) fn follows_driver(&self) -> bool {
        self.column.is_rate()
    }

    /// Formats a value with its unit and what it is of: `5.94 KiB per connection`.
    pub(super) fn show(&self, value: f64) -> String {
        format!("{}{}", self.number(value), self.of)
    }

    /// Formats a value with its unit.
    pub(super) fn number(&self, value: f64) -> String {
        match self.unit {
            Unit::PerSecond => units::significant(value),
            Unit::Percent => format!("{} %", units::significant(value)),
            unit => unit.short(value),
        }
    }

    /// Returns the word for a better value.
    pub(super) fn word(&self) -> &'static str {
        match self.column.better {
            Better::Lower => "less",
            _ => "more",
        }
    }

    /// Names metric and value: `TTFB p99 115 µs`, `5.94 KiB per connection`.
    pub(super) fn described(&self, value: f64) -> String {
        let noun = &self.column.head;
        match self.of {
            "" if self.unit == Unit::PerSecond => format!("{} {noun}", self.show(value)),
            "" => format!("{noun} {}", self.show(value)),
            _ => self.show(value),
        }
    }
}

/// Returns the metrics that decide between the groups, the primary one first: the plan's, or else the downtime after faults,
/// or the median of the headline series. Then come its other percentiles, rates, memory, CPU and failures.
pub(super) fn metrics<'a>(
    comparison: &Comparison<'a>,
    groups: &[Repetitions<'_>],
) -> Vec<Deciding<'a>> {
    let runs = || groups.iter().flat_map(Repetitions::counted);
    let mut metrics = Vec::new();
    if runs().any(|run| !run.faults.is_empty()) {
        metrics.push(Deciding::of_catalogue("downtime", "down", "downtime", ""));
    }
    if let Some(series) = comparison.headline() {
        let of_series = |statistic| Deciding::of_series(comparison, series, statistic);
        metrics.extend(STATISTICS.map(of_series));
    }
    // A schedule decides the rate; a daemon that does not follow it is overloaded and not compared.
    let has_schedule = |run: &RunResult| {
        let offered = run.throughput.as_ref().map(|throughput| throughput.offered);
        offered.is_some_and(|offered| offered.is_some())
    };
    if !runs().all(has_schedule) {
        metrics.extend(rates(comparison));
    }
    metrics.extend(resources(comparison));
    metrics.push(Deciding::failures());
    if let Some(key) = comparison.primary() {
        put_first(&mut metrics, key, comparison);
    }
    if let Some(first) = metrics.first_mut() {
        first.is_primary = true;
    }
    metrics
}

/// Puts a metric at the head of the list, and adds it if it is a statistic of another series.
fn put_first<'a>(metrics: &mut Vec<Deciding<'a>>, key: &'a str, comparison: &Comparison<'a>) {
    if let Some(at) = metrics.iter().position(|metric| metric.key() == key) {
        metrics[..=at].rotate_right(1);
        return;
    }
    let all = comparison.series();
    let named = all.into_iter().find_map(|series| {
        let statistic = key.strip_prefix(series)?.strip_prefix('.')?;
        let statistic = metrics::statistic_by_key(statistic)?.key;
        Some(Deciding::of_series(comparison, series, statistic))
    });
    metrics.splice(0..0, named);
}

fn rates<'a>(comparison: &Comparison<'a>) -> impl Iterator<Item = Deciding<'a>> {
    let rates = roles::rates(comparison.suite).into_iter();
    let compared = rates.filter(|rate| roles::is_compared(rate));
    compared.map(|rate| Deciding {
        column: Column::rate(rate),
        label: "rate",
        is_primary: false,
        of: "",
        unit: Unit::PerSecond,
    })
}

fn resources<'a>(comparison: &Comparison<'_>) -> [Deciding<'a>; 2] {
    let memory = if roles::has_connection_memory(comparison) {
        Deciding::of_catalogue(
            "memory",
            "daemon.rss.each",
            "memory per connection",
            " per connection",
        )
    } else {
        Deciding::of_catalogue("memory", "daemon.rss.peak", "peak memory", " at its peak")
    };
    let operations = comparison.suite.results.iter();
    let mut kinds = operations.map(|run| run.spec.operation);
    let of = match kinds.next() {
        Some(OperationKind::Request) => " of CPU per request",
        Some(OperationKind::Message) => " of CPU per message",
        _ => " of CPU per operation",
    };
    let cpu = Deciding::of_catalogue("CPU", "daemon.cpu.each", "CPU time", of);
    [memory, cpu]
}
