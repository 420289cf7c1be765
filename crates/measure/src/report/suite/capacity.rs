//! How much a daemon holds under the thresholds: a bracket of two levels, not a point.

use super::cells::{Cell, Cells};
use super::document::{Part, Section};
use super::grid::{Grid, Head, Row};
use super::show::{NONE, Text};
use crate::report::page;

/// A row for each daemon with thresholds at several levels; nothing where there is none.
pub(super) fn of(cells: &Cells<'_>) -> Option<Section> {
    let head = [
        "daemon",
        "met at",
        "not met at",
        "thresholds that were not met",
        "remark",
    ];
    let rows: Vec<Row> = (0..cells.daemons.len())
        .filter_map(|daemon| row(cells, daemon))
        .collect();
    let note = "The highest level at which every run met every threshold, and the lowest at which one did not: the capacity lies between.";
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
        .filter(with_thresholds)
        .collect();
    if judged.len() < 2 {
        return None;
    }
    let highest_met = judged.iter().rposition(|cell| failed(cell).is_empty());
    let lowest_not = judged.iter().position(|cell| !failed(cell).is_empty());
    let name =
        |place: Option<usize>| place.map_or(NONE.to_owned(), |place| judged[place].level_name());
    let remark = match (highest_met, lowest_not) {
        (Some(met), Some(not)) if met > not => {
            "a higher level met what a lower one did not: repeat both"
        }
        (None, _) => "lower levels are needed",
        (_, None) => "higher levels are needed",
        _ => "",
    };
    let texts = [
        page::plain(cells.daemons[daemon]),
        name(highest_met),
        name(lowest_not),
        lowest_not.map_or(String::new(), |place| failed(&judged[place]).join("; ")),
        remark.to_owned(),
    ];
    Some(Row {
        daemon: Some(daemon),
        texts: texts.map(Text::plain).into(),
        opens: false,
    })
}

/// What was not met, with what was measured, run by run.
fn failed(cell: &Cell<'_>) -> Vec<String> {
    let thresholds = cell.runs.iter().flat_map(|run| &run.thresholds);
    thresholds
        .filter(|threshold| !threshold.met)
        .map(|threshold| {
            let measured = threshold.measured.as_deref().unwrap_or("not measured");
            page::plain(&format!("{} ({measured})", threshold.text))
        })
        .collect()
}
