//! Failed operations of a level by kind, summed over its runs.

use std::collections::BTreeSet;

use crate::report::comparison::{Comparison, Repetitions};
use crate::report::table::{Head, Row, Table};
use crate::report::text::plain;
use crate::result::RunResult;
use crate::units;

/// Builds a row for each daemon, or `None` if nothing failed.
pub(super) fn table(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Table> {
    let runs = at.iter().flat_map(|repeated| &repeated.runs);
    let kinds: BTreeSet<&String> = runs.flat_map(|run| run.errors.keys()).collect();
    let head = [Head::text("daemon"), Head::figure("started")]
        .into_iter()
        .chain(kinds.iter().map(|kind| Head::figure(&plain(kind))));
    let row = |repeated: &Repetitions<'_>| {
        let sum = |of: &dyn Fn(&RunResult) -> u64| repeated.runs.iter().map(|run| of(run)).sum();
        let errors = kinds
            .iter()
            .map(|kind| sum(&|run| run.errors.get(*kind).copied().unwrap_or(0)));
        let figures = [sum(&|run| run.operations.started)]
            .into_iter()
            .chain(errors);
        let name = plain(comparison.daemons[repeated.daemon]);
        let cells = [name].into_iter().chain(figures.map(units::count));
        Row::new(Some(repeated.daemon), cells)
    };
    let rows = at.iter().map(row).collect();
    (!kinds.is_empty()).then(|| Table::new("Failures by kind", head.collect(), rows))
}
