//! Key figures of each daemon by level, every run a dot: the headline series' p99, and the rates.

use super::{
    Cell, Cells, Chart, Drawn, Kind, Mark, Scale, axis, chart, heights, level_name, page,
    series_name, show,
};
use crate::report::suite::throughput;
use crate::result::RunResult;
use crate::spread::SummaryStats;
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
pub(super) fn draw(cells: &Cells<'_>) -> Vec<Chart> {
    let rates = throughput::rate_names(cells).into_iter();
    headline(cells)
        .into_iter()
        .chain(rates.filter_map(|name| rate(cells, name)))
        .collect()
}

fn headline(cells: &Cells<'_>) -> Option<Chart> {
    let series = cells.headline()?;
    let name = series_name(series);
    let figure = LevelMetric {
        read: &|run| run.summary(series)?.p99_ns.map(|ns| ns as f64),
        show: show::ms,
        unit: " ms",
    };
    let title = format!("{name} p99 by level");
    finish(cells, "headline-levels", title, &figure, |heights| {
        (format!("{name} p99, log scale"), Scale::log(heights))
    })
}

fn rate(cells: &Cells<'_>, name: &str) -> Option<Chart> {
    let figure = LevelMetric {
        read: &|run| throughput::per_second(run, name),
        show: show::whole,
        unit: "/s",
    };
    let (id, title) = (format!("{name}-levels"), format!("{name} by level"));
    finish(cells, &id, title, &figure, |heights| {
        (format!("{name}/s"), Scale::linear(heights, show::whole))
    })
}

fn finish(
    cells: &Cells<'_>,
    id: &str,
    title: String,
    figure: &LevelMetric<'_>,
    scale: impl Fn(Vec<f64>) -> (String, Scale),
) -> Option<Chart> {
    let names = cells.short_names();
    let mut drawn = Drawn::default();
    for (daemon, name) in names.iter().enumerate() {
        drawn.extend(of_daemon(cells, figure, daemon, name));
    }
    if drawn.marks.is_empty() {
        return None;
    }
    let levels = cells.levels.iter().map(|level| level_name(level)).collect();
    let (y, scale) = scale(heights(&drawn.marks));
    let axes = (axis("level", Scale::Names(levels)), axis(&y, scale));
    let reading = "Each dot is a run; the stroke is their median.";
    Some(chart(id.to_owned(), title, reading, axes, drawn))
}

/// Draws dots for the runs and a stroke for the median of each level; nothing if no run has the figure.
fn of_daemon(cells: &Cells<'_>, figure: &LevelMetric<'_>, daemon: usize, label: &str) -> Drawn {
    let name = page::plain(cells.daemons[daemon]);
    let shown = |value: f64| format!("{}{}", (figure.show)(value), figure.unit);
    let (mut dots, mut names) = (Vec::new(), Vec::new());
    let (mut medians, mut words) = (Vec::new(), Vec::new());
    for cell in cells.of_daemon(daemon) {
        let runs = runs(&cell, figure);
        let Some(spread) = SummaryStats::from_values(runs.iter().map(|(value, _)| *value)) else {
            continue;
        };
        let level = cell.level_name();
        let x = place(cells, &cell);
        for (value, verdict_text) in runs {
            dots.push((x, value));
            names.push(format!("{name} at {level}: {}{verdict_text}", shown(value)));
        }
        medians.push((x, spread.median));
        words.push(format!("{} at {level}", shown(spread.median)));
    }
    if dots.is_empty() {
        return Drawn::default();
    }
    Drawn {
        marks: vec![
            Mark::new(daemon, Kind::Dots, vec![dots]).named(names),
            Mark::new(daemon, Kind::MedianStroke, vec![medians]).labelled(label),
        ],
        descriptions: vec![format!("{name}: {}", words.join(", "))],
    }
}

/// Returns the figure of each run, with its verdict unless that is VALID.
fn runs(cell: &Cell<'_>, figure: &LevelMetric<'_>) -> Vec<(f64, String)> {
    let verdict_text = |verdict: Verdict| match verdict {
        Verdict::Valid => String::new(),
        grave => format!(", {grave}"),
    };
    let found = cell.runs.iter().filter_map(|run| {
        let value = (figure.read)(run)?;
        Some((value, verdict_text(run.verdict)))
    });
    found.collect()
}

/// Returns the x position of a daemon within its level.
fn place(cells: &Cells<'_>, cell: &Cell<'_>) -> f64 {
    let level = cells.levels.iter().position(|level| *level == cell.level);
    let aside = (cell.daemon as f64 + 0.5) / cells.daemons.len() as f64 - 0.5;
    level.unwrap_or(0) as f64 + aside * SPREAD
}
