//! Audit: every comparison of a single run; of several runs how many agree, and every failed row.

use crate::audit::{self, Row as Compared};
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::document::{Part, Section};
use crate::report::table::{FAILS, Head, Row, Table};
use crate::report::text::plain;
use crate::units;

const ADDS_UP: &str = "adds up";
const READING: &str =
    "Consistency checks between figures of a run, in the runs that have both figures.";

/// The runs of a daemon at a level with the audit rows of each.
type Audited<'a> = (Repetitions<'a>, Vec<Vec<Compared>>);

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let all = comparison.all().into_iter().map(|repeated| {
        let runs = repeated.runs.iter();
        let rows = runs.map(|run| audit::comparisons(run)).collect();
        (repeated, rows)
    });
    let all: Vec<Audited<'_>> = all.collect();
    let parts = match comparison.only_run() {
        Some(_) => rows(comparison, &all, |_| true).map(|table| vec![Part::Table(table)]),
        None => of_several(comparison, &all),
    };
    let section = |parts| Section::new("audit", "Audit", parts);
    parts.map(section).into_iter().collect()
}

fn of_several(comparison: &Comparison<'_>, all: &[Audited<'_>]) -> Option<Vec<Part>> {
    let failing = rows(comparison, all, |row| !row.consistent);
    let tables = [summary(all)?].into_iter().chain(failing);
    let note = Part::Note(READING.to_owned());
    Some([note].into_iter().chain(tables.map(Part::Table)).collect())
}

/// Builds a row for each comparison, with the number of runs and of failures.
fn summary(all: &[Audited<'_>]) -> Option<Table> {
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
        let verdict = match bad {
            0 => ADDS_UP.to_owned(),
            bad => format!("{FAILS} in {}", units::count(*bad as u64)),
        };
        Row::new(None, [plain(what), units::count(*of as u64), verdict])
    };
    let head = [Head::text("compared"), Head::figure("runs"), Head::text("")].into();
    let rows = sums.iter().map(row).collect();
    (!sums.is_empty()).then(|| Table::new("Consistency checks", head, rows))
}

/// Lists the rows to be shown with their runs and figures.
fn rows(
    comparison: &Comparison<'_>,
    all: &[Audited<'_>],
    is_shown: impl Fn(&Compared) -> bool,
) -> Option<Table> {
    let mut rows = Vec::new();
    for (repeated, runs) in all {
        for (place, run) in runs.iter().enumerate() {
            for row in run.iter().filter(|row| is_shown(row)) {
                let cells = [
                    comparison.run_name(repeated, place),
                    plain(&row.what),
                    plain(&row.expected),
                    plain(&row.found),
                    if row.consistent { ADDS_UP } else { FAILS }.to_owned(),
                ];
                rows.push(Row::new(Some(repeated.daemon), cells));
            }
        }
    }
    let head = ["run", "compared", "expected", "found", ""].map(Head::text);
    (!rows.is_empty()).then(|| Table::new("Figures that contradict each other", head.into(), rows))
}
