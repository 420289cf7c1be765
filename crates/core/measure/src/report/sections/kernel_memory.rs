//! The kernel's part of the runs: memory outside of processes, and TCP drops and retransmissions.

use crate::metrics;
use crate::report::cell::Show;
use crate::report::columns::Column;
use crate::report::comparison::Comparison;
use crate::report::document::Part;
use crate::report::roles;
use crate::report::table::Table;
use crate::result::RunResult;
use crate::units::{self, NONE};

const READING: &str = "driver: peak RSS, and growth per connection. kernel: the largest drop of MemAvailable below its value before the load, minus RSS growth of daemon and driver; it includes other activity on the machine. objects: growth of the slab (sockets, files, inodes; some of it counts as available) and of TCP queues, without page tables. each: divided by the most connections held. The kernel's share per connection is the growth of the unreclaimable slab and of TCP queues; it is shown from 16 MiB on, since a machine moves by 4 MiB without a load. Both ends of every connection are on this machine.";

const TCP: [&str; 6] = [
    "tcp.listen_overflows",
    "tcp.listen_drops",
    "tcp.syn_cookies",
    "tcp.timeouts",
    "tcp.retransmits",
    "tcp.resets",
];

/// Builds the table of the driver's and the kernel's memory; nothing if the machine was not sampled.
pub(super) fn memory(comparison: &Comparison<'_>) -> Vec<Part> {
    let results = &comparison.suite.results;
    if results.iter().all(|run| run.usage.system.is_none()) {
        return Vec::new();
    }
    // With messages, an operation does not hold a connection.
    let is_each_shown = !roles::has_messages(comparison.suite);
    let columns: Vec<Column<'_>> = [
        ("driver.rss.peak", "driver MiB", units::mib as Show),
        ("driver.rss.each", "driver KiB each", units::kib),
        ("kernel.memory", "kernel MiB", units::mib),
        ("kernel.objects", "objects MiB", units::mib),
        ("kernel.each", "kernel KiB each", units::kib),
    ]
    .into_iter()
    .filter(|(key, ..)| is_each_shown || !key.ends_with(".each"))
    .map(|(key, head, show)| Column::metric(key, head, show))
    .collect();
    let title = "Memory of the driver and of the kernel";
    let table = Table::of_runs(title, comparison, &comparison.all(), &columns);
    let [heading, table] = Part::headed_table(title, table);
    vec![heading, Part::Note(READING.to_owned()), table]
}

/// Builds the table of TCP counters; nothing if all of them are 0.
pub(super) fn tcp(comparison: &Comparison<'_>) -> Vec<Part> {
    let columns = TCP.map(Column::count);
    let results = &comparison.suite.results;
    if !columns.iter().any(|column| column.is_counted(results)) {
        return Vec::new();
    }
    let title = "TCP drops and retransmissions, machine-wide";
    let table = Table::of_runs(title, comparison, &comparison.all(), &columns);
    Part::headed_table(title, table).into()
}

/// Describes the same of a single run in words; nothing if the machine was not sampled.
pub(super) fn facts(run: &RunResult) -> Vec<(&'static str, String)> {
    let Some(system) = run.usage.system else {
        return Vec::new();
    };
    let bytes = |key| {
        let bytes = metrics::value(key, run).filter(|bytes| *bytes > 0.0)?;
        Some(units::bytes(bytes as u64))
    };
    let mut facts = Vec::new();
    facts.extend(bytes("kernel.memory").map(|memory| {
        let drop = units::bytes(system.taken_kb().saturating_mul(1024));
        let text = format!(
            "{memory}: MemAvailable dropped by {drop}, minus RSS growth of daemon and driver; includes changes caused by other programs"
        );
        ("kernel", text)
    }));
    facts.extend(bytes("kernel.objects").map(|objects| {
        let text = format!("{objects}: growth of the slab and of TCP queues");
        ("objects", text)
    }));
    facts.extend(metrics::value("connections", run).map(|connections| {
        let text = match system.kb_for_each(connections as u64) {
            Ok(kb) => format!(
                "{} per held connection: growth of the unreclaimable slab and of TCP queues",
                units::bytes((kb * 1024.0) as u64)
            ),
            Err(reason) => format!("{NONE}: {reason}"),
        };
        ("each", text)
    }));
    let counters = TCP.map(metrics::by_key).into_iter();
    let counted = counters.filter_map(|metric| {
        let count = (metric.read)(run).filter(|count| *count > 0.0)?;
        Some(format!("{} {}", metric.label, units::whole(count)))
    });
    let counted: Vec<String> = counted.collect();
    if !counted.is_empty() {
        facts.push(("tcp", format!("{}; machine-wide", counted.join(", "))));
    }
    facts
}
