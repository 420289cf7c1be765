//! What a connection costs in memory: the slope of the peak over the levels, with its error.

use super::cells::Cells;
use super::document::{Part, Pictures, Section};
use super::figures;
use super::grid::{Figure, Grid, Head, Row};
use super::machine;
use super::show::{self, Text};
use super::throughput;
use crate::report::page;
use crate::slope::Line;

/// Levels that a slope needs.
const LEVELS: usize = 3;

const READING: &str = "1 KiB is 1,024 bytes, what /proc calls kB. One subtraction charges a connection with all that grew since the start, caches and heaps included; the slope is what one more connection adds: the line of least squares through peak memory against peak connections (as the daemon counted them, else the driver) over all runs, with the 95 % interval of its slope. INVALID runs are kept here: lateness of the driver does not change how much memory a stream takes.";

pub(super) fn of(cells: &Cells<'_>) -> Section {
    let mut figures = vec![
        figures::rss_baseline(),
        figures::rss_peak(),
        figures::rss_delta(),
    ];
    let messages = throughput::messages(cells);
    if !messages {
        figures.push(figures::kib_per_connection());
    }
    let grid = Grid::of_cells("Memory of the daemon", cells, &cells.all(), &figures);
    let mut parts = vec![Part::Grid(grid)];
    parts.extend(machine::memory(cells));
    // Where messages are what is open, memory is that of the backlog.
    if !messages {
        parts.extend([
            Part::Heading("Memory of one more connection".to_owned()),
            Part::Note(READING.to_owned()),
            Part::Grid(slope_table(cells)),
            Part::Pictures(Pictures::Memory),
        ]);
    }
    Section::new("memory", "Memory (RSS)", parts)
}

/// What is known of the memory of a daemon over its levels.
#[derive(Debug)]
pub(super) struct Slope {
    /// Peak connections and peak memory in KiB, a point for each run.
    pub(super) points: Vec<(f64, f64)>,
    /// The line through them, or why there is none.
    pub(super) line: Result<Line, String>,
}

/// One for each daemon.
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
            "no slope: {levels} with memory figures, {LEVELS} are needed"
        ))
    } else {
        Line::through(&points)
            .ok_or_else(|| "no slope: all runs held as many connections".to_owned())
    };
    Slope { points, line }
}

fn slope_table(cells: &Cells<'_>) -> Grid {
    let head = [
        Head::words("daemon"),
        Head::figure("runs"),
        Head::figure("KiB per connection"),
        Head::figure("95 % interval"),
        Head::figure("standard error"),
        Head::figure("at no connection, MiB"),
        Head::words("remark"),
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
            opens: false,
        }
    };
    let rows = slopes(cells).into_iter().enumerate().map(row).collect();
    Grid::of_rows("Slope of memory over connections", head.into(), rows)
}

fn figures_of(line: &Line) -> [String; 4] {
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

/// Puts the slopes beside the figures of one level.
pub(super) fn add_slope_column(grid: &mut Grid, slopes: &[Slope]) {
    let place = grid
        .head
        .iter()
        .position(|head| head.text == Figure::head(&figures::kib_per_connection()).text)
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
