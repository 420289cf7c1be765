//! Thresholds and faults of one run as tables.

use super::page::{self, Block, Table};
use crate::result::{FaultResult, RunResult, ThresholdResult};

/// Builds a table for each; nothing if the plan had none.
pub(super) fn blocks(result: &RunResult) -> Vec<Block> {
    let tables = [
        ("faults", faults(&result.faults)),
        ("thresholds", thresholds(&result.thresholds)),
    ];
    let filled = tables
        .into_iter()
        .filter(|(_, table)| !table.rows.is_empty());
    filled
        .flat_map(|(heading, table)| [Block::Heading(heading.to_owned()), Block::Table(table)])
        .collect()
}

fn faults(faults: &[FaultResult]) -> Table {
    let row = |fault: &FaultResult| {
        let back = |show: fn(&FaultResult, f64) -> f64| {
            fault.back_s.map_or("never".to_owned(), |back_s| {
                page::seconds(show(fault, back_s))
            })
        };
        vec![
            page::plain(&fault.what),
            page::seconds(fault.at_s),
            back(|_, back_s| back_s),
            back(|fault, back_s| back_s - fault.at_s),
        ]
    };
    table(
        ["fault", "at", "recovered at", "downtime"],
        faults.iter().map(row).collect(),
    )
}

fn thresholds(thresholds: &[ThresholdResult]) -> Table {
    let row = |threshold: &ThresholdResult| {
        let measured = threshold.measured.as_deref().unwrap_or(page::NONE);
        let met = if threshold.met { "met" } else { "MISSED" };
        vec![
            page::plain(&threshold.text),
            measured.to_owned(),
            met.to_owned(),
        ]
    };
    table(
        ["threshold", "measured", ""],
        thresholds.iter().map(row).collect(),
    )
}

fn table<const N: usize>(head: [&str; N], rows: Vec<Vec<String>>) -> Table {
    Table {
        head: head.map(str::to_owned).into(),
        rows,
        ..Table::default()
    }
}
