//! The few figures that a hurried reader takes along: each daemon at the highest level that all of them ran.

use super::cells::{Cell, Cells, level_name, size};
use super::document::{Part, Pictures, Section};
use super::figures;
use super::grid::{Figure, Grid};
use super::memory;
use super::throughput;
use crate::spread::Spread;
use crate::warning::Verdict;

/// The column of the level in a table of cells.
const LEVEL: usize = 1;

/// Runs that each daemon needs before any is called best.
const RUNS: usize = 3;
/// How far apart two medians must lie, as a share of the better.
const DISTANCE: f64 = 0.03;

const READING: &str = "A figure is best where its runs do not overlap with those of any daemon behind it and the medians lie at least 3 % apart; figures closer than that share the mark, and where all are close nobody has it. A daemon with an INVALID run takes part in no comparison, one with failures only in that of success.";
const SLOPE: &str = "The slope is over all levels and compared with nothing.";
const FEW: &str = "No figure is marked as best: that needs 3 runs of each daemon.";

pub(super) fn of(cells: &Cells<'_>) -> Section {
    let mut parts = match common_level(cells) {
        Some(level) => vec![
            Part::Note(reading(cells, level)),
            Part::Grid(table(cells, level)),
        ],
        None => vec![Part::Note(
            "No level was run by every daemon: there is nothing to compare at a glance.".to_owned(),
        )],
    };
    parts.push(Part::Pictures(Pictures::Levels));
    Section::new("glance", "At a glance", parts)
}

fn reading(cells: &Cells<'_>, level: &str) -> String {
    let at = match level {
        "" => "Runs without a level.".to_owned(),
        level if size(level).is_none() => {
            format!("At {}, which every daemon ran.", level_name(level))
        }
        level => format!(
            "At {}, the highest level that every daemon ran.",
            level_name(level)
        ),
    };
    match cells.at(level) {
        at_level if at_level.len() < 2 => at,
        at_level if enough(&at_level) && !throughput::messages(cells) => {
            format!("{at} {READING} {SLOPE}")
        }
        at_level if enough(&at_level) => format!("{at} {READING}"),
        _ => format!("{at} {FEW}"),
    }
}

/// Whether chance is kept in check: a single run apart from another says nothing.
fn enough(cells: &[Cell<'_>]) -> bool {
    cells.iter().all(|cell| cell.runs.len() >= RUNS)
}

/// The highest level at which every daemon has runs, one that is no number only where no number will do; daemons that
/// have runs nowhere don't count.
fn common_level<'a>(cells: &Cells<'a>) -> Option<&'a str> {
    let measured = cells.measured().count();
    let levels = cells.levels.iter().rev();
    let (sized, others): (Vec<&str>, Vec<&str>) = levels
        .filter(|level| cells.at(level).len() == measured)
        .partition(|level| size(level).is_some());
    sized.into_iter().chain(others).next()
}

/// The figures that are compared.
pub(super) fn compared<'a>(cells: &Cells<'a>) -> Vec<(Figure<'a>, Best)> {
    let headline = cells.headline().map(|series| {
        let name = figures::series_name(series);
        figures::p99(series).titled(&format!("{name} p99, ms"))
    });
    let flows = throughput::flows(cells);
    let mut compared = vec![(figures::success(), Best::MostServed)];
    compared.extend(
        flows
            .iter()
            .map(|name| (throughput::rate(name), Best::Highest)),
    );
    compared.extend(headline.map(|figure| (figure, Best::Lowest)));
    let memory = if throughput::messages(cells) {
        figures::rss_peak()
    } else {
        figures::kib_per_connection()
    };
    compared.extend([
        (memory, Best::Lowest),
        (figures::cpu_per_operation(), Best::Lowest),
    ]);
    compared
}

fn table(cells: &Cells<'_>, level: &str) -> Grid {
    let at = cells.at(level);
    let compared = compared(cells);
    let (shown, kinds): (Vec<Figure<'_>>, Vec<Best>) = compared.into_iter().unzip();
    let mut grid = Grid::of_cells("At a glance", cells, &at, &shown);
    for (column, (figure, kind)) in shown.iter().zip(kinds).enumerate() {
        for place in best(&at, figure, kind) {
            grid.rows[place].texts[column + 2].best = true;
        }
    }
    if !throughput::messages(cells) {
        memory::add_slope_column(&mut grid, &memory::slopes(cells));
    }
    grid.runs = None;
    // All rows are of one level, which the sentence above names.
    grid.head.remove(LEVEL);
    for row in &mut grid.rows {
        row.texts.remove(LEVEL);
    }
    grid
}

/// Which figure of a column is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Best {
    /// Of daemons without a failure.
    Lowest,
    /// Of daemons without a failure.
    Highest,
    /// Of all: it is the share of what did not fail.
    MostServed,
}

/// The rows that no other is told apart from as better.
fn best(cells: &[Cell<'_>], figure: &Figure<'_>, kind: Best) -> Vec<usize> {
    if !enough(cells) {
        return Vec::new();
    }
    let sign = if kind == Best::Lowest { 1.0 } else { -1.0 };
    let compared = |cell: &&Cell<'_>| {
        let mut runs = cell.runs.iter();
        runs.all(|run| {
            let served = run.success_pct().is_some_and(|share| share >= 100.0);
            run.verdict != Verdict::Invalid && (kind == Best::MostServed || served)
        })
    };
    let places = cells.iter().enumerate();
    let figures: Vec<(usize, Spread)> = places
        .filter(|(_, cell)| compared(cell))
        .filter_map(|(place, cell)| Some((place, figure.spread(&cell.runs)?)))
        .collect();
    let first = figures
        .iter()
        .min_by(|(_, one), (_, other)| (one.median * sign).total_cmp(&(other.median * sign)));
    let Some((_, first)) = first else {
        return Vec::new();
    };
    let shared: Vec<usize> = figures
        .iter()
        .filter(|(_, other)| !apart(first, other))
        .map(|(place, _)| *place)
        .collect();
    if shared.len() == figures.len() {
        Vec::new()
    } else {
        shared
    }
}

/// Whether the runs don't overlap and the medians are far enough from each other.
fn apart(first: &Spread, other: &Spread) -> bool {
    let overlap = first.min <= other.max && other.min <= first.max;
    let distance = (first.median - other.median).abs();
    !overlap && distance >= DISTANCE * first.median.abs()
}
