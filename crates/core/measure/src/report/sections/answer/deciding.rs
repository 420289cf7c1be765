//! The metrics that decide between daemons, chosen by the roles of series and counters.

use crate::metrics::{self, Better};
use crate::report::columns::Read;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::plain;
use crate::report::roles;
use crate::result::RunResult;
use crate::spec::OperationKind;
use crate::units::Unit;

/// A metric with its words.
pub(super) struct Deciding<'a> {
    /// Key of the metric, as that of its column.
    pub(super) key: String,
    /// Label of the line.
    pub(super) label: &'static str,
    /// Name of the metric within a sentence: `TTFB p99`.
    pub(super) noun: String,
    /// Words after the value: ` per connection`.
    of: &'static str,
    unit: Unit,
    pub(super) better: Better,
    read: Box<Read<'a>>,
    /// True if the driver limits the metric when it has no CPU time left.
    pub(super) follows_driver: bool,
}

impl<'a> Deciding<'a> {
    /// Creates a metric of the catalogue.
    fn of_catalogue(label: &'static str, key: &str, noun: &str, of: &'static str) -> Self {
        let metric = metrics::by_key(key);
        Self {
            key: key.to_owned(),
            label,
            noun: noun.to_owned(),
            of,
            unit: metric.unit,
            better: metric.better,
            read: Box::new(metric.read),
            follows_driver: false,
        }
    }

    pub(super) fn value(&self, run: &RunResult) -> Option<f64> {
        (self.read)(run)
    }

    /// Formats a value with its unit and what it is of: `5.94 KiB per connection`.
    pub(super) fn show(&self, value: f64) -> String {
        format!("{}{}", self.number(value), self.of)
    }

    /// Formats a value with its unit.
    pub(super) fn number(&self, value: f64) -> String {
        match self.unit {
            Unit::PerSecond => crate::units::significant(value),
            unit => unit.short(value),
        }
    }

    /// Returns the word for a better value.
    pub(super) fn word(&self) -> &'static str {
        match self.better {
            Better::Lower => "less",
            _ => "more",
        }
    }

    /// Names metric and value: `TTFB p99 115 µs`, `5.94 KiB per connection`.
    pub(super) fn described(&self, value: f64) -> String {
        match self.of {
            "" if self.unit == Unit::PerSecond => format!("{} {}", self.show(value), self.noun),
            "" => format!("{} {}", self.noun, self.show(value)),
            _ => self.show(value),
        }
    }
}

/// Returns the metrics that decide between the groups: rates, the headline series, memory, CPU; after faults the
/// downtime.
pub(super) fn metrics<'a>(
    comparison: &Comparison<'a>,
    groups: &[Repetitions<'_>],
) -> Vec<Deciding<'a>> {
    let runs = || groups.iter().flat_map(Repetitions::counted);
    let mut metrics = Vec::new();
    if runs().any(|run| !run.faults.is_empty()) {
        metrics.push(Deciding::of_catalogue("downtime", "down", "downtime", ""));
    }
    // A schedule decides the rate; a daemon that does not follow it is overloaded and not compared.
    let has_schedule = |run: &RunResult| {
        let offered = run.throughput.as_ref().map(|throughput| throughput.offered);
        offered.is_some_and(|offered| offered.is_some())
    };
    if !runs().all(has_schedule) {
        metrics.extend(rates(comparison));
    }
    metrics.extend(latency(comparison));
    metrics.extend(resources(comparison));
    metrics
}

fn rates<'a>(comparison: &Comparison<'a>) -> impl Iterator<Item = Deciding<'a>> {
    let rates = roles::rates(comparison.suite).into_iter();
    let compared = rates.filter(|rate| roles::is_compared(rate));
    compared.map(|rate| {
        let noun = format!("{}/s", plain(&rate.label));
        Deciding {
            key: format!("{}.rate", rate.name),
            label: "rate",
            noun,
            of: "",
            unit: Unit::PerSecond,
            better: Better::Higher,
            read: Box::new(|run| metrics::rate(run, &rate.name)),
            follows_driver: true,
        }
    })
}

fn latency<'a>(comparison: &Comparison<'a>) -> Option<Deciding<'a>> {
    let series = comparison.headline()?;
    let p99 = metrics::statistic_by_key("p99")?;
    Some(Deciding {
        key: format!("{series}.p99"),
        label: "latency",
        noun: format!("{} p99", comparison.series_label(series)),
        of: "",
        unit: p99.unit,
        better: Better::Lower,
        read: Box::new(move |run| (p99.read)(&run.summary(series)?)),
        follows_driver: false,
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
