//! Connections, latency and CPU of all cells. Memory has its own file.

use super::cells::Cells;
use super::document::{Part, Section};
use super::figures;
use super::grid::{Column, Grid};
use super::machine;
use super::throughput;
use crate::result::RunResult;

pub(super) fn sections(cells: &Cells<'_>) -> [Section; 3] {
    [connections(cells), latency(cells), cpu(cells)]
}

fn connections(cells: &Cells<'_>) -> Section {
    let any = |of: fn(&RunResult) -> bool| cells.suite.results.iter().any(of);
    let mut figures = vec![
        figures::started(),
        figures::completed(),
        figures::failed(),
        figures::success(),
        figures::driver_peak(),
    ];
    // With messages, an operation does not hold a connection.
    let messages = throughput::has_messages(cells);
    let held = any(|run| run.count("opened") > 0);
    if held {
        figures.extend(figures::held());
    } else if !messages {
        figures.push(figures::daemon_peak());
    }
    figures.push(figures::backlog());
    if any(|run| run.operations.unfinished > 0) {
        figures.push(figures::unfinished());
    }
    if any(|run| run.operations.missed > 0) {
        figures.push(figures::missed());
    }
    if any(|run| run.daemon.instances > 1) {
        figures.push(figures::instances());
    }
    let (title, peak) = if held {
        (
            "Requests and connections",
            "The peak is the most requests open at once. Held: the most connections open at the end of a second, as the driver counted them. Lost: connections that ended while they were held.",
        )
    } else if messages {
        (
            "Operations",
            "The peak is the most operations open at once.",
        )
    } else {
        (
            "Connection statistics",
            "The peak is the most connections open at once, as counted by the driver and by the daemon.",
        )
    };
    let grid = Grid::of_cells(title, cells, &cells.all(), &figures);
    let note = format!("{} {peak}", figures::reading(cells));
    let mut parts = vec![Part::Note(note), Part::Grid(grid)];
    parts.extend(machine::tcp(cells));
    Section::new("connections", title, parts)
}

fn latency(cells: &Cells<'_>) -> Section {
    let series = cells.main_series();
    let figures: Vec<Column<'_>> = series
        .iter()
        .flat_map(|series| [figures::p50(series), figures::p99(series)])
        .collect();
    let mut parts = Vec::new();
    if series.contains(&"first_byte") {
        parts.push(Part::Note(
            "TTFB is the series first_byte: from the end of the handoff to the first byte of the answer."
                .to_owned(),
        ));
    }
    if series.contains(&"response") {
        parts.push(Part::Note(
            "The response time is measured from the instant a request was due, so it includes every delay by the driver and by earlier requests; the service time is measured from sending."
                .to_owned(),
        ));
    }
    parts.push(Part::Grid(Grid::of_cells(
        "Latency in milliseconds",
        cells,
        &cells.all(),
        &figures,
    )));
    Section::new("latency", "Latency (milliseconds)", parts)
}

fn cpu(cells: &Cells<'_>) -> Section {
    let figures = [
        figures::cpu_average(),
        figures::cpu_peak(),
        figures::threads(),
        figures::cpu_per_operation(),
        figures::driver_cpu_average(),
        figures::driver_cpu_per_operation(),
        figures::finished_per_driver_cpu_second(),
    ];
    let grid = Grid::of_cells("CPU use", cells, &cells.all(), &figures);
    let note = "Percent of one core. CPU time is user plus system; finished operations are all that ended, successful or not.".to_owned();
    Section::new("cpu", "CPU usage", vec![Part::Note(note), Part::Grid(grid)])
}
