//! Machine-wide figures of the runs: memory of driver and kernel, and TCP drops and retransmissions.

use super::cells::Cells;
use super::document::Part;
use super::figures;
use super::grid::{Column, Grid};
use super::show;
use super::throughput;
use crate::system::TcpCounters;

const READING: &str = "driver: peak RSS, and growth per connection. kernel: the largest drop of MemAvailable below its value before the load, minus RSS growth of daemon and driver; it includes other activity on the machine. objects: growth of the slab (sockets, files, inodes; some of it counts as available) and of TCP queues, without page tables. each: divided by the most connections held. The kernel's share per connection is the growth of the unreclaimable slab and of TCP queues; it is shown from 16 MiB on, since a machine moves by 4 MiB without a load. Both ends of every connection are on this machine.";

/// Builds the table of the driver's and the kernel's memory; nothing if the machine was not sampled.
pub(super) fn memory(cells: &Cells<'_>) -> Vec<Part> {
    let results = &cells.suite.results;
    if results.iter().all(|run| run.usage.system.is_none()) {
        return Vec::new();
    }
    let each = !throughput::has_messages(cells);
    let figures = [
        Some(figures::driver_rss_peak()),
        each.then(figures::driver_kib_per_connection),
        Some(figures::kernel()),
        Some(figures::objects()),
        each.then(figures::kernel_kib_per_connection),
    ];
    let figures: Vec<Column<'_>> = figures.into_iter().flatten().collect();
    let title = "Memory of the driver and of the kernel";
    vec![
        Part::Heading(title.to_owned()),
        Part::Note(READING.to_owned()),
        Part::Grid(Grid::of_cells(title, cells, &cells.all(), &figures)),
    ]
}

type Counter = (&'static str, fn(&TcpCounters) -> u64);

const COUNTERS: [Counter; 6] = [
    ("accept queue overflows", |tcp| tcp.listen_overflows),
    ("listen drops", |tcp| tcp.listen_drops),
    ("SYN cookies", |tcp| tcp.syn_cookies_sent),
    ("retransmission timeouts", |tcp| tcp.timeouts),
    ("segments retransmitted", |tcp| tcp.retransmits),
    ("connections reset", |tcp| tcp.resets),
];

/// Builds the table of TCP counters; nothing if all of them are 0.
pub(super) fn tcp(cells: &Cells<'_>) -> Vec<Part> {
    let results = &cells.suite.results;
    let any = |of: fn(&TcpCounters) -> u64| {
        let mut looks = results.iter().filter_map(|run| run.usage.system);
        looks.any(|system| of(&system.tcp) > 0)
    };
    if !COUNTERS.iter().any(|(_, of)| any(*of)) {
        return Vec::new();
    }
    let figure = |(name, of): Counter| {
        Column::new(name, show::whole, move |run| {
            run.usage.system.map(|system| of(&system.tcp) as f64)
        })
    };
    let title = "TCP drops and retransmissions, machine-wide";
    vec![
        Part::Heading(title.to_owned()),
        Part::Grid(Grid::of_cells(
            title,
            cells,
            &cells.all(),
            &COUNTERS.map(figure),
        )),
    ]
}
