//! Latency: the main series of all runs, and every series of a level with the driver's own lateness.

use crate::imported::SeriesSummary;
use crate::metrics::{self, Statistic};
use crate::report::cell::Cell;
use crate::report::columns::{self, Column};
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::distinct;
use crate::report::document::{Part, Section};
use crate::report::plain;
use crate::report::roles::{self, LAG};
use crate::report::table::{Head, Row, Table};
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::units::{self, Unit};

/// Name of the rows with the driver's own times, by its calibration.
const OWN: &str = "driver and machine alone";
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
            let summaries = summaries(&repeated.shown(), series);
            if summaries.is_empty() {
                continue;
            }
            let mut cells = vec![
                columns::row_name(comparison, repeated),
                Cell::plain(label.as_str()),
            ];
            cells.extend(statistics(&summaries, is_single));
            rows.push(Row {
                starts_group,
                ..Row::new(Some(repeated.daemon), cells)
            });
            starts_group = false;
        }
        let floors = floors(at, series);
        if !floors.is_empty() {
            let name = if is_single {
                format!("{label}: {OWN}")
            } else {
                label
            };
            let mut cells = [OWN.to_owned(), name].map(Cell::plain).to_vec();
            cells.extend(statistics(&floors, is_single));
            rows.push(Row::new(None, cells));
        }
    }
    let mut head = Vec::from(["daemon", "series"].map(Head::text));
    head.extend(SHOWN.map(Head::number));
    Table::new("Latency distributions in milliseconds", head, rows)
}

/// Returns the figures of a series in the runs that have it.
fn summaries(runs: &[&RunResult], series: &str) -> Vec<SeriesSummary> {
    let summary = |run: &&RunResult| match series {
        LAG => run.lag.as_ref().map(SeriesSummary::from),
        series => run.summary(series),
    };
    runs.iter().filter_map(summary).collect()
}

/// Returns the figures of a series in the calibrations of runs that measured it, each once.
fn floors(at: &[Repetitions<'_>], series: &str) -> Vec<SeriesSummary> {
    let runs = at.iter().flat_map(Repetitions::shown);
    let runs = runs.filter(|run| run.series(series).is_some());
    let floors = runs.filter_map(|run| run.calibration.as_ref()?.floor(series));
    distinct(floors).into_iter().cloned().collect()
}

/// Returns a cell for each statistic.
fn statistics(found: &[SeriesSummary], own_units: bool) -> Vec<Cell> {
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
    shown.map(cell).collect()
}
