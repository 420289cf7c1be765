//! The audit of one run, as a table.

use super::page::{self, Block, Table};
use crate::audit::{self, Row};
use crate::result::RunResult;

/// Stands at the end of a row whose figures contradict each other. All formats know such a row by it.
pub(super) const FAILS: &str = "DOES NOT ADD UP";

/// Whether a row of a table says that figures contradict each other.
pub(super) fn fails(cells: &[String]) -> bool {
    cells.last().is_some_and(|cell| cell.starts_with(FAILS))
}

/// A table with every comparison; nothing where there is nothing to compare.
pub(super) fn of(result: &RunResult) -> Vec<Block> {
    let rows: Vec<_> = audit::of(result).iter().map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let table = Table {
        head: ["compared", "expected", "found", ""]
            .map(str::to_owned)
            .into(),
        rows,
        ..Table::default()
    };
    vec![Block::Heading("audit".to_owned()), Block::Table(table)]
}

fn row(row: &Row) -> Vec<String> {
    let verdict = if row.adds_up { "adds up" } else { FAILS };
    [&row.what, &row.expected, &row.found]
        .map(|cell| page::plain(cell))
        .into_iter()
        .chain([verdict.to_owned()])
        .collect()
}
