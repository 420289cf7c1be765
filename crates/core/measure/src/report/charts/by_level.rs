//! Key figures of each daemon by level, every run a dot: the headline series' p99, the rates, memory and CPU.

use super::drawn::{ChartTexts, Drawn, axis};
use crate::metrics::{self, Metric};
use crate::report::comparison::{Comparison, Repetitions, is_counted, level_name};
use crate::report::plain;
use crate::report::roles;
use crate::report::svg::{Chart, Kind, Mark, Point, Scale, Size};
use crate::result::RunResult;
use crate::spec::CounterSpec;
use crate::summary::SummaryStats;
use crate::units;
use crate::warning::Verdict;

/// The share of a level's width used by its daemons.
const SPREAD: f64 = 0.6;

/// Reads a figure from a run.
type Read<'a> = dyn Fn(&RunResult) -> Option<f64> + 'a;

struct LevelMetric<'a> {
    id: String,
    title: String,
    read: Box<Read<'a>>,
    show: fn(f64) -> String,
    /// Unit on the axis and behind values.
    unit: &'static str,
}

impl<'a> LevelMetric<'a> {
    /// Creates the metric of the catalogue, in units of `each`.
    fn from_catalogue(key: &str, id: &str, title: String, unit: &'static str, each: f64) -> Self {
        let metric: &'static Metric = metrics::by_key(key);
        Self {
            id: format!("{id}-levels"),
            title,
            read: Box::new(move |run| Some((metric.read)(run)? / each)),
            show: units::significant,
            unit,
        }
    }

    fn rate(counter: &'a CounterSpec) -> Self {
        Self {
            id: format!("{}-levels", counter.name),
            title: format!("{}/s", plain(&counter.label)),
            read: Box::new(|run| metrics::rate(run, &counter.name)),
            show: units::whole,
            unit: "/s",
        }
    }
}

pub(super) fn draw(comparison: &Comparison<'_>) -> Vec<Chart> {
    let all = headline(comparison)
        .into_iter()
        .chain(rates(comparison))
        .chain([
            memory(comparison),
            LevelMetric::from_catalogue(
                "daemon.cpu.each",
                "cpu",
                "CPU per finished operation".to_owned(),
                " µs",
                1e3,
            ),
        ]);
    all.filter_map(|metric| chart(comparison, &metric))
        .collect()
}

fn headline<'a>(comparison: &Comparison<'a>) -> Option<LevelMetric<'a>> {
    let series = comparison.headline()?;
    let p99 = metrics::statistic_by_key("p99")?;
    Some(LevelMetric {
        id: "headline-levels".to_owned(),
        title: format!("{} p99", comparison.series_label(series)),
        read: Box::new(|run| (p99.read)(&run.summary(series)?)),
        show: units::ms,
        unit: "ns",
    })
}

/// Returns the rates of the driver's counters, or that of finished operations for a driver without such counters.
fn rates<'a>(comparison: &Comparison<'a>) -> Vec<LevelMetric<'a>> {
    let rates = roles::rates(comparison.suite).into_iter();
    let rates: Vec<_> = rates.map(LevelMetric::rate).collect();
    if rates.is_empty() {
        vec![LevelMetric::from_catalogue(
            "rate",
            "rate",
            "completed/s".to_owned(),
            "/s",
            1.0,
        )]
    } else {
        rates
    }
}

/// Returns the memory that is compared.
fn memory<'a>(comparison: &Comparison<'a>) -> LevelMetric<'a> {
    if roles::has_connection_memory(comparison) {
        LevelMetric::from_catalogue(
            "daemon.rss.each",
            "memory",
            "Memory per connection".to_owned(),
            " KiB",
            1_024.0,
        )
    } else {
        LevelMetric::from_catalogue(
            "daemon.rss.peak",
            "memory",
            "Peak memory".to_owned(),
            " MiB",
            1_048_576.0,
        )
    }
}

fn chart(comparison: &Comparison<'_>, metric: &LevelMetric<'_>) -> Option<Chart> {
    let mut drawn = Drawn::default();
    for (daemon, name) in comparison.short_names().iter().enumerate() {
        drawn.extend(of_daemon(comparison, metric, daemon, name));
    }
    let levels = comparison.levels.iter();
    let names = levels.map(|level| level_name(level)).collect();
    let texts = ChartTexts {
        id: metric.id.clone(),
        title: metric.title.clone(),
        reading: if comparison.suite.results.iter().all(is_counted) {
            ""
        } else {
            "Hollow: an INVALID run."
        },
    };
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
    let chart = drawn.chart(texts, axis("level", Scale::Names(names), ""), y)?;
    Some(Chart {
        size: Size::Compact,
        ..chart
    })
}

/// Draws dots for the runs and a stroke for the median of each level; nothing if no run has the figure. The dots of
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
    let shown = |value: f64| format!("{}{unit}", (metric.show)(value));
    let mut dots = [Dots::default(), Dots::default()];
    let (mut medians, mut descriptions) = (Vec::new(), Vec::new());
    for repeated in comparison.of_daemon(daemon) {
        let (level, x) = (repeated.level_name(), position(comparison, &repeated));
        for run in &repeated.runs {
            let Some(value) = (metric.read)(run) else {
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
        let Some(spread) = SummaryStats::from_values(values.filter_map(|run| (metric.read)(run)))
        else {
            continue;
        };
        medians.push((x, spread.median));
        descriptions.push(format!("{} at {level}", shown(spread.median)));
    }
    if medians.is_empty() {
        return Drawn::default();
    }
    let kinds = [Kind::Dots, Kind::HollowDots].into_iter().zip(dots);
    let drawn = kinds.filter(|(_, dots)| !dots.points.is_empty());
    let mut marks: Vec<Mark> = drawn
        .map(|(kind, dots)| Mark::new(daemon, kind, vec![dots.points]).named(dots.names))
        .collect();
    if medians.len() > 1 {
        marks.push(Mark::new(daemon, Kind::Thin, vec![medians.clone()]));
    }
    marks.push(Mark::new(daemon, Kind::MedianStroke, vec![medians]).labelled(label));
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
