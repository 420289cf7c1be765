//! Throughput: rates of answers, messages and connections compared with the first daemon, the goodput, and the delivery
//! of messages. Only for results with such counters, or whose plan has objectives.

use crate::metrics::{self, Better};
use crate::report::cell::Cell;
use crate::report::columns::{self, Column};
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::document::{Part, Section};
use crate::report::plain;
use crate::report::roles;
use crate::report::table::Table;
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::units::{self, NONE};

/// Builds the section if some run has such figures.
pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let rates = roles::rates(comparison.suite);
    let all = comparison.all();
    if rates.is_empty() && goodput_columns(comparison).is_empty() {
        return Vec::new();
    }
    let columns = columns(comparison);
    let mut table = Table::of_runs("Throughput", comparison, &all, &columns);
    // From last to first, so that the column indices stay valid.
    for (index, counter) in rates.iter().enumerate().rev() {
        if roles::is_compared(counter) && comparison.daemons.len() > 1 {
            let ratios = all
                .iter()
                .map(|repeated| ratio(comparison, repeated, &counter.name));
            table.insert_column(index + 3, "× first", ratios.collect());
        }
    }
    let mut parts = vec![Part::Note(reading(comparison)), Part::Table(table)];
    if let Some(table) = delivery(comparison, &all) {
        parts.extend(Part::headed_table("Message delivery", table));
    }
    vec![Section::new("throughput", "Throughput", parts)]
}

/// Lists the rates of a single run.
pub(super) fn facts(comparison: &Comparison<'_>) -> Option<(&'static str, String)> {
    let run = comparison.only_run()?;
    let rate = |column: Column<'_>| {
        column.value(run)?;
        let rate = column.cell(&[run]).value;
        Some(format!("{rate} {}", column.head().text))
    };
    let suite = comparison.suite;
    let rates = roles::rates(suite).into_iter().map(Column::rate);
    let transfers = roles::transfers(suite).into_iter().filter_map(|counter| {
        let rate = metrics::rate(run, &counter.name)?;
        let (bytes, label) = (units::bytes(rate as u64), plain(&counter.label));
        Some(format!("{bytes}/s {label}"))
    });
    let rates: Vec<String> = rates.filter_map(rate).chain(transfers).collect();
    (!rates.is_empty()).then(|| ("rates", rates.join(", ")))
}

/// Describes the operations of some runs that met the objectives of their plan, or `None` if it has none.
pub(in crate::report) fn goodput(runs: &[&RunResult]) -> Option<String> {
    let [rate, share] = [rate_within(), share_within()];
    rate.stats(runs)?;
    let objectives: Vec<String> = runs.first()?.objectives().map(plain).collect();
    Some(format!(
        "{}/s, {} % of all due operations: {}",
        rate.cell(runs).value,
        share.cell(runs).value,
        objectives.join(" and ")
    ))
}

fn rate_within() -> Column<'static> {
    Column::metric("goodput", "goodput/s", units::whole)
}

fn share_within() -> Column<'static> {
    Column::metric("goodput.pct", "goodput %", units::share)
}

/// Returns the columns of the goodput, if some run has objectives.
fn goodput_columns(comparison: &Comparison<'_>) -> Vec<Column<'static>> {
    let mut columns = vec![rate_within(), share_within()];
    columns.retain(|column| column.is_known(&comparison.suite.results));
    columns
}

/// Returns the columns of rates, of transfers in MiB per second, then of the goodput.
fn columns<'a>(comparison: &Comparison<'a>) -> Vec<Column<'a>> {
    let rates = roles::rates(comparison.suite).into_iter();
    let transfers = roles::transfers(comparison.suite).into_iter();
    let transfers = transfers.map(|counter| {
        let head = format!("MiB/s {}", plain(&counter.label));
        Column::new(head, units::mib, Better::Higher, |run| {
            metrics::rate(run, &counter.name)
        })
    });
    rates
        .map(Column::rate)
        .chain(transfers)
        .chain(goodput_columns(comparison))
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

/// Returns the ratio of a rate to the first daemon's at the same level, run by run.
fn ratio(comparison: &Comparison<'_>, repeated: &Repetitions<'_>, counter: &str) -> Cell {
    let mut level = comparison.at(repeated.level).into_iter();
    let Some(first) = level.find(|other| other.daemon == 0) else {
        return Cell::plain(NONE);
    };
    if repeated.daemon == 0 {
        return Cell::plain("1");
    }
    if !comparison.is_in_turn(0, repeated.daemon) {
        return Cell::plain(NONE);
    }
    let ratios = repeated.pairs(&first).filter_map(|(run, first)| {
        if [run, first]
            .into_iter()
            .any(RunResult::rates_include_backlog)
        {
            return None;
        }
        Some(metrics::rate(run, counter)? / metrics::rate(first, counter)?)
    });
    Cell::from_stats(SummaryStats::from_values(ratios), units::significant)
}

/// Builds the table of delivery errors and events; columns that no run counts are left out.
fn delivery(comparison: &Comparison<'_>, all: &[Repetitions<'_>]) -> Option<Table> {
    if !roles::has_messages(comparison.suite) {
        return None;
    }
    let counters = roles::delivery(comparison.suite).into_iter();
    let columns = counters.map(|counter| {
        let head = plain(&counter.label);
        Column::new(head, units::whole, Better::Lower, |run| {
            Some(run.count(&counter.name) as f64)
        })
    });
    let columns: Vec<Column<'_>> = columns.collect();
    (!columns.is_empty()).then(|| Table::of_runs("Message delivery", comparison, all, &columns))
}
