//! Audit of all runs: how many runs of each comparison agree, and every failed row.

use super::cells::{Cell, Cells};
use super::document::{Part, Section};
use super::grid::{Grid, Head, Row};
use super::show::Text;
use crate::audit;
use crate::report::audit::FAILS;
use crate::report::page;
use crate::units;

/// A cell with the audit rows of each of its runs.
type Audited<'a> = (Cell<'a>, Vec<Vec<audit::Row>>);

pub(super) fn section(cells: &Cells<'_>) -> Option<Section> {
    let all = cells.all().into_iter().map(|cell| {
        let rows = cell
            .runs
            .iter()
            .map(|run| audit::comparisons(run))
            .collect();
        (cell, rows)
    });
    let all: Vec<Audited<'_>> = all.collect();
    let note = "Consistency checks between figures of a run, in the runs that have both figures.";
    let grids = [summary(&all)?].into_iter().chain(failing(cells, &all));
    let parts = [Part::Note(note.to_owned())].into_iter();
    Some(Section::new(
        "audit",
        "Audit",
        parts.chain(grids.map(Part::Grid)).collect(),
    ))
}

/// Builds a row for each comparison, with the number of runs and of failures.
fn summary(all: &[Audited<'_>]) -> Option<Grid> {
    let mut sums: Vec<(&str, usize, usize)> = Vec::new();
    for row in all.iter().flat_map(|(_, runs)| runs).flatten() {
        let place = sums.iter().position(|(what, ..)| *what == row.what);
        let place = place.unwrap_or_else(|| {
            sums.push((&row.what, 0, 0));
            sums.len() - 1
        });
        sums[place].1 += 1;
        sums[place].2 += usize::from(!row.consistent);
    }
    let row = |(what, of, bad): &(&str, usize, usize)| {
        let of = units::count(*of as u64);
        let verdict = match bad {
            0 => "adds up".to_owned(),
            bad => format!("{FAILS} in {}", units::count(*bad as u64)),
        };
        Row {
            daemon: None,
            texts: [page::plain(what), of, verdict].map(Text::plain).into(),
            starts_group: false,
        }
    };
    let head = [Head::text("compared"), Head::figure("runs"), Head::text("")].into();
    let rows = sums.iter().map(row).collect();
    (!sums.is_empty()).then(|| Grid::of_rows("Consistency checks", head, rows))
}

/// Lists every failed row with its run.
fn failing(cells: &Cells<'_>, all: &[Audited<'_>]) -> Option<Grid> {
    let mut rows = Vec::new();
    for (cell, runs) in all {
        for (place, run) in runs.iter().enumerate() {
            for row in run.iter().filter(|row| !row.consistent) {
                let texts = [
                    cells.run_name(cell, place),
                    page::plain(&row.what),
                    page::plain(&row.expected),
                    page::plain(&row.found),
                    FAILS.to_owned(),
                ];
                rows.push(Row {
                    daemon: Some(cell.daemon),
                    texts: texts.map(Text::plain).into(),
                    starts_group: false,
                });
            }
        }
    }
    let head = ["run", "compared", "expected", "found", ""].map(Head::text);
    (!rows.is_empty())
        .then(|| Grid::of_rows("Figures that contradict each other", head.into(), rows))
}
