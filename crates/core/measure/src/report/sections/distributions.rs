//! Latency distributions of a level: every series, and the driver's own lateness.

use crate::imported::SeriesSummary;
use crate::metrics::{self, Statistic};
use crate::report::cell::Cell;
use crate::report::columns;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::plain;
use crate::report::roles::LAG;
use crate::report::table::{Head, Row, Table};
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::units::{self, Unit};

/// The statistics shown.
const SHOWN: [&str; 8] = ["count", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"];

/// Builds a row for each series and daemon. The times of a single run have their own units.
pub(super) fn table(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Table {
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
