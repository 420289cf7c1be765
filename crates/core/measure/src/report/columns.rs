//! Columns of figures, and tables with a row for each daemon at each level.

use super::cell::{Cell, Show};
use super::comparison::{Comparison, Repetitions, numbered};
use super::plain;
use super::roles;
use super::table::{Head, Row, Table};
use crate::change::ChangeScale;
use crate::metrics::{self, Better, FAILURES};
use crate::result::RunResult;
use crate::spec::CounterSpec;
use crate::summary::SummaryStats;
use crate::units;

/// Key of the share of successful operations.
const SUCCESS: &str = "success";
/// Index of the column with the level in a table of runs.
pub(super) const LEVEL: usize = 1;

/// A column of figures: its head, source and format.
pub(super) struct Column<'a> {
    /// Key of the metric: the catalogue's, `SERIES.STATISTIC` or `COUNTER.rate`.
    pub(super) key: Option<String>,
    pub(super) head: String,
    read: Box<Read<'a>>,
    pub(super) show: Show,
    pub(super) better: Better,
    /// The scale on which it is compared.
    pub(super) scale: ChangeScale,
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
            scale: ChangeScale::Ratio,
        }
    }

    /// Creates the column of a metric of the catalogue, with the unit in its head.
    pub(super) fn metric(key: &str, head: &str, show: Show) -> Self {
        let metric = metrics::by_key(key);
        Self {
            key: Some(metric.key.to_owned()),
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
        let column = Self::new(head, units::ms, Better::Lower, move |run| {
            read(&run.summary(series)?)
        });
        Self {
            key: Some(format!("{series}.{statistic}")),
            ..column
        }
    }

    /// Creates the column of a counter's rate per second.
    pub(super) fn rate(counter: &'a CounterSpec) -> Self {
        let head = format!("{}/s", plain(&counter.label));
        let column = Self::new(head, units::whole, Better::Higher, move |run| {
            metrics::rate(run, &counter.name)
        });
        Self {
            key: Some(format!("{}.rate", counter.name)),
            ..column
        }
    }

    pub(super) fn titled(self, head: &str) -> Self {
        Self {
            head: head.to_owned(),
            ..self
        }
    }

    pub(super) fn value(&self, run: &RunResult) -> Option<f64> {
        (self.read)(run)
    }

    /// Returns true for the rate of a counter.
    pub(super) fn is_rate(&self) -> bool {
        let key = self.key.as_deref().unwrap_or_default();
        key.ends_with(".rate") && key != FAILURES
    }

    pub(super) fn is_known(&self, runs: &[RunResult]) -> bool {
        runs.iter().any(|run| self.value(run).is_some())
    }

    /// Returns true if a run has the figure and it is above 0.
    pub(super) fn is_counted(&self, runs: &[RunResult]) -> bool {
        let mut values = runs.iter().filter_map(|run| self.value(run));
        values.any(|value| value > 0.0)
    }

    pub(super) fn stats(&self, runs: &[&RunResult]) -> Option<SummaryStats> {
        let values = runs.iter().filter_map(|run| self.value(run));
        SummaryStats::on(self.scale, values)
    }

    pub(super) fn cell(&self, runs: &[&RunResult]) -> Cell {
        Cell::from_stats(self.stats(runs), self.show)
    }

    pub(super) fn head(&self) -> Head {
        Head::number(&self.head)
    }
}

pub(super) fn kib_per_connection() -> Column<'static> {
    Column::metric("daemon.rss.each", "KiB per connection", units::kib)
}

/// Returns the column of the memory that is compared.
pub(super) fn memory(comparison: &Comparison<'_>) -> Column<'static> {
    if roles::has_connection_memory(comparison) {
        kib_per_connection()
    } else {
        Column::metric("daemon.rss.peak", "peak MiB", units::mib)
    }
}

pub(super) fn success() -> Column<'static> {
    Column::metric(SUCCESS, "success %", units::share)
}

/// Returns the column of the failures that are compared.
pub(super) fn failed() -> Column<'static> {
    let column = Column::new("failed %", units::significant, Better::Lower, |run| {
        run.failed_pct()
    });
    Column {
        key: Some(FAILURES.to_owned()),
        scale: ChangeScale::Difference,
        ..column
    }
}

pub(super) fn cpu_per_operation() -> Column<'static> {
    Column::metric("daemon.cpu.each", "CPU µs per finished", units::us)
}

impl Table {
    /// Builds a table of figures with a row for each of `groups`, and the same run by run if one has several runs.
    pub(super) fn of_runs(
        caption: &str,
        comparison: &Comparison<'_>,
        groups: &[Repetitions<'_>],
        columns: &[Column<'_>],
    ) -> Self {
        let mut head = vec![Head::text("daemon"), Head::number("level")];
        head.extend(columns.iter().map(Column::head));
        let row = |repeated: &Repetitions<'_>, number: Option<usize>, runs: &[&RunResult]| {
            let name = match number {
                Some(_) => Cell::row_name(comparison.daemons[repeated.daemon], runs),
                None => row_name(comparison, repeated),
            };
            let mut cells = vec![name, Cell::plain(repeated.level_name())];
            cells.extend(number.map(|number| Cell::plain(number.to_string())));
            cells.extend(columns.iter().map(|column| column.cell(runs)));
            Row::new(Some(repeated.daemon), cells)
        };
        let means = groups
            .iter()
            .map(|repeated| row(repeated, None, &repeated.shown()));
        let mut table = Self::new(caption, head.clone(), group_by_level(means.collect()));
        if groups.iter().any(|repeated| repeated.runs.len() > 1) {
            head.insert(2, Head::number("run"));
            let runs = numbered(groups);
            let rows = runs.map(|(repeated, index, run)| row(repeated, Some(index + 1), &[run]));
            let rows = group_by_level(rows.collect());
            table.runs = Some(Box::new(Self::new(
                &format!("{caption}, every run"),
                head,
                rows,
            )));
        }
        table
    }
}

/// Names the row of some repetitions, with their number if INVALID ones are left out: `go-streaming (2 of 3 runs)`.
pub(super) fn row_name(comparison: &Comparison<'_>, repeated: &Repetitions<'_>) -> Cell {
    let shown = repeated.shown();
    let name = Cell::row_name(comparison.daemons[repeated.daemon], &shown);
    match repeated.left_out() {
        0 => name,
        _ => Cell {
            value: format!(
                "{} ({} of {} runs)",
                name.value,
                shown.len(),
                repeated.runs.len()
            ),
            ..name
        },
    }
}

/// Begins a group of rows where the level changes.
fn group_by_level(mut rows: Vec<Row>) -> Vec<Row> {
    for index in 1..rows.len() {
        rows[index].starts_group = rows[index].cells[LEVEL] != rows[index - 1].cells[LEVEL];
    }
    rows
}

/// Explains how to read figures of several runs.
pub(super) fn reading(comparison: &Comparison<'_>) -> String {
    let groups = comparison.all();
    let most = groups.iter().map(|repeated| repeated.shown().len()).max();
    let reading = match most.unwrap_or(0) {
        0 | 1 => "One run per cell: no estimate of run-to-run variation.".to_owned(),
        several => {
            let interval = if several >= 5 {
                "; from five runs on also [95 % t interval of the mean]"
            } else {
                ""
            };
            format!("Geometric mean of the runs (lowest–highest){interval}.")
        }
    };
    if groups.iter().any(|repeated| repeated.left_out() > 0) {
        format!("{reading} INVALID runs are left out where there are others.")
    } else {
        reading
    }
}
