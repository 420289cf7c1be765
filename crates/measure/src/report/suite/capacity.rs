//! How much a daemon holds under the thresholds: a bracket of two levels, not a point.

use super::cells::{Cell, Cells, level_name, size};
use super::document::{Part, Section};
use super::grid::{Grid, Head, Row};
use super::show::{NONE, Text};
use crate::report::page;

/// A row for each daemon with thresholds at several levels; nothing where there is none.
pub(super) fn of(cells: &Cells<'_>) -> Option<Section> {
    let head = ["daemon", "held at", "not held at", "why not", "remark"];
    let rows: Vec<Row> = (0..cells.daemons.len())
        .filter_map(|daemon| row(cells, daemon))
        .collect();
    let note = "The highest level that every run held, and the lowest that one did not: the capacity lies between. A run holds its level if it met every threshold, nothing is unfinished or was never begun, and it is not INVALID.";
    (!rows.is_empty()).then(|| {
        let grid = Grid::of_rows("Capacity", head.map(Head::words).into(), rows);
        Section::new(
            "capacity",
            "Capacity",
            vec![Part::Note(note.to_owned()), Part::Grid(grid)],
        )
    })
}

fn row(cells: &Cells<'_>, daemon: usize) -> Option<Row> {
    let with_thresholds = |cell: &Cell<'_>| cell.runs.iter().any(|run| !run.thresholds.is_empty());
    let judged: Vec<Cell<'_>> = cells
        .of_daemon(daemon)
        .into_iter()
        .filter(|cell| size(cell.level).is_some() && with_thresholds(cell))
        .collect();
    if judged.len() < 2 {
        return None;
    }
    let held = |cell: &Cell<'_>| cell.runs.iter().all(|run| run.held());
    let highest_held = judged.iter().rposition(held);
    let lowest_not = judged.iter().position(|cell| !held(cell));
    let name =
        |place: Option<usize>| place.map_or(NONE.to_owned(), |place| judged[place].level_name());
    let remark = match (highest_held, lowest_not) {
        (Some(held), Some(not)) if held > not => {
            "a higher level was held where a lower one was not: repeat both".to_owned()
        }
        (None, _) => "lower levels are needed".to_owned(),
        (Some(held), None) => above(cells, daemon, judged[held].level),
        _ => String::new(),
    };
    let texts = [
        page::plain(cells.daemons[daemon]),
        name(highest_held),
        name(lowest_not),
        lowest_not.map_or(String::new(), |place| why_not(&judged[place])),
        remark,
    ];
    Some(Row {
        daemon: Some(daemon),
        texts: texts.map(Text::plain).into(),
        opens: false,
    })
}

/// What is known of the levels above the highest that was run: the lowest that was not reached, and what stopped it.
fn above(cells: &Cells<'_>, daemon: usize, highest: &str) -> String {
    let higher = cells.suite.unreached.iter().filter_map(|missing| {
        let level = size(&missing.level).filter(|level| Some(*level) > size(highest))?;
        (missing.daemon == cells.daemons[daemon]).then_some((level, missing))
    });
    let lowest = higher.min_by(|(one, _), (other, _)| one.total_cmp(other));
    lowest.map_or("no higher level was run".to_owned(), |(_, missing)| {
        let reason = missing.reason.lines().next().unwrap_or_default();
        let level = level_name(&missing.level);
        page::plain(&format!("{level} was not reached: {reason}"))
    })
}

/// What was not held, run by run; what several runs say in the same words stands once.
fn why_not(cell: &Cell<'_>) -> String {
    let mut why: Vec<String> = Vec::new();
    for reason in cell.runs.iter().flat_map(|run| run.shortfalls()) {
        if !why.contains(&reason) {
            why.push(reason);
        }
    }
    page::plain(&why.join("; "))
}
