//! What a hurried reader looks for, of each daemon by level, every run a dot: the headline's tail, and what went through.

use super::{
    Cell, Cells, Chart, Drawn, Kind, Mark, Scale, axis, chart, heights, level_name, page,
    series_name, show,
};
use crate::report::suite::throughput;
use crate::result::RunResult;
use crate::spread::Spread;
use crate::warning::Verdict;

/// The share of a level's room that its daemons take.
const SPREAD: f64 = 0.6;

/// A figure of a run, and how it is written with its unit.
struct Figure<'a> {
    of: &'a dyn Fn(&RunResult) -> Option<f64>,
    show: fn(f64) -> String,
    unit: &'a str,
}

/// The charts that would not be empty.
pub(super) fn draw(cells: &Cells<'_>) -> Vec<Chart> {
    let rates = throughput::flows(cells).into_iter();
    headline(cells)
        .into_iter()
        .chain(rates.filter_map(|name| rate(cells, name)))
        .collect()
}

fn headline(cells: &Cells<'_>) -> Option<Chart> {
    let series = cells.headline()?;
    let name = series_name(series);
    let figure = Figure {
        of: &|run| run.summary(series)?.p99_ns.map(|ns| ns as f64),
        show: show::ms,
        unit: " ms",
    };
    let title = format!("{name} p99 by level");
    finish(cells, "headline-levels", title, &figure, |heights| {
        (format!("{name} p99, log scale"), Scale::log(heights))
    })
}

fn rate(cells: &Cells<'_>, name: &str) -> Option<Chart> {
    let figure = Figure {
        of: &|run| throughput::per_second(run, name),
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
    figure: &Figure<'_>,
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
    let reading = "A dot is a run, the stroke their median.";
    Some(chart(id.to_owned(), title, reading, axes, drawn))
}

/// Dots for its runs and a stroke for the median of each level; nothing where no run has the figure.
fn of_daemon(cells: &Cells<'_>, figure: &Figure<'_>, daemon: usize, label: &str) -> Drawn {
    let name = page::plain(cells.daemons[daemon]);
    let shown = |value: f64| format!("{}{}", (figure.show)(value), figure.unit);
    let (mut dots, mut what) = (Vec::new(), Vec::new());
    let (mut middles, mut words) = (Vec::new(), Vec::new());
    for cell in cells.of_daemon(daemon) {
        let runs = runs(&cell, figure);
        let Some(spread) = Spread::of(runs.iter().map(|(value, _)| *value)) else {
            continue;
        };
        let level = cell.level_name();
        let x = place(cells, &cell);
        for (value, doubt) in runs {
            dots.push((x, value));
            what.push(format!("{name} at {level}: {}{doubt}", shown(value)));
        }
        middles.push((x, spread.median));
        words.push(format!("{} at {level}", shown(spread.median)));
    }
    if dots.is_empty() {
        return Drawn::default();
    }
    Drawn {
        marks: vec![
            Mark::new(daemon, Kind::Dots, vec![dots]).named(what),
            Mark::new(daemon, Kind::Middle, vec![middles]).labelled(label),
        ],
        said: vec![format!("{name}: {}", words.join(", "))],
    }
}

/// The figure of each run, with what speaks against the run.
fn runs(cell: &Cell<'_>, figure: &Figure<'_>) -> Vec<(f64, String)> {
    let doubt = |verdict: Verdict| match verdict {
        Verdict::Valid => String::new(),
        grave => format!(", {grave}"),
    };
    let found = cell.runs.iter().filter_map(|run| {
        let value = (figure.of)(run)?;
        Some((value, doubt(run.verdict)))
    });
    found.collect()
}

/// Where a daemon stands among those of a level.
fn place(cells: &Cells<'_>, cell: &Cell<'_>) -> f64 {
    let level = cells.levels.iter().position(|level| *level == cell.level);
    let aside = (cell.daemon as f64 + 0.5) / cells.daemons.len() as f64 - 0.5;
    level.unwrap_or(0) as f64 + aside * SPREAD
}
