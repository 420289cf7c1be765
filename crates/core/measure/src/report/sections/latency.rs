//! Latency of all runs: the median and the 99th percentile of the main series.

use crate::report::columns::Column;
use crate::report::comparison::Comparison;
use crate::report::document::{Part, Section};
use crate::report::plain;
use crate::report::roles;
use crate::report::table::Table;

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let column = |series| ["p50", "p99"].map(|key| Column::series(comparison, series, key));
    let series = comparison.main_series().into_iter();
    let columns: Vec<Column<'_>> = series.flat_map(column).collect();
    let caption = "Latency in milliseconds";
    let table = Table::of_runs(caption, comparison, &comparison.all(), &columns);
    let mut parts = notes(comparison);
    parts.push(Part::Table(table));
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
