//! Overview of several results, before each one is shown on its own.

use super::cost;
use super::page::{self, Block, Table};
use crate::result::RunResult;
use crate::units;

/// Builds two tables: outcome and resource use of each run, and the p99 of each series. Empty for a single result.
pub(super) fn blocks(results: &[RunResult]) -> Vec<Block> {
    if results.len() < 2 {
        return Vec::new();
    }
    let mut blocks = vec![
        Block::Title(format!("{} results", results.len())),
        Block::Table(outcomes(results)),
    ];
    let p99 = p99(results);
    if p99.head.len() > 1 {
        blocks.extend([
            Block::Heading("p99 by series".to_owned()),
            Block::Table(p99),
        ]);
    }
    blocks
}

fn outcomes(results: &[RunResult]) -> Table {
    let head = [
        "daemon",
        "verdict",
        "started",
        "success",
        "peak active",
        "daemon RSS peak",
        "daemon CPU per op",
    ];
    let row = |result: &RunResult| {
        let daemon = result.usage.daemon.as_ref();
        vec![
            page::plain(&result.daemon.name),
            result.verdict.to_string(),
            units::count(result.operations.started),
            page::success(result),
            result
                .if_known(result.operations.peak_active)
                .map_or(page::NONE.to_owned(), units::count),
            daemon.map_or(page::NONE.to_owned(), |usage| {
                units::bytes(cost::kib(usage.rss_peak_kb))
            }),
            daemon.map_or(page::NONE.to_owned(), |usage| {
                cost::cpu_per_finished(usage, result)
            }),
        ]
    };
    Table {
        head: head.map(str::to_owned).into(),
        rows: results.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Builds a table with one column per series of any result.
fn p99(results: &[RunResult]) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for name in results.iter().flat_map(RunResult::series_names) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let cell = |result: &RunResult, name: &str| {
        let p99 = result.summary(name).and_then(|series| series.p99_ns);
        p99.map_or(page::NONE.to_owned(), units::duration)
    };
    let row = |result: &RunResult| {
        [page::plain(&result.daemon.name)]
            .into_iter()
            .chain(names.iter().map(|name| cell(result, name)))
            .collect()
    };
    let head = ["daemon".to_owned()]
        .into_iter()
        .chain(names.iter().map(|name| page::plain(name)))
        .collect();
    Table {
        head,
        rows: results.iter().map(row).collect(),
        ..Table::default()
    }
}
