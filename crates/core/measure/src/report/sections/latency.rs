//! Latency: the main series of all runs, and every series of a level with the driver's own lateness.

use crate::imported::SeriesSummary;
use crate::metrics::{self, Statistic};
use crate::report::cell::Cell;
use crate::report::columns::{self, Column};
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::document::{Part, Section};
use crate::report::plain;
use crate::report::roles::{self, LAG};
use crate::report::table::{Head, Row, Table};
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::units::{self, Unit};

/// The statistics shown.
const SHOWN: [&str; 8] = ["count", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"];

/// Builds the section of all runs: the median and the 99th percentile of the main series.
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

/// Builds a row for each series and daemon. The times of a single run have their own units.
pub(super) fn distributions(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Table {
    let is_single = comparison.only_run().is_some();
    let mut rows = Vec::new();
    for (index, series) in comparison.series().into_iter().chain([LAG]).enumerate() {
        // Thresholds of the run use the driver's own names.
        let label = if is_single {
            plain(series)
        } else {
            comparison.series_label(series)
        };
        let mut starts_group = index > 0 && !is_single;
        for repeated in at {
            let Some(statistics) = statistics(&repeated.shown(), series, is_single) else {
                continue;
            };
            let mut cells = vec![
                columns::row_name(comparison, repeated),
                Cell::plain(label.as_str()),
            ];
            cells.extend(statistics);
            rows.push(Row {
                starts_group,
                ..Row::new(Some(repeated.daemon), cells)
            });
            starts_group = false;
        }
    }
    let mut head = Vec::from(["daemon", "series"].map(Head::text));
    head.extend(SHOWN.map(Head::number));
    Table::new("Latency distributions in milliseconds", head, rows)
}

/// Returns the statistics of a series, or `None` if no run has it.
fn statistics(runs: &[&RunResult], series: &str, own_units: bool) -> Option<Vec<Cell>> {
    let found: Vec<SeriesSummary> = runs
        .iter()
        .filter_map(|run| match series {
            LAG => run.lag.as_ref().map(SeriesSummary::from),
            series => run.summary(series),
        })
        .collect();
    let cell = |statistic: &Statistic| {
        let known = found.iter().filter_map(statistic.read);
        let show = match statistic.unit {
            Unit::Count => units::whole,
            _ if own_units => |ns| Unit::Nanoseconds.short(ns),
            _ => units::ms,
        };
        Cell::from_stats(SummaryStats::from_values(known), show)
    };
    let shown = SHOWN.into_iter().filter_map(metrics::statistic_by_key);
    (!found.is_empty()).then(|| shown.map(cell).collect())
}
