//! What went through: rates of what was answered, published, consumed, opened and closed, beside the first daemon; and what
//! became of every message. For results that count such things.

use super::cells::{Cell, Cells};
use super::document::{Part, Section};
use super::figures;
use super::grid::{Figure, Grid, Head};
use super::show::{self, Text};
use crate::result::RunResult;
use crate::spread::Spread;

/// What flows, as drivers count it.
const FLOWS: [&str; 5] = [ANSWERS, "published", "confirmed", "consumed", "churned"];
/// The flow of a driver whose operations are requests over connections that it holds.
const ANSWERS: &str = "answers";
/// Bytes that flow, and what their rate is called.
const TRANSFERS: [(&str, &str); 2] = [("bytes", "MiB/s read"), ("bytes_sent", "MiB/s sent")];
/// What must not happen to messages; 0 is a finding too.
const FAITH: [&str; 3] = ["lost", "duplicated", "out_of_order"];
/// What may happen to them, to connections and to consumers.
const FATE: [&str; 13] = [
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

/// The flows that some run counted.
pub(super) fn flows(cells: &Cells<'_>) -> Vec<&'static str> {
    let counted = |name: &&str| cells.suite.results.iter().any(|run| run.count(name) > 0);
    FLOWS.into_iter().filter(counted).collect()
}

/// Whether messages flow: what is open is then none that holds a connection, and memory is that of a backlog.
pub(super) fn messages(cells: &Cells<'_>) -> bool {
    flows(cells).iter().any(|name| *name != ANSWERS)
}

/// What came and went, in MiB a second, where some run counts it.
fn transfers(cells: &Cells<'_>) -> Vec<Figure<'static>> {
    let counted = |(name, _): &(&str, &str)| {
        let mut runs = cells.suite.results.iter();
        runs.any(|run| run.count(name) > 0)
    };
    let figure = |(name, head): (&'static str, &str)| {
        Figure::new(head, show::significant, move |run| {
            Some(per_second(run, name)? / f64::from(1 << 20))
        })
    };
    TRANSFERS.into_iter().filter(counted).map(figure).collect()
}

/// So many a second.
pub(super) fn rate(name: &'static str) -> Figure<'static> {
    Figure::new(format!("{name}/s"), show::whole, move |run| {
        per_second(run, name)
    })
}

pub(super) fn per_second(run: &RunResult, name: &str) -> Option<f64> {
    // What came from elsewhere may have no seconds.
    let whole = || (run.seconds.is_empty()).then(|| run.count(name) as f64 / run.wall_s);
    run.per_second(name)
        .filter(|_| !run.seconds.is_empty())
        .or_else(whole)
        .filter(|rate| *rate > 0.0)
}

/// Nothing where no run counts what flows.
pub(super) fn of(cells: &Cells<'_>) -> Option<Section> {
    let flows = flows(cells);
    if flows.is_empty() {
        return None;
    }
    let all = cells.all();
    let rates = flows.iter().map(|name| rate(name));
    let rates: Vec<Figure<'_>> = rates.chain(transfers(cells)).collect();
    let mut grid = Grid::of_cells("Throughput", cells, &all, &rates);
    // From the last to the first, so that places stay what they were.
    for (place, name) in flows.iter().enumerate().rev() {
        if *name != "confirmed" && cells.daemons.len() > 1 {
            add_ratio(&mut grid, cells, &all, place + 3, name);
        }
    }
    let mut parts = vec![Part::Note(reading(cells)), Part::Grid(grid)];
    let account = messages(cells).then(|| account(cells, &all)).flatten();
    if let Some(account) = account {
        parts.push(Part::Heading("What became of the messages".to_owned()));
        parts.push(Part::Grid(account));
    }
    Some(Section::new("throughput", "Throughput", parts))
}

fn reading(cells: &Cells<'_>) -> String {
    let reading = figures::reading(cells);
    let of = "A rate is of what came in the measured time, divided by it: what came in the warm-up or while the run drained is no part of it.";
    match cells.daemons.first() {
        Some(first) if cells.daemons.len() > 1 => format!(
            "{reading} {of} In × first stands the ratio to {}, of runs with the same number.",
            crate::report::page::plain(first)
        ),
        _ => format!("{reading} {of}"),
    }
}

/// A column with the ratio to the first daemon at the same level, run by run.
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
                Text::of(Spread::of(pairs.filter_map(ratio)), show::significant)
            }
            None => Text::plain(show::NONE),
        };
        row.texts.insert(place, text);
    }
}

/// Lost, duplicated and the like; columns that no run counts are left out.
fn account(cells: &Cells<'_>, all: &[Cell<'_>]) -> Option<Grid> {
    let results = &cells.suite.results;
    let known = |name: &&str| results.iter().any(|run| run.counts.contains_key(*name));
    let counted = |name: &&str| results.iter().any(|run| run.count(name) > 0);
    let names = FAITH
        .into_iter()
        .filter(known)
        .chain(FATE.into_iter().filter(counted));
    let figures: Vec<Figure<'_>> = names
        .map(|name| {
            Figure::new(name.replace('_', " "), show::whole, move |run| {
                Some(run.count(name) as f64)
            })
        })
        .collect();
    (!figures.is_empty())
        .then(|| Grid::of_cells("What became of the messages", cells, all, &figures))
}
