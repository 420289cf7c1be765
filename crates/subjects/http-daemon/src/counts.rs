//! Counters in memory that all processes of the daemon share.
//!
//! Each worker has its own block, and is its only writer: an addition is a load and a store, without a locked
//! instruction. The metrics page sums up the blocks, whichever process serves it. The exporter's own registry is not
//! used for counting: its memory belongs to one process, and each addition would be a locked instruction.

use std::num::NonZeroUsize;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::Context as _;
use daemon_kit::MetricsPage;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};

/// A counter that only one worker writes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counter {
    /// Requests that got no response, on purpose.
    Unanswered,
    Accepted,
    Refused,
    AcceptErrors,
    Timeouts,
    SentBytes,
}

/// The names and descriptions of the counters, in their order.
const COUNTERS: [(&str, &str); 6] = [
    (
        "http_unanswered_total",
        "Requests to a fault endpoint that got no proper response.",
    ),
    (
        "http_connections_accepted_total",
        "Connections that were accepted and served.",
    ),
    (
        "http_connections_refused_total",
        "Connections beyond the limit, answered with 503.",
    ),
    (
        "http_accept_errors_total",
        "Failures to accept, each with a pause of 10 ms.",
    ),
    (
        "http_timeouts_total",
        "Connections closed because the client was too slow or idle.",
    ),
    (
        "http_sent_bytes_total",
        "Bytes written to sockets, heads and TLS included.",
    ),
];

/// The counters of one worker. Blocks are two cache lines apart, since processors fetch lines in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Block {
    /// Responses by the first digit of the status, from 2 on.
    answers: [AtomicU64; 4],
    counters: [AtomicU64; COUNTERS.len()],
    open: AtomicU64,
}

/// Counters that need all workers together.
#[derive(Debug)]
#[repr(C, align(128))]
struct Totals {
    open: AtomicU64,
    peak: AtomicU64,
}

/// The counters of all workers of all processes. The memory is mapped once and never unmapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared {
    totals: &'static Totals,
    blocks: &'static [Block],
}

impl Shared {
    /// Allocates zeroed counters for this many workers, in memory that child processes share.
    pub(crate) fn new(workers: usize) -> anyhow::Result<Self> {
        let bytes = size_of::<Totals>() + workers * size_of::<Block>();
        let length = NonZeroUsize::new(bytes).expect("the totals have a size");
        Self::map(length, workers).context("cannot map the memory of the counters")
    }

    #[expect(unsafe_code, reason = "memory that is shared with children is mapped")]
    fn map(length: NonZeroUsize, workers: usize) -> nix::Result<Self> {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new anonymous mapping touches nothing that exists; it is never unmapped, hence 'static. Pages are
        // aligned beyond 128 and zeroed, which is a valid value of atomics, and the length covers totals and blocks.
        unsafe {
            let start = mmap_anonymous(None, length, access, MapFlags::MAP_SHARED)?;
            let totals = start.cast::<Totals>();
            let blocks = totals.add(1).cast::<Block>();
            Ok(Self {
                totals: totals.as_ref(),
                blocks: slice::from_raw_parts(blocks.as_ptr(), workers),
            })
        }
    }

    /// Returns the counters of one worker of a process.
    pub(crate) fn worker(self, process: usize, workers: usize, worker: usize) -> Counts {
        let process = &self.blocks[process * workers..][..workers];
        Counts {
            totals: self.totals,
            own: &process[worker],
            process,
        }
    }

    fn sum(self, of: impl Fn(&Block) -> &AtomicU64) -> u64 {
        self.blocks
            .iter()
            .map(|block| of(block).load(Relaxed))
            .sum()
    }

    pub(crate) fn render(self, page: &MetricsPage) -> String {
        for (class, name) in ["2xx", "3xx", "4xx", "5xx"].into_iter().enumerate() {
            page.set_labeled_counter(
                "http_requests_total",
                "Requests that were answered, by class of status.",
                ("class", name),
                self.sum(|block| &block.answers[class]),
            );
        }
        for (index, (name, help)) in COUNTERS.into_iter().enumerate() {
            page.set_counter(name, help, self.sum(|block| &block.counters[index]));
        }
        page.set_gauge(
            "http_connections_open",
            "Open connections.",
            self.totals.open.load(Relaxed),
        );
        page.set_gauge(
            "http_connections_peak",
            "Maximum number of connections open at once.",
            self.totals.peak.load(Relaxed),
        );
        page.render()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum number of connections in all processes.
    pub(crate) max: u64,
    /// Maximum number of connections in this process.
    pub(crate) room: u64,
}

/// A handle with which one worker counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    totals: &'static Totals,
    own: &'static Block,
    process: &'static [Block],
}

impl Counts {
    /// Admits a connection within the limits.
    pub(crate) fn open(self, limits: Limits) -> bool {
        let here: u64 = self
            .process
            .iter()
            .map(|block| block.open.load(Relaxed))
            .sum();
        let open = self.totals.open.fetch_add(1, Relaxed) + 1;
        if open > limits.max || here >= limits.room {
            self.totals.open.fetch_sub(1, Relaxed);
            self.add(Counter::Refused, 1);
            return false;
        }
        self.totals.peak.fetch_max(open, Relaxed);
        add(&self.own.open, 1);
        self.add(Counter::Accepted, 1);
        true
    }

    pub(crate) fn close(self) {
        self.totals.open.fetch_sub(1, Relaxed);
        let open = &self.own.open;
        open.store(open.load(Relaxed) - 1, Relaxed);
    }

    /// Counts responses of a status.
    pub(crate) fn answered(self, status: u16, count: u64) {
        let class = usize::from(status / 100).wrapping_sub(2);
        if let Some(answers) = self.own.answers.get(class) {
            add(answers, count);
        }
    }

    pub(crate) fn add(self, counter: Counter, count: u64) {
        add(&self.own.counters[counter as usize], count);
    }
}

/// Adds to a counter that no other thread writes.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed) + count, Relaxed);
}
