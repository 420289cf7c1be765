//! Audit: every comparison of a single run; of several runs how many agree, and every failed row.

use crate::audit::{self, AuditRow as Compared};
use crate::report::comparison::{Comparison, numbered};
use crate::report::distinct;
use crate::report::document::{Part, Section};
use crate::report::plain;
use crate::report::table::{FAILS, Head, Row, Table};
use crate::units;

const ADDS_UP: &str = "adds up";
const READING: &str =
    "Consistency checks between figures of a run, in the runs that have both figures.";

struct AuditedRun {
    daemon: usize,
    name: String,
    rows: Vec<Compared>,
}

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let groups = comparison.all();
    let audited = numbered(&groups).map(|(repeated, index, run)| AuditedRun {
        daemon: repeated.daemon,
        name: comparison.run_name(repeated, index),
        rows: audit::comparisons(run),
    });
    let runs: Vec<AuditedRun> = audited.collect();
    let mut parts = Vec::new();
    if comparison.only_run().is_some() {
        parts.extend(rows(&runs, |_| true).map(Part::Table));
    } else if let Some(summary) = summary(&runs) {
        parts.extend([Part::Note(READING.to_owned()), Part::Table(summary)]);
        parts.extend(rows(&runs, |row| !row.consistent).map(Part::Table));
    }
    Section::non_empty("audit", "Audit", parts)
}

/// Builds a row for each comparison, with the number of runs and of failures.
fn summary(runs: &[AuditedRun]) -> Option<Table> {
    let all = || runs.iter().flat_map(|run| &run.rows);
    let row = |what: &str| {
        let compared = || all().filter(|row| row.what == what);
        let verdict = match compared().filter(|row| !row.consistent).count() {
            0 => ADDS_UP.to_owned(),
            failed => format!("{FAILS} in {}", units::count(failed as u64)),
        };
        let count = units::count(compared().count() as u64);
        Row::new(None, [plain(what), count, verdict])
    };
    let head = [Head::text("compared"), Head::number("runs"), Head::text("")].into();
    let names = distinct(all().map(|row| row.what.as_str()));
    Table::non_empty(
        "Consistency checks",
        head,
        names.into_iter().map(row).collect(),
    )
}

/// Lists the rows to be shown with their runs and figures.
fn rows(runs: &[AuditedRun], is_shown: fn(&Compared) -> bool) -> Option<Table> {
    let mut rows = Vec::new();
    for run in runs {
        for row in run.rows.iter().filter(|row| is_shown(row)) {
            let cells = [
                run.name.clone(),
                plain(&row.what),
                plain(&row.expected),
                plain(&row.found),
                if row.consistent { ADDS_UP } else { FAILS }.to_owned(),
            ];
            rows.push(Row::new(Some(run.daemon), cells));
        }
    }
    let head = ["run", "compared", "expected", "found", ""].map(Head::text);
    Table::non_empty("Figures that contradict each other", head.into(), rows)
}
