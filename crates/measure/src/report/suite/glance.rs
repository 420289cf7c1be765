//! Overview: the key figures of each daemon at the highest level that all of them ran.

use super::cells::{Cell, Cells, level_name, size};
use super::document::{Part, Pictures, Section};
use super::figures;
use super::grid::{Column, Grid};
use super::memory;
use super::throughput;
use crate::spread::SummaryStats;
use crate::warning::Verdict;

/// Column index of the level in a table of cells.
const LEVEL: usize = 1;

/// Minimum number of runs per daemon before any figure is called best.
const MIN_RUNS: usize = 3;
/// Minimum distance of two medians, as a share of the better one.
const MIN_DISTANCE: f64 = 0.03;

const READING: &str = "A figure is marked as best if its runs do not overlap with those of any worse daemon and the medians differ by at least 3 %. Closer figures share the mark; if all are close, none has it. Daemons with an INVALID run are not compared, and daemons with failures are compared by success only.";
const SLOPE: &str = "The slope covers all levels and is not compared.";
const FEW: &str = "No figure is marked as best, because that requires 3 runs of each daemon.";

pub(super) fn section(cells: &Cells<'_>) -> Section {
    let mut parts = match common_level(cells) {
        Some(level) => vec![
            Part::Note(reading(cells, level)),
            Part::Grid(table(cells, level)),
        ],
        None => vec![Part::Note(
            "No level was run by every daemon, so there is no overview.".to_owned(),
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
        at_level if enough(&at_level) && !throughput::has_messages(cells) => {
            format!("{at} {READING} {SLOPE}")
        }
        at_level if enough(&at_level) => format!("{at} {READING}"),
        _ => format!("{at} {FEW}"),
    }
}

/// Returns true if there are enough runs to rule out chance differences of single runs.
fn enough(cells: &[Cell<'_>]) -> bool {
    cells.iter().all(|cell| cell.runs.len() >= MIN_RUNS)
}

/// Returns the highest level at which every daemon has runs; daemons without any runs do not count. A level that is not
/// a number is used only if there is no numeric one.
fn common_level<'a>(cells: &Cells<'a>) -> Option<&'a str> {
    let measured = cells.measured().count();
    let levels = cells.levels.iter().rev();
    let (sized, others): (Vec<&str>, Vec<&str>) = levels
        .filter(|level| cells.at(level).len() == measured)
        .partition(|level| size(level).is_some());
    sized.into_iter().chain(others).next()
}

/// Returns the figures to compare.
pub(super) fn compared<'a>(cells: &Cells<'a>) -> Vec<(Column<'a>, Best)> {
    let headline = cells.headline().map(|series| {
        let name = figures::series_name(series);
        figures::p99(series).titled(&format!("{name} p99, ms"))
    });
    let rates = throughput::rate_names(cells);
    let mut compared = vec![(figures::success(), Best::MostServed)];
    compared.extend(
        rates
            .iter()
            .map(|name| (throughput::rate(name), Best::Highest)),
    );
    compared.extend(headline.map(|figure| (figure, Best::Lowest)));
    let memory = if throughput::has_messages(cells) {
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
    let (shown, kinds): (Vec<Column<'_>>, Vec<Best>) = compared.into_iter().unzip();
    let mut grid = Grid::of_cells("At a glance", cells, &at, &shown);
    for (column, (figure, kind)) in shown.iter().zip(kinds).enumerate() {
        for place in best(&at, figure, kind) {
            grid.rows[place].texts[column + 2].best = true;
        }
    }
    if !throughput::has_messages(cells) {
        memory::add_slope_column(&mut grid, &memory::slopes(cells));
    }
    grid.runs = None;
    // All rows belong to one level, which the note above the table names.
    grid.head.remove(LEVEL);
    for row in &mut grid.rows {
        row.texts.remove(LEVEL);
    }
    grid
}

/// The criterion for the best figure of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Best {
    /// The lowest figure of daemons without a failure.
    Lowest,
    /// The highest figure of daemons without a failure.
    Highest,
    /// The highest figure of all daemons, for the share of successful operations.
    MostServed,
}

/// Returns the rows that cannot be distinguished from the best one.
fn best(cells: &[Cell<'_>], figure: &Column<'_>, kind: Best) -> Vec<usize> {
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
    let figures: Vec<(usize, SummaryStats)> = places
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
        .filter(|(_, other)| !are_distinct(first, other))
        .map(|(place, _)| *place)
        .collect();
    if shared.len() == figures.len() {
        Vec::new()
    } else {
        shared
    }
}

/// Returns true if the runs do not overlap and the medians are far enough from each other.
fn are_distinct(first: &SummaryStats, other: &SummaryStats) -> bool {
    let overlap = first.min <= other.max && other.min <= first.max;
    let distance = (first.median - other.median).abs();
    !overlap && distance >= MIN_DISTANCE * first.median.abs()
}
