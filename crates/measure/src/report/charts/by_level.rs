//! Key figures of each daemon by level, every run a dot: the headline series' p99, and the rates.

use super::drawn::{Drawn, axis, chart, heights};
use crate::metrics;
use crate::report::comparison::{Comparison, Repetitions, level_name};
use crate::report::roles;
use crate::report::svg::{Chart, Kind, Mark, Scale};
use crate::report::text::plain;
use crate::result::RunResult;
use crate::spec::CounterSpec;
use crate::summary::SummaryStats;
use crate::units;
use crate::warning::Verdict;

/// The share of a level's width used by its daemons.
const SPREAD: f64 = 0.6;

/// A figure of a run with its format and unit.
struct LevelMetric<'a> {
    read: &'a dyn Fn(&RunResult) -> Option<f64>,
    show: fn(f64) -> String,
    unit: &'a str,
}

/// Builds the non-empty charts.
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
    let figure = LevelMetric {
        read: &|run| (p99.read)(&run.summary(series)?),
        show: units::ms,
        unit: " ms",
    };
    let title = format!("{name} p99 by level");
    finish(comparison, "headline-levels", title, &figure, |heights| {
        (format!("{name} p99, log scale"), Scale::log(heights))
    })
}

fn rate(comparison: &Comparison<'_>, counter: &CounterSpec) -> Option<Chart> {
    let figure = LevelMetric {
        read: &|run| metrics::rate(run, &counter.name),
        show: units::whole,
        unit: "/s",
    };
    let name = plain(&counter.label);
    let (id, title) = (
        format!("{}-levels", counter.name),
        format!("{name} by level"),
    );
    finish(comparison, &id, title, &figure, |heights| {
        (format!("{name}/s"), Scale::linear(heights, units::whole))
    })
}

fn finish(
    comparison: &Comparison<'_>,
    id: &str,
    title: String,
    figure: &LevelMetric<'_>,
    scale: impl Fn(Vec<f64>) -> (String, Scale),
) -> Option<Chart> {
    let names = comparison.short_names();
    let mut drawn = Drawn::default();
    for (daemon, name) in names.iter().enumerate() {
        drawn.extend(of_daemon(comparison, figure, daemon, name));
    }
    if drawn.marks.is_empty() {
        return None;
    }
    let levels = comparison
        .levels
        .iter()
        .map(|level| level_name(level))
        .collect();
    let (y, scale) = scale(heights(&drawn.marks));
    let axes = (axis("level", Scale::Names(levels)), axis(&y, scale));
    let reading = "Each dot is a run; the stroke is their median.";
    Some(chart(id.to_owned(), title, reading, axes, drawn))
}

/// Draws dots for the runs and a stroke for the median of each level; nothing if no run has the figure.
fn of_daemon(
    comparison: &Comparison<'_>,
    figure: &LevelMetric<'_>,
    daemon: usize,
    label: &str,
) -> Drawn {
    let name = plain(comparison.daemons[daemon]);
    let shown = |value: f64| format!("{}{}", (figure.show)(value), figure.unit);
    let (mut dots, mut names) = (Vec::new(), Vec::new());
    let (mut medians, mut descriptions) = (Vec::new(), Vec::new());
    for repeated in comparison.of_daemon(daemon) {
        let runs = runs(&repeated, figure);
        let Some(spread) = SummaryStats::from_values(runs.iter().map(|(value, _)| *value)) else {
            continue;
        };
        let level = repeated.level_name();
        let x = place(comparison, &repeated);
        for (value, verdict_text) in runs {
            dots.push((x, value));
            names.push(format!("{name} at {level}: {}{verdict_text}", shown(value)));
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

/// Returns the figure of each run, with its verdict unless that is VALID.
fn runs(repeated: &Repetitions<'_>, figure: &LevelMetric<'_>) -> Vec<(f64, String)> {
    let verdict_text = |verdict: Verdict| match verdict {
        Verdict::Valid => String::new(),
        verdict => format!(", {verdict}"),
    };
    let found = repeated.runs.iter().filter_map(|run| {
        let value = (figure.read)(run)?;
        Some((value, verdict_text(run.verdict)))
    });
    found.collect()
}

/// Returns the x position of a daemon within its level.
fn place(comparison: &Comparison<'_>, repeated: &Repetitions<'_>) -> f64 {
    let level = comparison
        .levels
        .iter()
        .position(|level| *level == repeated.level);
    let aside = (repeated.daemon as f64 + 0.5) / comparison.daemons.len() as f64 - 0.5;
    level.unwrap_or(0) as f64 + aside * SPREAD
}
