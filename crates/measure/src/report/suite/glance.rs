//! The few figures that a hurried reader takes along: each daemon at the highest level that all of them ran.

use super::cells::{Cell, Cells, level_name};
use super::document::{Part, Pictures, Section};
use super::figures;
use super::grid::{Figure, Grid};
use super::memory;
use crate::spread::Spread;
use crate::warning::Verdict;

/// The column of the level in a table of cells.
const LEVEL: usize = 1;

const READING: &str = "A figure is best where its runs are apart from those of every daemon behind it; figures whose runs overlap share the mark, and where all overlap nobody has it. An INVALID run takes part in no comparison.";

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
        level => format!(
            "At {}, the highest level that every daemon ran.",
            level_name(level)
        ),
    };
    if cells.measured().count() > 1 {
        format!("{at} {READING}")
    } else {
        at
    }
}

/// The highest level at which every daemon has runs; daemons that have none anywhere don't count.
fn common_level<'a>(cells: &Cells<'a>) -> Option<&'a str> {
    let measured = cells.measured().count();
    let mut levels = cells.levels.iter().rev();
    levels
        .find(|level| cells.at(level).len() == measured)
        .copied()
}

fn table(cells: &Cells<'_>, level: &str) -> Grid {
    let at = cells.at(level);
    let slopes = memory::slopes(cells);
    let headline = cells.headline().map(|series| {
        let name = figures::series_name(series);
        figures::p99(series).titled(&format!("{name} p99, ms"))
    });
    let mut compared: Vec<(Figure<'_>, bool)> = vec![(figures::success(), true)];
    compared.extend(headline.map(|figure| (figure, false)));
    compared.extend([
        (figures::kib_per_connection(), false),
        (figures::cpu_per_operation(), false),
    ]);
    let (shown, higher): (Vec<Figure<'_>>, Vec<bool>) = compared.into_iter().unzip();
    let mut grid = Grid::of_cells("At a glance", cells, &at, &shown);
    for (column, (figure, higher)) in shown.iter().zip(higher).enumerate() {
        for place in best(&at, figure, higher) {
            grid.rows[place].texts[column + 2].best = true;
        }
    }
    memory::add_slope_column(&mut grid, &slopes);
    grid.runs = None;
    // All rows are of one level, which the sentence above names.
    grid.head.remove(LEVEL);
    for row in &mut grid.rows {
        row.texts.remove(LEVEL);
    }
    grid
}

/// The rows that no other is told apart from as better.
fn best(cells: &[Cell<'_>], figure: &Figure<'_>, higher: bool) -> Vec<usize> {
    let sign = if higher { -1.0 } else { 1.0 };
    let spread = |cell: &Cell<'_>| {
        let believed = cell.runs.iter().all(|run| run.verdict != Verdict::Invalid);
        figure.spread(&cell.runs).filter(|_| believed)
    };
    let figures: Vec<(usize, Spread)> = cells
        .iter()
        .enumerate()
        .filter_map(|(place, cell)| Some((place, spread(cell)?)))
        .collect();
    let ends = |spread: &Spread| {
        let ends = [spread.min * sign, spread.max * sign];
        (ends[0].min(ends[1]), ends[0].max(ends[1]))
    };
    let first = figures
        .iter()
        .min_by(|(_, one), (_, other)| (one.median * sign).total_cmp(&(other.median * sign)));
    let Some(worst_of_first) = first.map(|(_, spread)| ends(spread).1) else {
        return Vec::new();
    };
    let shared: Vec<usize> = figures
        .iter()
        .filter(|(_, spread)| ends(spread).0 <= worst_of_first)
        .map(|(place, _)| *place)
        .collect();
    if shared.len() == figures.len() {
        Vec::new()
    } else {
        shared
    }
}
