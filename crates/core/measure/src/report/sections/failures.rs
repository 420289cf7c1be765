//! Failed operations of a level by kind, summed over its runs.

use std::collections::BTreeSet;

use crate::report::comparison::{Comparison, Repetitions};
use crate::report::plain;
use crate::report::table::{Head, Row, Table};
use crate::units;

/// Builds a row for each daemon, or `None` if nothing failed.
pub(super) fn table(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Table> {
    let runs = at.iter().flat_map(|repeated| &repeated.runs);
    let kinds: BTreeSet<&String> = runs.flat_map(|run| run.errors.keys()).collect();
    let mut head = vec![Head::text("daemon"), Head::number("started")];
    head.extend(kinds.iter().map(|kind| Head::number(&plain(kind))));
    let row = |repeated: &Repetitions<'_>| {
        let runs = || repeated.runs.iter();
        let started = runs().map(|run| run.operations.started).sum();
        let mut cells = vec![comparison.daemon(repeated.daemon), units::count(started)];
        cells.extend(kinds.iter().map(|kind| {
            let failed = runs().filter_map(|run| run.errors.get(*kind));
            units::count(failed.sum())
        }));
        Row::new(Some(repeated.daemon), cells)
    };
    let rows = at.iter().map(row).collect();
    (!kinds.is_empty()).then(|| Table::new("Failures by kind", head, rows))
}
