//! Memory cost of a connection: the slope of peak memory over the levels, with its error.

use super::cells::Cells;
use super::document::{Part, Pictures, Section};
use super::figures;
use super::grid::{Column, Grid, Head, Row};
use super::machine;
use super::show::{self, Text};
use super::throughput;
use crate::report::page;
use crate::slope::LinearFit;

/// Minimum number of levels for a slope.
const LEVELS: usize = 3;

const READING: &str = "1 KiB is 1,024 bytes (kB in /proc). Dividing RSS growth by connections overstates the cost (it includes caches and heap); the regression slope is the marginal cost per connection: least squares through peak memory against peak connections (counted by the daemon, otherwise by the driver) over all runs, with the 95 % interval of the slope. INVALID runs are included, since lateness of the driver does not change the memory of a stream.";

pub(super) fn section(cells: &Cells<'_>) -> Section {
    let mut figures = vec![
        figures::rss_baseline(),
        figures::rss_peak(),
        figures::rss_delta(),
    ];
    let messages = throughput::has_messages(cells);
    if !messages {
        figures.push(figures::kib_per_connection());
    }
    let grid = Grid::of_cells("Memory of the daemon", cells, &cells.all(), &figures);
    let mut parts = vec![Part::Grid(grid)];
    parts.extend(machine::memory(cells));
    // If the operations are messages, memory is that of the backlog.
    if !messages {
        parts.extend([
            Part::Heading("Memory per additional connection".to_owned()),
            Part::Note(READING.to_owned()),
            Part::Grid(slope_table(cells)),
            Part::Pictures(Pictures::Memory),
        ]);
    }
    Section::new("memory", "Memory (RSS)", parts)
}

/// Memory of a daemon over its levels.
#[derive(Debug)]
pub(super) struct Slope {
    /// Peak connections and peak memory in KiB, a point for each run.
    pub(super) points: Vec<(f64, f64)>,
    /// The line through the points, or the reason why there is none.
    pub(super) line: Result<LinearFit, String>,
}

/// Fits a slope for each daemon.
pub(super) fn slopes(cells: &Cells<'_>) -> Vec<Slope> {
    (0..cells.daemons.len())
        .map(|daemon| slope(cells, daemon))
        .collect()
}

fn slope(cells: &Cells<'_>, daemon: usize) -> Slope {
    let point = |run: &&_| Some((figures::connections(run)?, figures::peak_kb(run)?));
    let by_level: Vec<Vec<(f64, f64)>> = cells
        .of_daemon(daemon)
        .iter()
        .map(|cell| cell.runs.iter().filter_map(point).collect())
        .filter(|points: &Vec<_>| !points.is_empty())
        .collect();
    let points = by_level.concat();
    let line = if by_level.len() < LEVELS {
        let levels = match by_level.len() {
            0 => "no level".to_owned(),
            1 => "1 level".to_owned(),
            several => format!("{several} levels"),
        };
        Err(format!(
            "no slope: {levels} with memory figures, but {LEVELS} are required"
        ))
    } else {
        LinearFit::through(&points)
            .ok_or_else(|| "no slope: all runs held the same number of connections".to_owned())
    };
    Slope { points, line }
}

fn slope_table(cells: &Cells<'_>) -> Grid {
    let head = [
        Head::text("daemon"),
        Head::figure("runs"),
        Head::figure("KiB per connection"),
        Head::figure("95 % interval"),
        Head::figure("standard error"),
        Head::figure("intercept, MiB"),
        Head::text("remark"),
    ];
    let row = |(daemon, slope): (usize, Slope)| {
        let figures = slope
            .line
            .as_ref()
            .map_or([show::NONE; 4].map(str::to_owned), figures_of);
        let texts = [
            page::plain(cells.daemons[daemon]),
            slope.points.len().to_string(),
        ]
        .into_iter()
        .chain(figures)
        .chain([slope.line.err().unwrap_or_default()]);
        Row {
            daemon: Some(daemon),
            texts: texts.map(Text::plain).collect(),
            starts_group: false,
        }
    };
    let rows = slopes(cells).into_iter().enumerate().map(row).collect();
    Grid::of_rows("Slope of memory over connections", head.into(), rows)
}

fn figures_of(line: &LinearFit) -> [String; 4] {
    let half = line.half_interval();
    [
        show::significant(line.slope),
        format!(
            "{} to {}",
            show::significant(line.slope - half),
            show::significant(line.slope + half)
        ),
        show::significant(line.slope_error),
        show::significant(line.intercept / 1024.0),
    ]
}

/// Adds the slopes as a column to the figures of one level.
pub(super) fn add_slope_column(grid: &mut Grid, slopes: &[Slope]) {
    let place = grid
        .head
        .iter()
        .position(|head| head.text == Column::head(&figures::kib_per_connection()).text)
        .map_or(grid.head.len(), |place| place + 1);
    grid.head
        .insert(place, Head::figure("slope, KiB per connection"));
    for row in &mut grid.rows {
        let slope = row
            .daemon
            .and_then(|daemon| slopes[daemon].line.as_ref().ok());
        let text = slope.map_or(show::NONE.to_owned(), |line| {
            format!(
                "{} ±{}",
                show::significant(line.slope),
                show::significant(line.half_interval())
            )
        });
        row.texts.insert(place, Text::plain(text));
    }
}
