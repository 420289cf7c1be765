//! Throughput: rates of answers, messages and connections compared with the first daemon, and the delivery of messages.
//! Only for results with such counters.

use super::cells::{Cell, Cells};
use super::document::{Part, Section};
use super::figures;
use super::grid::{Column, Grid, Head};
use super::show::{self, Text};
use crate::result::RunResult;
use crate::spread::SummaryStats;

/// Counters shown as rates.
const RATES: [&str; 5] = [ANSWERS, "published", "confirmed", "consumed", "churned"];
/// The rate of a driver whose operations are requests over connections that it holds.
const ANSWERS: &str = "answers";
/// Byte counters, and the names of their rates.
const TRANSFERS: [(&str, &str); 2] = [("bytes", "MiB/s read"), ("bytes_sent", "MiB/s sent")];
/// Delivery errors of messages; they are also shown if they are 0.
const DELIVERY_ERRORS: [&str; 3] = ["lost", "duplicated", "out_of_order"];
/// Events that may happen to messages, connections and consumers.
const DELIVERY_EVENTS: [&str; 13] = [
    "redelivered",
    "nacked",
    "returned",
    "unconfirmed",
    "arrived_late",
    "given_back",
    "foreign",
    "cancelled",
    "blocked",
    "blocked_ms",
    "disconnects",
    "reconnects",
    "gap_ms",
];

/// Returns the rates that some run counted.
pub(super) fn rate_names(cells: &Cells<'_>) -> Vec<&'static str> {
    let counted = |name: &&str| cells.suite.results.iter().any(|run| run.count(name) > 0);
    RATES.into_iter().filter(counted).collect()
}

/// Returns true if the operations are messages: they do not hold connections, and memory is that of the backlog.
pub(super) fn has_messages(cells: &Cells<'_>) -> bool {
    rate_names(cells).iter().any(|name| *name != ANSWERS)
}

/// Returns the transfer rates in MiB per second, if a run counts them.
fn transfers(cells: &Cells<'_>) -> Vec<Column<'static>> {
    let counted = |(name, _): &(&str, &str)| {
        let mut runs = cells.suite.results.iter();
        runs.any(|run| run.count(name) > 0)
    };
    let figure = |(name, head): (&'static str, &str)| {
        Column::new(head, show::significant, move |run| {
            Some(per_second(run, name)? / f64::from(1 << 20))
        })
    };
    TRANSFERS.into_iter().filter(counted).map(figure).collect()
}

/// Returns a rate per second.
pub(super) fn rate(name: &'static str) -> Column<'static> {
    Column::new(format!("{name}/s"), show::whole, move |run| {
        per_second(run, name)
    })
}

pub(super) fn per_second(run: &RunResult, name: &str) -> Option<f64> {
    // Imported runs may have no seconds.
    let whole = || (run.seconds.is_empty()).then(|| run.count(name) as f64 / run.wall_s);
    run.per_second(name)
        .filter(|_| !run.seconds.is_empty())
        .or_else(whole)
        .filter(|rate| *rate > 0.0)
}

/// Builds the section, or `None` if no run has such counters.
pub(super) fn section(cells: &Cells<'_>) -> Option<Section> {
    let rate_names = rate_names(cells);
    if rate_names.is_empty() {
        return None;
    }
    let all = cells.all();
    let rates = rate_names.iter().map(|name| rate(name));
    let rates: Vec<Column<'_>> = rates.chain(transfers(cells)).collect();
    let mut grid = Grid::of_cells("Throughput", cells, &all, &rates);
    // From last to first, so that the column indices stay valid.
    for (place, name) in rate_names.iter().enumerate().rev() {
        if *name != "confirmed" && cells.daemons.len() > 1 {
            add_ratio(&mut grid, cells, &all, place + 3, name);
        }
    }
    let mut parts = vec![Part::Note(reading(cells)), Part::Grid(grid)];
    let delivery_table = has_messages(cells)
        .then(|| delivery_table(cells, &all))
        .flatten();
    if let Some(delivery_table) = delivery_table {
        parts.push(Part::Heading("Message delivery".to_owned()));
        parts.push(Part::Grid(delivery_table));
    }
    Some(Section::new("throughput", "Throughput", parts))
}

fn reading(cells: &Cells<'_>) -> String {
    let reading = figures::reading(cells);
    let of = "A rate covers only the measured time, without the warm-up and the drain phase.";
    match cells.daemons.first() {
        Some(first) if cells.daemons.len() > 1 => format!(
            "{reading} {of} \"× first\" is the ratio to {}, between runs with the same number.",
            crate::report::page::plain(first)
        ),
        _ => format!("{reading} {of}"),
    }
}

/// Adds a column with the ratio to the first daemon at the same level, run by run.
fn add_ratio(grid: &mut Grid, cells: &Cells<'_>, all: &[Cell<'_>], place: usize, name: &str) {
    grid.head.insert(place, Head::figure("× first"));
    for (row, cell) in grid.rows.iter_mut().zip(all) {
        let first = cells
            .at(cell.level)
            .into_iter()
            .find(|cell| cell.daemon == 0);
        let text = match first {
            Some(_) if cell.daemon == 0 => Text::plain("1"),
            Some(first) => {
                let pairs = cell.runs.iter().zip(&first.runs);
                let ratio = |(run, first): (&&RunResult, &&RunResult)| {
                    Some(per_second(run, name)? / per_second(first, name)?)
                };
                Text::from_stats(
                    SummaryStats::from_values(pairs.filter_map(ratio)),
                    show::significant,
                )
            }
            None => Text::plain(show::NONE),
        };
        row.texts.insert(place, text);
    }
}

/// Builds the table of delivery errors and events; columns that no run counts are left out.
fn delivery_table(cells: &Cells<'_>, all: &[Cell<'_>]) -> Option<Grid> {
    let results = &cells.suite.results;
    let known = |name: &&str| results.iter().any(|run| run.counts.contains_key(*name));
    let counted = |name: &&str| results.iter().any(|run| run.count(name) > 0);
    let names = DELIVERY_ERRORS
        .into_iter()
        .filter(known)
        .chain(DELIVERY_EVENTS.into_iter().filter(counted));
    let figures: Vec<Column<'_>> = names
        .map(|name| {
            Column::new(name.replace('_', " "), show::whole, move |run| {
                Some(run.count(name) as f64)
            })
        })
        .collect();
    (!figures.is_empty()).then(|| Grid::of_cells("Message delivery", cells, all, &figures))
}
