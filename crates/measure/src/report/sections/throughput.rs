//! Throughput: rates of answers, messages and connections compared with the first daemon, and the delivery of messages.
//! Only for results with such counters.

use crate::metrics::{self, Better};
use crate::report::cell::Cell;
use crate::report::columns::{self, Column};
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::document::{Part, Section};
use crate::report::roles;
use crate::report::table::{Head, Table};
use crate::report::text::plain;
use crate::result::RunResult;
use crate::spec::CounterSpec;
use crate::summary::SummaryStats;
use crate::units::{self, NONE};

/// Builds the section if some run has such counters.
pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let rates = roles::rates(comparison.suite);
    if rates.is_empty() {
        return Vec::new();
    }
    let all = comparison.all();
    let columns = columns(comparison);
    let mut table = Table::of_runs("Throughput", comparison, &all, &columns);
    // From last to first, so that the column indices stay valid.
    for (place, counter) in rates.iter().enumerate().rev() {
        if roles::is_compared(counter) && comparison.daemons.len() > 1 {
            add_ratio(&mut table, comparison, &all, place + 3, &counter.name);
        }
    }
    let mut parts = vec![Part::Note(reading(comparison)), Part::Table(table)];
    if let Some(table) = delivery(comparison, &all) {
        let heading = "Message delivery".to_owned();
        parts.extend([Part::Heading(heading), Part::Table(table)]);
    }
    vec![Section::new("throughput", "Throughput", parts)]
}

/// Lists the rates of a single run.
pub(super) fn facts(comparison: &Comparison<'_>) -> Option<(&'static str, String)> {
    let run = comparison.only_run()?;
    let rates = columns(comparison).into_iter().filter_map(|column| {
        column.value(run)?;
        Some(format!(
            "{} {}",
            column.cell(&[run]).median,
            column.head().text
        ))
    });
    let rates: Vec<String> = rates.collect();
    (!rates.is_empty()).then(|| ("rates", rates.join(", ")))
}

/// Returns the columns of rates, then those of transfers in MiB per second.
fn columns<'a>(comparison: &Comparison<'a>) -> Vec<Column<'a>> {
    let rates = roles::rates(comparison.suite).into_iter();
    let transfers = roles::transfers(comparison.suite).into_iter();
    let transfer = |counter: &'a CounterSpec| {
        let head = format!("MiB/s {}", plain(&counter.label));
        Column::new(head, units::mib, Better::Higher, move |run| {
            metrics::rate(run, &counter.name)
        })
    };
    rates
        .map(Column::rate)
        .chain(transfers.map(transfer))
        .collect()
}

fn reading(comparison: &Comparison<'_>) -> String {
    let reading = columns::reading(comparison);
    let of = "A rate covers only the measured time, without the warm-up and the drain phase.";
    match comparison.daemons.first() {
        Some(first) if comparison.daemons.len() > 1 => format!(
            "{reading} {of} \"× first\" is the ratio to {}, between runs with the same number.",
            plain(first)
        ),
        _ => format!("{reading} {of}"),
    }
}

/// Adds a column with the ratio to the first daemon at the same level, run by run.
fn add_ratio(
    table: &mut Table,
    comparison: &Comparison<'_>,
    all: &[Repetitions<'_>],
    place: usize,
    name: &str,
) {
    table.head.insert(place, Head::figure("× first"));
    for (row, repeated) in table.rows.iter_mut().zip(all) {
        let first = comparison
            .at(repeated.level)
            .into_iter()
            .find(|other| other.daemon == 0);
        let cell = match first {
            Some(_) if repeated.daemon == 0 => Cell::plain("1"),
            Some(first) => {
                let pairs = repeated.runs.iter().zip(&first.runs);
                let ratio = |(run, first): (&&RunResult, &&RunResult)| {
                    Some(metrics::rate(run, name)? / metrics::rate(first, name)?)
                };
                let ratios = SummaryStats::from_values(pairs.filter_map(ratio));
                Cell::from_stats(ratios, units::significant)
            }
            None => Cell::plain(NONE),
        };
        row.cells.insert(place, cell);
    }
}

/// Builds the table of delivery errors and events; columns that no run counts are left out.
fn delivery(comparison: &Comparison<'_>, all: &[Repetitions<'_>]) -> Option<Table> {
    if !roles::has_messages(comparison.suite) {
        return None;
    }
    let counters = roles::delivery(comparison.suite).into_iter();
    let columns: Vec<Column<'_>> = counters
        .map(|counter| {
            let head = plain(&counter.label);
            Column::new(head, units::whole, Better::Lower, move |run| {
                Some(run.count(&counter.name) as f64)
            })
        })
        .collect();
    (!columns.is_empty()).then(|| Table::of_runs("Message delivery", comparison, all, &columns))
}
