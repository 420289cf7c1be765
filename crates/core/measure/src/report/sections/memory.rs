//! Memory cost of a connection: the slope of peak memory over the levels, with its error.

use super::kernel_memory;
use crate::connection_memory;
use crate::metrics;
use crate::regression::LinearFit;
use crate::report::cell::Cell;
use crate::report::columns::{self, Column};
use crate::report::comparison::{Comparison, is_counted};
use crate::report::document::{Charts, Part, Section};
use crate::report::roles;
use crate::report::table::{Head, Row, Table};
use crate::result::RunResult;
use crate::units::{self, NONE};

/// Minimum number of levels for a slope.
const LEVELS: usize = 3;

const READING: &str = "1 KiB is 1,024 bytes (kB in /proc). A growth divided by connections would overstate the cost (it includes caches and heap); the regression slope is the marginal cost per connection: least squares through peak memory against peak connections (counted by the daemon, otherwise by the driver) over all runs but the INVALID ones, with the 95 % interval of the slope. A slope below twice the half of its interval is not shown, nor one over fewer than 100 connections or 256 KiB.";

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let mut columns = vec![
        Column::metric("daemon.rss.baseline", "baseline MiB", units::mib),
        Column::metric("daemon.rss.peak", "peak MiB", units::mib),
        Column::metric("daemon.rss.growth", "delta MiB", units::mib),
    ];
    let messages = roles::has_messages(comparison.suite);
    let each = columns::kib_per_connection();
    columns.extend((!messages && each.is_known(&comparison.suite.results)).then_some(each));
    let caption = "Memory of the daemon";
    let table = Table::of_runs(caption, comparison, &comparison.all(), &columns);
    let mut parts = vec![Part::Table(table)];
    parts.extend(kernel_memory::memory(comparison));
    // If the operations are messages, memory is the backlog's.
    if !messages {
        parts.extend([
            Part::Heading("Memory per additional connection".to_owned()),
            Part::Note(READING.to_owned()),
            Part::Table(slope_table(comparison)),
            Part::Charts(Charts::Memory),
        ]);
    }
    vec![Section::new("memory", "Memory (RSS)", parts)]
}

/// Memory of a daemon over its levels.
#[derive(Debug)]
pub(in crate::report) struct Slope {
    /// Peak connections and peak memory in KiB, a point for each run that counts.
    pub(in crate::report) points: Vec<(f64, f64)>,
    /// The same of the INVALID runs, which the line does not go through.
    pub(in crate::report) left_out: Vec<(f64, f64)>,
    /// The line through the points, or the reason why there is none.
    pub(in crate::report) line: Result<LinearFit, String>,
}

pub(in crate::report) fn slopes(comparison: &Comparison<'_>) -> Vec<Slope> {
    (0..comparison.daemons.len())
        .map(|daemon| slope(comparison, daemon))
        .collect()
}

fn slope(comparison: &Comparison<'_>, daemon: usize) -> Slope {
    let point = |run: &RunResult| {
        let bytes = metrics::value("daemon.rss.peak", run)?;
        Some((metrics::value("connections", run)?, bytes / 1024.0))
    };
    let groups = comparison.of_daemon(daemon);
    let all = groups.iter().flat_map(|repeated| &repeated.runs).copied();
    let left_out = all
        .filter(|run| !is_counted(run))
        .filter_map(point)
        .collect();
    let by_level: Vec<Vec<(f64, f64)>> = groups
        .iter()
        .map(|repeated| repeated.counted().into_iter().filter_map(point).collect())
        .filter(|points: &Vec<_>| !points.is_empty())
        .collect();
    let points = by_level.concat();
    let missing = |levels: &str| {
        let reason = format!("no slope: {levels} with memory figures, but {LEVELS} are required");
        Err(reason)
    };
    let line = match by_level.len() {
        0 => missing("no level"),
        1 => missing("1 level"),
        few if few < LEVELS => missing(&format!("{few} levels")),
        _ => match LinearFit::through(&points) {
            None => Err("no slope: all runs held the same number of connections".to_owned()),
            Some(line) if !is_supported(&line, &points) => {
                Err("no slope: too few connections, or too little growth".to_owned())
            }
            Some(line) if line.exceeds_noise() => Ok(line),
            Some(_) => {
                Err("no slope: memory does not grow with connections beyond noise".to_owned())
            }
        },
    };
    Slope {
        points,
        left_out,
        line,
    }
}

/// Returns true if the connections and the growth of memory between the smallest and the largest level support a slope.
fn is_supported(line: &LinearFit, points: &[(f64, f64)]) -> bool {
    let connections = || points.iter().map(|(connections, _)| *connections);
    let (least, most) = (
        connections().fold(f64::INFINITY, f64::min),
        connections().fold(0.0, f64::max),
    );
    let growth_kb = line.slope.abs() * (most - least);
    connection_memory::is_supported(most, growth_kb)
}

fn slope_table(comparison: &Comparison<'_>) -> Table {
    let head = [
        Head::text("daemon"),
        Head::number("runs"),
        Head::number("KiB per connection"),
        Head::number("95 % interval"),
        Head::number("standard error"),
        Head::number("intercept, MiB"),
        Head::text("remark"),
    ];
    let row = |(daemon, slope): (usize, Slope)| {
        let mut cells = vec![comparison.daemon(daemon), slope.points.len().to_string()];
        match slope.line {
            Ok(line) => {
                let half = line.half_interval();
                let [slope, low, high, error, intercept] = [
                    line.slope,
                    line.slope - half,
                    line.slope + half,
                    line.slope_error,
                    line.intercept / 1024.0,
                ]
                .map(units::significant);
                let interval = format!("{low} to {high}");
                cells.extend([slope, interval, error, intercept, String::new()]);
            }
            Err(remark) => {
                cells.extend([NONE; 4].map(str::to_owned));
                cells.push(remark);
            }
        }
        Row::new(Some(daemon), cells)
    };
    let rows = slopes(comparison).into_iter().enumerate().map(row);
    let caption = "Slope of memory over connections";
    Table::new(caption, head.into(), rows.collect())
}

/// Adds the slopes as a column to the figures of one level, behind the column `beside`.
pub(super) fn add_slope_column(table: &mut Table, slopes: &[Slope], beside: &str) {
    let mut heads = table.head.iter();
    let index = heads.position(|head| head.text == beside);
    let index = index.map_or(table.head.len(), |index| index + 1);
    let cell = |row: &Row| {
        let line = slopes[row.daemon?].line.as_ref().ok()?;
        let [slope, half] = [line.slope, line.half_interval()].map(units::significant);
        Some(Cell::plain(format!("{slope} ±{half}")))
    };
    let cells = table
        .rows
        .iter()
        .map(|row| cell(row).unwrap_or(NONE.into()));
    let cells = cells.collect();
    table.insert_column(index, "slope, KiB per connection", cells);
}
