//! Latency distributions of a level: every series, and the driver's own lateness.

use crate::imported::SeriesSummary;
use crate::metrics::{self, Statistic};
use crate::report::cell::Cell;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::roles::LAG;
use crate::report::table::{Head, Row, Table};
use crate::report::text::plain;
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::units::{self, Unit};

/// The statistics shown.
const SHOWN: [&str; 8] = ["count", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"];

/// Builds a row for each series and daemon, and the same for each run if a daemon has several. The times of a single run
/// have their own units.
pub(super) fn table(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Table {
    let mut all = rows(comparison, at, |repeated| {
        vec![(None, repeated.runs.clone())]
    });
    if at.iter().any(|repeated| repeated.runs.len() > 1) {
        let each_run = rows(comparison, at, |repeated| {
            let runs = (1..).zip(&repeated.runs);
            runs.map(|(number, run)| (Some(number), vec![*run]))
                .collect()
        });
        all.runs = Some(Box::new(each_run));
    }
    all
}

/// Runs that share a row, with the number of a single run.
type Sharing<'a> = Vec<(Option<usize>, Vec<&'a RunResult>)>;

fn rows<'a>(
    comparison: &Comparison<'_>,
    at: &[Repetitions<'a>],
    sharing: impl Fn(&Repetitions<'a>) -> Sharing<'a>,
) -> Table {
    let is_single = comparison.only_run().is_some();
    let numbered = at.iter().flat_map(&sharing).any(|(run, _)| run.is_some());
    let mut rows = Vec::new();
    for (index, series) in comparison.series().into_iter().chain([LAG]).enumerate() {
        let mut starts_group = index > 0 && !is_single;
        for repeated in at {
            for (run, runs) in sharing(repeated) {
                let Some(figures) = figures(&runs, series, is_single) else {
                    continue;
                };
                // Thresholds of the run use the driver's own names.
                let label = match is_single {
                    true => plain(series),
                    false => comparison.series_label(series),
                };
                let name = Cell::row_name(comparison.daemons[repeated.daemon], &runs);
                let number = run.map(|run| Cell::plain(run.to_string()));
                let named = [name, Cell::plain(label)].into_iter().chain(number);
                rows.push(Row {
                    daemon: Some(repeated.daemon),
                    cells: named.chain(figures).collect(),
                    starts_group,
                });
                starts_group = false;
            }
        }
    }
    let run = numbered.then(|| Head::figure("run"));
    let head = ["daemon", "series"].map(Head::text).into_iter().chain(run);
    let caption = "Latency distributions in milliseconds";
    Table::new(caption, head.chain(SHOWN.map(Head::figure)).collect(), rows)
}

/// Returns the statistics of a series, or `None` if no run has it.
fn figures(runs: &[&RunResult], series: &str, own_units: bool) -> Option<Vec<Cell>> {
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
