//! The headline figure of each daemon by level, every run a dot.

use super::{
    Cell, Cells, Chart, Drawn, Kind, Mark, Scale, axis, chart, heights, level_name, page,
    series_name, show,
};
use crate::spread::Spread;
use crate::warning::Verdict;

/// The share of a level's room that its daemons take.
const SPREAD: f64 = 0.6;

pub(super) fn draw(cells: &Cells<'_>) -> Option<Chart> {
    let series = cells.headline()?;
    let names = cells.short_names();
    let mut drawn = Drawn::default();
    for (daemon, name) in names.iter().enumerate() {
        drawn.extend(of_daemon(cells, series, daemon, name));
    }
    if drawn.marks.is_empty() {
        return None;
    }
    let levels = cells.levels.iter().map(|level| level_name(level)).collect();
    let y = format!("{} p99, log scale", series_name(series));
    let axes = (
        axis("level", Scale::Names(levels)),
        axis(&y, Scale::log(heights(&drawn.marks))),
    );
    Some(chart(
        "headline-levels".to_owned(),
        format!("{} p99 by level", series_name(series)),
        "A dot is a run, the stroke their median.",
        axes,
        drawn,
    ))
}

/// Dots for its runs and a stroke for the median of each level; nothing where no run has the series.
fn of_daemon(cells: &Cells<'_>, series: &str, daemon: usize, label: &str) -> Drawn {
    let name = page::plain(cells.daemons[daemon]);
    let (mut dots, mut what) = (Vec::new(), Vec::new());
    let (mut middles, mut words) = (Vec::new(), Vec::new());
    for cell in cells.of_daemon(daemon) {
        let runs = p99s(&cell, series);
        let Some(spread) = Spread::of(runs.iter().map(|(ns, _)| *ns)) else {
            continue;
        };
        let level = cell.level_name();
        let x = place(cells, &cell);
        for (ns, doubt) in runs {
            dots.push((x, ns));
            what.push(format!("{name} at {level}: {} ms{doubt}", show::ms(ns)));
        }
        middles.push((x, spread.median));
        words.push(format!("{} ms at {level}", show::ms(spread.median)));
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

/// The figure of each run in nanoseconds, with what speaks against the run.
fn p99s(cell: &Cell<'_>, series: &str) -> Vec<(f64, String)> {
    let doubt = |verdict: Verdict| match verdict {
        Verdict::Valid => String::new(),
        grave => format!(", {grave}"),
    };
    let found = cell.runs.iter().filter_map(|run| {
        let ns = run.summary(series)?.p99_ns? as f64;
        Some((ns, doubt(run.verdict)))
    });
    found.collect()
}

/// Where a daemon stands among those of a level.
fn place(cells: &Cells<'_>, cell: &Cell<'_>) -> f64 {
    let level = cells.levels.iter().position(|level| *level == cell.level);
    let aside = (cell.daemon as f64 + 0.5) / cells.daemons.len() as f64 - 0.5;
    level.unwrap_or(0) as f64 + aside * SPREAD
}
