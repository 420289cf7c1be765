//! Capacity of each daemon under the thresholds, as a bracket of two levels rather than a point.

use super::cells::{Cell, Cells, level_name, size};
use super::document::{Part, Section};
use super::grid::{Grid, Head, Row};
use super::show::{NONE, Text};
use crate::held::Judgement;
use crate::report::page;
use crate::warning::Warning;

/// Builds a row for each daemon with thresholds at several levels, or `None` if there is none.
pub(super) fn section(cells: &Cells<'_>) -> Option<Section> {
    let head = ["daemon", "sustained", "not sustained", "reason", "remark"];
    let rows: Vec<Row> = (0..cells.daemons.len())
        .filter_map(|daemon| row(cells, daemon))
        .collect();
    let note = "The highest level that every run sustained, and the lowest that a run did not sustain; the capacity lies between them. A run sustains its level if it meets every threshold and has no unfinished or missed operations. An INVALID run is inconclusive, since the driver or the machine was the limit, unless its daemon exited.";
    (!rows.is_empty()).then(|| {
        let grid = Grid::of_rows("Capacity", head.map(Head::text).into(), rows);
        Section::new(
            "capacity",
            "Capacity",
            vec![Part::Note(note.to_owned()), Part::Grid(grid)],
        )
    })
}

fn row(cells: &Cells<'_>, daemon: usize) -> Option<Row> {
    let with_thresholds = |cell: &Cell<'_>| cell.runs.iter().any(|run| !run.thresholds.is_empty());
    let asked: Vec<Cell<'_>> = cells
        .of_daemon(daemon)
        .into_iter()
        .filter(|cell| size(cell.level).is_some() && with_thresholds(cell))
        .collect();
    if asked.len() < 2 {
        return None;
    }
    let highest_held = asked.iter().rposition(|cell| held(cell) == Some(true));
    let lowest_not = asked.iter().position(|cell| held(cell) == Some(false));
    let name =
        |place: Option<usize>| place.map_or(NONE.to_owned(), |place| asked[place].level_name());
    let remark = match (highest_held, lowest_not) {
        (Some(held), Some(not)) if held > not => Some(
            "a higher level was sustained although a lower one was not: repeat both".to_owned(),
        ),
        (None, Some(_)) => Some("no level was sustained: add lower levels".to_owned()),
        (Some(held), None) if held + 1 == asked.len() => {
            Some(above(cells, daemon, asked[held].level))
        }
        _ => None,
    };
    let remarks: Vec<String> = remark
        .into_iter()
        .chain(asked.iter().filter_map(not_judged))
        .collect();
    let texts = [
        page::plain(cells.daemons[daemon]),
        name(highest_held),
        name(lowest_not),
        lowest_not.map_or(String::new(), |place| why_not(&asked[place])),
        remarks.join("; "),
    ];
    Some(Row {
        daemon: Some(daemon),
        texts: texts.map(Text::plain).into(),
        starts_group: false,
    })
}

/// Returns true if every conclusive run sustained the level, or `None` if no run was conclusive.
fn held(cell: &Cell<'_>) -> Option<bool> {
    let runs = cell.runs.iter();
    let judged = runs.filter_map(|run| match run.judgement() {
        Judgement::Held => Some(true),
        Judgement::NotHeld(_) => Some(false),
        Judgement::NotJudged(_) => None,
    });
    judged.reduce(|all, held| all && held)
}

/// Describes the inconclusive runs, with the hint of the first.
fn not_judged(cell: &Cell<'_>) -> Option<String> {
    let runs = cell.runs.iter();
    let spoiled: Vec<&Warning> = runs
        .filter_map(|run| match run.judgement() {
            Judgement::NotJudged(warning) => Some(warning),
            _ => None,
        })
        .collect();
    let first = spoiled.first()?;
    let which = match cell.runs.len() - spoiled.len() {
        0 => format!("{} is inconclusive", cell.level_name()),
        _ => format!(
            "at {}, {} of {} runs inconclusive",
            cell.level_name(),
            spoiled.len(),
            cell.runs.len()
        ),
    };
    let (message, hint) = (page::plain(&first.message), page::plain(&first.hint));
    Some(format!("{which}: {message} → {hint}"))
}

/// Describes the levels above the highest one that was run: the lowest that was not reached, and the reason.
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

/// Lists the reasons of all runs, each wording once.
fn why_not(cell: &Cell<'_>) -> String {
    let mut why: Vec<String> = Vec::new();
    for run in &cell.runs {
        if let Judgement::NotHeld(reasons) = run.judgement() {
            let new = reasons.into_iter().filter(|reason| !why.contains(reason));
            let new: Vec<String> = new.collect();
            why.extend(new);
        }
    }
    page::plain(&why.join("; "))
}
