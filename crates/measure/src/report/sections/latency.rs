//! Latency of all runs: the median and the 99th percentile of the main series.

use crate::report::columns::Column;
use crate::report::comparison::Comparison;
use crate::report::document::{Part, Section};
use crate::report::roles;
use crate::report::table::Table;
use crate::report::text::plain;

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    if comparison.suite.results.is_empty() {
        return Vec::new();
    }
    let series = comparison.main_series();
    let columns: Vec<Column<'_>> = series
        .iter()
        .flat_map(|series| {
            ["p50", "p99"].map(|statistic| Column::series(comparison, series, statistic))
        })
        .collect();
    let notes = notes(comparison).into_iter();
    let table = Table::of_runs(
        "Latency in milliseconds",
        comparison,
        &comparison.all(),
        &columns,
    );
    let parts = notes.chain([Part::Table(table)]).collect();
    vec![Section::new("latency", "Latency (milliseconds)", parts)]
}

/// Explains the main series that readers may know by another name or meaning.
pub(super) fn notes(comparison: &Comparison<'_>) -> Vec<Part> {
    let series = comparison.main_series().into_iter();
    series
        .filter_map(|series| roles::note(comparison.suite, series))
        .map(|note| Part::Note(plain(note)))
        .collect()
}
