//! Key figures of each daemon by level, every run a dot: the headline series' p99, and the rates.

use super::drawn::{ChartTexts, Drawn, axis};
use crate::metrics;
use crate::report::comparison::{Comparison, Repetitions, level_name};
use crate::report::roles;
use crate::report::svg::{Axis, Chart, Kind, Mark, Scale};
use crate::report::text::plain;
use crate::result::RunResult;
use crate::spec::CounterSpec;
use crate::summary::SummaryStats;
use crate::units;
use crate::warning::Verdict;

/// The share of a level's width used by its daemons.
const SPREAD: f64 = 0.6;

struct LevelMetric<'a> {
    read: &'a dyn Fn(&RunResult) -> Option<f64>,
    show: fn(f64) -> String,
    unit: &'a str,
}

pub(super) fn draw(comparison: &Comparison<'_>) -> Vec<Chart> {
    let rates = roles::rates(comparison.suite).into_iter();
    headline(comparison)
        .into_iter()
        .chain(rates.filter_map(|counter| rate(comparison, counter)))
        .collect()
}

fn headline(comparison: &Comparison<'_>) -> Option<Chart> {
    let series = comparison.headline()?;
    let p99 = metrics::statistic_by_key("p99")?;
    let name = comparison.series_label(series);
    let metric = LevelMetric {
        read: &|run| (p99.read)(&run.summary(series)?),
        show: units::ms,
        unit: " ms",
    };
    let drawn = draw_all(comparison, &metric);
    let y = axis(format!("{name} p99, log scale"), Scale::log(drawn.ys()));
    let title = format!("{name} p99 by level");
    finish(comparison, drawn, "headline-levels".to_owned(), title, y)
}

fn rate(comparison: &Comparison<'_>, counter: &CounterSpec) -> Option<Chart> {
    let metric = LevelMetric {
        read: &|run| metrics::rate(run, &counter.name),
        show: units::whole,
        unit: "/s",
    };
    let name = plain(&counter.label);
    let drawn = draw_all(comparison, &metric);
    let scale = Scale::linear(drawn.ys(), units::whole);
    let y = axis(format!("{name}/s"), scale);
    let (id, title) = (
        format!("{}-levels", counter.name),
        format!("{name} by level"),
    );
    finish(comparison, drawn, id, title, y)
}

fn draw_all(comparison: &Comparison<'_>, metric: &LevelMetric<'_>) -> Drawn {
    let mut drawn = Drawn::default();
    for (daemon, name) in comparison.short_names().iter().enumerate() {
        drawn.extend(of_daemon(comparison, metric, daemon, name));
    }
    drawn
}

fn finish(
    comparison: &Comparison<'_>,
    drawn: Drawn,
    id: String,
    title: String,
    y: Axis,
) -> Option<Chart> {
    let levels = comparison.levels.iter();
    let names = levels.map(|level| level_name(level)).collect();
    let texts = ChartTexts {
        id,
        title,
        reading: "Each dot is a run; the stroke is their median, without INVALID runs where there are others.",
    };
    drawn.chart(texts, axis("level", Scale::Names(names)), y)
}

/// Draws dots for the runs and a stroke for the median of each level; nothing if no run has the figure.
fn of_daemon(
    comparison: &Comparison<'_>,
    metric: &LevelMetric<'_>,
    daemon: usize,
    label: &str,
) -> Drawn {
    let name = comparison.daemon(daemon);
    let shown = |value: f64| format!("{}{}", (metric.show)(value), metric.unit);
    let (mut dots, mut names) = (Vec::new(), Vec::new());
    let (mut medians, mut descriptions) = (Vec::new(), Vec::new());
    for repeated in comparison.of_daemon(daemon) {
        let runs = runs(&repeated, metric);
        let shown_runs = repeated.shown();
        let values = shown_runs.iter().filter_map(|run| (metric.read)(run));
        let Some(spread) = SummaryStats::from_values(values) else {
            continue;
        };
        let level = repeated.level_name();
        let x = position(comparison, &repeated);
        for (value, verdict) in runs {
            dots.push((x, value));
            names.push(format!("{name} at {level}: {}{verdict}", shown(value)));
        }
        medians.push((x, spread.median));
        descriptions.push(format!("{} at {level}", shown(spread.median)));
    }
    if dots.is_empty() {
        return Drawn::default();
    }
    Drawn {
        marks: vec![
            Mark::new(daemon, Kind::Dots, vec![dots]).named(names),
            Mark::new(daemon, Kind::MedianStroke, vec![medians]).labelled(label),
        ],
        descriptions: vec![format!("{name}: {}", descriptions.join(", "))],
    }
}

/// Returns the value of each run, with its verdict unless that is VALID.
fn runs(repeated: &Repetitions<'_>, metric: &LevelMetric<'_>) -> Vec<(f64, String)> {
    let runs = repeated.runs.iter().filter_map(|run| {
        let verdict = match run.verdict {
            Verdict::Valid => String::new(),
            verdict => format!(", {verdict}"),
        };
        Some(((metric.read)(run)?, verdict))
    });
    runs.collect()
}

/// Returns the x position of a daemon within its level.
fn position(comparison: &Comparison<'_>, repeated: &Repetitions<'_>) -> f64 {
    let mut levels = comparison.levels.iter();
    let level = levels.position(|level| *level == repeated.level);
    let aside = (repeated.daemon as f64 + 0.5) / comparison.daemons.len() as f64 - 0.5;
    level.unwrap_or(0) as f64 + aside * SPREAD
}
