//! What runs cost beside the daemon's own memory: the driver's, the kernel's, and what the kernel's TCP dropped or sent again.

use super::cells::Cells;
use super::document::Part;
use super::figures;
use super::grid::{Figure, Grid};
use super::show;
use super::throughput;
use crate::system::TcpCounters;

const READING: &str = "driver: its peak, and what it grew by; kernel: how much less memory was available at the worst than before the load, without the growth of daemon and driver; what else the machine did meanwhile is part of it. objects: the growth of the slab (sockets, files, inodes, some of which count as available) and of TCP's queues, which leaves page tables out. each: for each of the most connections held; the kernel's is the growth of the slab that no pressure frees and of TCP's queues, from 16 MiB on: a machine moves by 4 MiB without a load. Both ends of every connection are on this machine.";

/// Memory of the driver and of the kernel; without the kernel's where nobody looked.
pub(super) fn memory(cells: &Cells<'_>) -> Vec<Part> {
    let results = &cells.suite.results;
    if results.iter().all(|run| run.usage.system.is_none()) {
        return Vec::new();
    }
    let each = !throughput::messages(cells);
    let figures = [
        Some(figures::driver_rss_peak()),
        each.then(figures::driver_kib_per_connection),
        Some(figures::kernel()),
        Some(figures::objects()),
        each.then(figures::kernel_kib_per_connection),
    ];
    let figures: Vec<Figure<'_>> = figures.into_iter().flatten().collect();
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
    ("drops of listeners", |tcp| tcp.listen_drops),
    ("SYN cookies", |tcp| tcp.syn_cookies_sent),
    ("timers run out", |tcp| tcp.timeouts),
    ("segments sent again", |tcp| tcp.retransmits),
    ("connections reset", |tcp| tcp.resets),
];

/// What the kernel's TCP counted; nothing where all of it is 0.
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
        Figure::new(name, show::whole, move |run| {
            run.usage.system.map(|system| of(&system.tcp) as f64)
        })
    };
    let title = "What TCP dropped and sent again, of the whole machine";
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
