//! Operations and connections of all runs: their outcomes, and how many were open at once.

use super::{kernel_memory, throughput};
use crate::report::columns::{self, Column};
use crate::report::comparison::Comparison;
use crate::report::document::{Part, Section};
use crate::report::plain;
use crate::report::roles;
use crate::report::table::Table;
use crate::result::RunResult;
use crate::spec::CounterRole;
use crate::units;

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    if comparison.suite.results.is_empty() {
        return Vec::new();
    }
    let (title, peak) = title(comparison);
    let columns = columns(comparison);
    let table = Table::of_runs(title, comparison, &comparison.all(), &columns);
    let parts = match comparison.only_run() {
        Some(run) => {
            let facts = facts(run).into_iter().chain(throughput::facts(comparison));
            vec![Part::Table(table), Part::Facts(facts.collect())]
        }
        None => {
            let note = format!("{} {peak}", columns::reading(comparison));
            let mut parts = vec![Part::Note(note), Part::Table(table)];
            parts.extend(kernel_memory::tcp(comparison));
            parts
        }
    };
    vec![Section::new("connections", title, parts)]
}

/// Returns the title, and the meaning of the peaks.
fn title(comparison: &Comparison<'_>) -> (&'static str, &'static str) {
    if roles::holds_connections(comparison.suite) {
        (
            "Requests and connections",
            "The peak is the most requests open at once. Held: the most connections open at the end of a second, as the driver counted them. Lost: connections that ended while they were held.",
        )
    } else if roles::has_messages(comparison.suite) {
        (
            "Operations",
            "The peak is the most operations open at once.",
        )
    } else {
        (
            "Connection statistics",
            "The peak is the most connections open at once, as counted by the driver and by the daemon.",
        )
    }
}

fn columns(comparison: &Comparison<'_>) -> Vec<Column<'static>> {
    let suite = comparison.suite;
    let mut columns = Vec::from(["started", "ok", "errors"].map(Column::count));
    columns.push(columns::success());
    columns.push(Column::count("peak"));
    // With messages, an operation does not hold a connection.
    if roles::holds_connections(suite) {
        columns.extend(
            ["connections.opened", "connections.held", "connections.lost"].map(Column::count),
        );
    } else if !roles::has_messages(suite) {
        columns.push(Column::count("peak.daemon"));
    }
    columns.push(Column::count("backlog.peak"));
    let unserved = ["unfinished", "missed"].map(Column::count).into_iter();
    let is_single = comparison.only_run().is_some();
    columns.extend(unserved.filter(|column| is_single || column.is_counted(&suite.results)));
    if suite.results.iter().any(|run| run.daemon.instances > 1) {
        columns.push(Column::count("daemon.instances"));
    }
    columns.retain(|column| column.is_known(&suite.results));
    columns
}

/// Lists the failures by kind and the further counters of a single run.
fn facts(run: &RunResult) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !run.operations.add_up() {
        let sum = "started is not ok + failed + unfinished: the driver's counters are inconsistent";
        facts.push(("sum", sum.to_owned()));
    }
    if !run.errors.is_empty() {
        facts.push(("failed", counts(run.errors.iter(), |_| units::count)));
    }
    let further = run.counts.iter();
    let further = further.filter(|(name, _)| roles::is_further_counter(run, name));
    let counted = counts(further, |name| {
        if roles::counts_bytes(run, name) {
            units::bytes
        } else {
            units::count
        }
    });
    if !counted.is_empty() {
        facts.push(("counted", counted));
    }
    // A driver that counts opened connections has a column for those held.
    let held = run
        .most_held()
        .filter(|_| run.total(CounterRole::Opened) == 0);
    let held = held.map(|held| format!("at most {} connections", units::count(held)));
    facts.extend(held.map(|held| ("held", held)));
    facts
}

fn counts<'a>(
    counts: impl IntoIterator<Item = (&'a String, &'a u64)>,
    show: impl Fn(&str) -> fn(u64) -> String,
) -> String {
    let one = |(name, count): (&String, &u64)| format!("{} {}", plain(name), show(name)(*count));
    counts.into_iter().map(one).collect::<Vec<_>>().join(", ")
}
