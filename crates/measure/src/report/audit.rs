//! The audit of one run as a table.

use super::page::{self, Block, Table};
use crate::audit::{self, Row};
use crate::result::RunResult;

/// Marks a row whose figures contradict each other. All formats recognize such a row by this text.
pub(super) const FAILS: &str = "DOES NOT ADD UP";

/// Returns true if a table row is marked as failed.
pub(super) fn fails(cells: &[String]) -> bool {
    cells.last().is_some_and(|cell| cell.starts_with(FAILS))
}

/// Builds a table of all comparisons, or nothing if there are none.
pub(super) fn blocks(result: &RunResult) -> Vec<Block> {
    let rows: Vec<_> = audit::comparisons(result).iter().map(row).collect();
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
    let verdict = if row.consistent { "adds up" } else { FAILS };
    [&row.what, &row.expected, &row.found]
        .map(|cell| page::plain(cell))
        .into_iter()
        .chain([verdict.to_owned()])
        .collect()
}
