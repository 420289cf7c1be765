//! Columns of figures, and tables with a row for each daemon at each level.

use super::cell::Cell;
use super::comparison::{Comparison, Repetitions};
use super::table::{Head, Row, Table};
use super::text::plain;
use crate::metrics::{self, Better};
use crate::result::RunResult;
use crate::spec::CounterSpec;
use crate::summary::SummaryStats;
use crate::units;

/// Key of the share of successful operations.
const SUCCESS: &str = "success";

/// Formats a number.
type Show = fn(f64) -> String;

/// A column of figures: its head, source and format.
pub(super) struct Column<'a> {
    /// Key of the metric, if the catalogue has it.
    key: Option<&'static str>,
    head: String,
    read: Box<Read<'a>>,
    show: Show,
    pub(super) better: Better,
}

/// Reads a figure from a run.
type Read<'a> = dyn Fn(&RunResult) -> Option<f64> + 'a;

impl std::fmt::Debug for Column<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Column").field(&self.head).finish()
    }
}

impl<'a> Column<'a> {
    pub(super) fn new(
        head: impl Into<String>,
        show: Show,
        better: Better,
        read: impl Fn(&RunResult) -> Option<f64> + 'a,
    ) -> Self {
        Self {
            key: None,
            head: head.into(),
            read: Box::new(read),
            show,
            better,
        }
    }

    /// Creates the column of a metric of the catalogue, with the unit in its head.
    pub(super) fn metric(key: &str, head: &str, show: Show) -> Self {
        let metric = metrics::by_key(key);
        Self {
            key: Some(metric.key),
            ..Self::new(head, show, metric.better, metric.read)
        }
    }

    /// Creates the column of a metric that is a number, under its label.
    pub(super) fn count(key: &str) -> Self {
        Self::metric(key, metrics::by_key(key).label, units::whole)
    }

    /// Creates the column of a statistic of a series, in milliseconds.
    pub(super) fn series(comparison: &Comparison<'_>, series: &'a str, statistic: &str) -> Self {
        let read = metrics::statistic_by_key(statistic)
            .expect("a key of the catalogue")
            .read;
        let head = format!("{} {statistic}", comparison.series_label(series));
        Self::new(head, units::ms, Better::Lower, move |run| {
            read(&run.summary(series)?)
        })
    }

    /// Creates the column of a counter's rate per second.
    pub(super) fn rate(counter: &'a CounterSpec) -> Self {
        let head = format!("{}/s", plain(&counter.label));
        Self::new(head, units::whole, Better::Higher, move |run| {
            metrics::rate(run, &counter.name)
        })
    }

    /// Replaces the head.
    pub(super) fn titled(self, head: &str) -> Self {
        Self {
            head: head.to_owned(),
            ..self
        }
    }

    /// Returns the figure of one run.
    pub(super) fn value(&self, run: &RunResult) -> Option<f64> {
        (self.read)(run)
    }

    /// Returns true for the share of successful operations, by which daemons with failures are compared too.
    pub(super) fn is_success(&self) -> bool {
        self.key == Some(SUCCESS)
    }

    /// Returns true if a run has the figure and it is above 0.
    pub(super) fn is_counted(&self, runs: &[RunResult]) -> bool {
        let mut values = runs.iter().filter_map(|run| self.value(run));
        values.any(|value| value > 0.0)
    }

    pub(super) fn stats(&self, runs: &[&RunResult]) -> Option<SummaryStats> {
        SummaryStats::from_values(runs.iter().filter_map(|run| self.value(run)))
    }

    pub(super) fn cell(&self, runs: &[&RunResult]) -> Cell {
        Cell::from_stats(self.stats(runs), self.show)
    }

    pub(super) fn head(&self) -> Head {
        Head::figure(&self.head)
    }
}

/// Returns the column of the daemon's memory per connection.
pub(super) fn kib_per_connection() -> Column<'static> {
    Column::metric("daemon.rss.each", "KiB per connection", units::kib)
}

/// Returns the column of the share of successful operations.
pub(super) fn success() -> Column<'static> {
    Column::metric(SUCCESS, "success %", units::share)
}

/// Returns the column of the daemon's CPU time per finished operation.
pub(super) fn cpu_per_operation() -> Column<'static> {
    Column::metric("daemon.cpu.each", "CPU µs per finished", units::us)
}

impl Table {
    /// Builds a table of figures with a row for each of `rows`, and the same run by run if one has several runs.
    pub(super) fn of_runs(
        caption: &str,
        comparison: &Comparison<'_>,
        rows: &[Repetitions<'_>],
        columns: &[Column<'_>],
    ) -> Self {
        let head = [Head::text("daemon"), Head::figure("level")].into_iter();
        let head: Vec<Head> = head.chain(columns.iter().map(Column::head)).collect();
        let row = |repeated: &Repetitions<'_>, number: Option<usize>, runs: &[&RunResult]| {
            let number = number.map(|number| Cell::plain(number.to_string()));
            let named = [
                Cell::row_name(comparison.daemons[repeated.daemon], runs),
                Cell::plain(repeated.level_name()),
            ];
            let figures = columns.iter().map(|column| column.cell(runs));
            named.into_iter().chain(number).chain(figures).collect()
        };
        let each_run = rows
            .iter()
            .any(|repeated| repeated.runs.len() > 1)
            .then(|| {
                let mut head = head.clone();
                head.insert(2, Head::figure("run"));
                let rows = with_groups(rows, |repeated| {
                    let each = repeated.runs.iter().enumerate();
                    each.map(|(place, run)| row(repeated, Some(place + 1), &[run]))
                        .collect()
                });
                Box::new(Self::new(&format!("{caption}, every run"), head, rows))
            });
        let rows = with_groups(rows, |repeated| vec![row(repeated, None, &repeated.runs)]);
        Self {
            runs: each_run,
            ..Self::new(caption, head, rows)
        }
    }
}

/// Builds the rows of each group. A group of rows begins where the level changes.
fn with_groups(
    of: &[Repetitions<'_>],
    rows: impl Fn(&Repetitions<'_>) -> Vec<Vec<Cell>>,
) -> Vec<Row> {
    let mut all = Vec::new();
    let mut level = None;
    for repeated in of {
        for cells in rows(repeated) {
            all.push(Row {
                starts_group: level.is_some_and(|level| level != repeated.level),
                ..Row::new(Some(repeated.daemon), cells)
            });
            level = Some(repeated.level);
        }
    }
    all
}

/// Explains how to read figures of several runs.
pub(super) fn reading(comparison: &Comparison<'_>) -> String {
    let groups = comparison.all();
    let most = groups.iter().map(|repeated| repeated.runs.len()).max();
    match most.unwrap_or(0) {
        0 | 1 => "One run per cell: no estimate of run-to-run variation.".to_owned(),
        several => {
            let interval = if several >= 5 {
                "; from five runs on also [95 % t interval of their mean, not of the median]"
            } else {
                ""
            };
            format!("Median of the runs (lowest–highest){interval}.")
        }
    }
}
