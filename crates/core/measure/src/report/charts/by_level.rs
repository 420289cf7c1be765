//! Key figures of each daemon by level, every run a dot: the headline series' p99, the rates, memory and CPU.

use super::drawn::{Drawn, axis};
use crate::report::columns::Column;
use crate::report::comparison::{Comparison, Repetitions, is_counted, level_name};
use crate::report::roles;
use crate::report::svg::{Chart, Mark, MarkKind, Point, Scale, Size};
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::units;
use crate::warning::Verdict;

/// The share of a level's width used by its daemons.
const SPREAD: f64 = 0.6;

/// A figure by level. The head of its column is the title of the chart.
struct LevelMetric<'a> {
    id: String,
    column: Column<'a>,
    /// Unit on the axis and behind values.
    unit: &'static str,
    /// Size of the unit in the unit of the column.
    each: f64,
}

impl<'a> LevelMetric<'a> {
    fn new(id: &str, column: Column<'a>, unit: &'static str, each: f64) -> Self {
        Self {
            id: format!("{id}-levels"),
            column,
            unit,
            each,
        }
    }

    fn value(&self, run: &RunResult) -> Option<f64> {
        Some(self.column.value(run)? / self.each)
    }
}

pub(super) fn draw(comparison: &Comparison<'_>) -> Vec<Chart> {
    let headline = comparison.headline().map(|series| {
        let column = Column::series(comparison, series, "p99");
        LevelMetric::new("headline", column, "ns", 1.0)
    });
    let title = "CPU per finished operation";
    let cpu = Column::metric("daemon.cpu.each", title, units::significant);
    let cpu = LevelMetric::new("cpu", cpu, " µs", 1e3);
    let all = headline
        .into_iter()
        .chain(rates(comparison))
        .chain([memory(comparison), cpu]);
    all.filter_map(|metric| chart(comparison, &metric))
        .collect()
}

/// Returns the rates of the driver's counters, or the rate of finished operations for a driver without such counters.
fn rates<'a>(comparison: &Comparison<'a>) -> Vec<LevelMetric<'a>> {
    let rates = roles::rates(comparison.suite).into_iter();
    let mut rates: Vec<_> = rates
        .map(|counter| LevelMetric::new(&counter.name, Column::rate(counter), "/s", 1.0))
        .collect();
    if rates.is_empty() {
        let rate = Column::metric("rate", "completed/s", units::significant);
        rates.push(LevelMetric::new("rate", rate, "/s", 1.0));
    }
    rates
}

/// Returns the memory that is compared.
fn memory<'a>(comparison: &Comparison<'a>) -> LevelMetric<'a> {
    let (key, title, unit, each) = if roles::has_connection_memory(comparison) {
        ("daemon.rss.each", "Memory per connection", " KiB", 1_024.0)
    } else {
        ("daemon.rss.peak", "Peak memory", " MiB", 1_048_576.0)
    };
    let column = Column::metric(key, title, units::significant);
    LevelMetric::new("memory", column, unit, each)
}

fn chart(comparison: &Comparison<'_>, metric: &LevelMetric<'_>) -> Option<Chart> {
    let mut drawn = Drawn::default();
    for (daemon, name) in comparison.short_names().iter().enumerate() {
        drawn.extend(of_daemon(comparison, metric, daemon, name));
    }
    let levels = comparison.levels.iter();
    let names = levels.map(|level| level_name(level)).collect();
    let values: Vec<f64> = drawn.ys().collect();
    if values.iter().all(|value| *value == 0.0) {
        return None;
    }
    let (scale, unit) = match metric.unit {
        "ns" => (Scale::log(values), "log scale"),
        unit => (Scale::fitting(&values, units::number), unit.trim()),
    };
    let unit = match &scale {
        Scale::Log { .. } if metric.unit != "ns" => format!("{unit}, log scale"),
        _ => unit.to_owned(),
    };
    let y = axis(unit, scale, metric.unit);
    let reading = if comparison.suite.results.iter().all(is_counted) {
        ""
    } else {
        "Hollow: an INVALID run."
    };
    let x = axis("level", Scale::Names(names), "");
    let title = metric.column.head.clone();
    let chart = drawn.chart(metric.id.clone(), title, reading, x, y);
    Some(Chart {
        size: Size::Compact,
        ..chart
    })
}

/// Draws dots for the runs and a stroke for the mean of each level; nothing if no run has the figure. The dots of
/// INVALID runs are hollow.
fn of_daemon(
    comparison: &Comparison<'_>,
    metric: &LevelMetric<'_>,
    daemon: usize,
    label: &str,
) -> Drawn {
    let name = comparison.daemon(daemon);
    let unit = if metric.unit == "ns" {
        " ms"
    } else {
        metric.unit
    };
    let shown = |value: f64| format!("{}{unit}", (metric.column.show)(value));
    let mut dots = [Dots::default(), Dots::default()];
    let (mut means, mut descriptions) = (Vec::new(), Vec::new());
    for repeated in comparison.of_daemon(daemon) {
        let (level, x) = (repeated.level_name(), position(comparison, &repeated));
        for run in &repeated.runs {
            let Some(value) = metric.value(run) else {
                continue;
            };
            let verdict = match run.verdict {
                Verdict::Valid => String::new(),
                verdict => format!(", {verdict}"),
            };
            let of_verdict = &mut dots[usize::from(!is_counted(run))];
            of_verdict.points.push((x, value));
            let text = format!("{name} at {level}: {}{verdict}", shown(value));
            of_verdict.names.push(text);
        }
        let values = repeated.shown().into_iter();
        let Some(spread) = SummaryStats::from_values(values.filter_map(|run| metric.value(run)))
        else {
            continue;
        };
        means.push((x, spread.mean));
        descriptions.push(format!("{} at {level}", shown(spread.mean)));
    }
    if means.is_empty() {
        return Drawn::default();
    }
    let kinds = [MarkKind::Dots, MarkKind::HollowDots].into_iter().zip(dots);
    let drawn = kinds.filter(|(_, dots)| !dots.points.is_empty());
    let mut marks: Vec<Mark> = drawn
        .map(|(kind, dots)| Mark::new(daemon, kind, vec![dots.points]).named(dots.names))
        .collect();
    if means.len() > 1 {
        marks.push(Mark::new(daemon, MarkKind::Thin, vec![means.clone()]));
    }
    marks.push(Mark::new(daemon, MarkKind::MeanStroke, vec![means]).labelled(label));
    Drawn {
        marks,
        descriptions: vec![format!("{name}: {}", descriptions.join(", "))],
    }
}

/// Dots with their names.
#[derive(Default)]
struct Dots {
    points: Vec<Point>,
    names: Vec<String>,
}

/// Returns the x position of a daemon within its level.
fn position(comparison: &Comparison<'_>, repeated: &Repetitions<'_>) -> f64 {
    let mut levels = comparison.levels.iter();
    let level = levels.position(|level| *level == repeated.level);
    let aside = (repeated.daemon as f64 + 0.5) / comparison.daemons.len() as f64 - 0.5;
    level.unwrap_or(0) as f64 + aside * SPREAD
}
