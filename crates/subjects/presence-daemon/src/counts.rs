//! Counters of the transport: a block of atomics for each worker.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use daemon_kit::MetricsPage;

use crate::engine::disconnect_reason::DisconnectReason;

thread_local! {
    /// The block that this thread counts in.
    static BLOCK: Cell<usize> = const { Cell::new(0) };
}

/// A counter of the transport.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Count {
    Accepted,
    AcceptErrors,
    HttpEnded,
    HandshakesWebSocket,
    HandshakesPolling,
    HandshakesRefused,
    HandshakesFull,
    Upgrades,
    FramesReceived,
    FramesSent,
    BytesReceived,
    BytesSent,
    WritesBlocked,
}

/// The names and descriptions of the counters, in their order.
const COUNTERS: [(&str, &str); 13] = [
    (
        "presence_connections_accepted_total",
        "TCP connections that were accepted.",
    ),
    (
        "presence_accept_errors_total",
        "Failures to accept, each with a pause of 10 ms.",
    ),
    (
        "presence_http_connections_ended_total",
        "TCP connections that were closed, or became WebSockets.",
    ),
    (
        "presence_handshakes_websocket_total",
        "Sessions that began over WebSocket.",
    ),
    (
        "presence_handshakes_polling_total",
        "Sessions that began over long-polling.",
    ),
    (
        "presence_handshakes_refused_total",
        "Requests that were refused: a bad handshake or an unknown session.",
    ),
    (
        "presence_handshakes_full_total",
        "Handshakes beyond the limit of connections, answered with 503.",
    ),
    (
        "presence_upgrades_total",
        "Sessions that went from long-polling to WebSocket.",
    ),
    (
        "presence_frames_received_total",
        "Engine.IO packets received.",
    ),
    (
        "presence_frames_sent_total",
        "Engine.IO packets queued for sending.",
    ),
    (
        "presence_received_bytes_total",
        "Bytes read from WebSockets, and bodies of POST requests.",
    ),
    (
        "presence_sent_bytes_total",
        "Bytes written to WebSockets, and bodies of responses to polls.",
    ),
    (
        "presence_writes_blocked_total",
        "Writes that filled a client's socket, so that the rest had to wait.",
    ),
];

/// The counters of one worker. The alignment is two cache lines, so that two workers never write to the same one.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Block {
    counters: [AtomicU64; COUNTERS.len()],
    ended: [AtomicU64; DisconnectReason::ALL.len()],
}

/// The counters of all workers.
#[derive(Debug)]
pub(crate) struct Counts {
    blocks: Box<[Block]>,
    sessions: AtomicU64,
    /// GET requests of long-polling that are not answered yet.
    polls: AtomicU64,
}

impl Counts {
    /// Creates zeroed counters for this many workers, and for the other threads.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            blocks: (0..=workers).map(|_| Block::default()).collect(),
            sessions: AtomicU64::new(0),
            polls: AtomicU64::new(0),
        }
    }

    /// Makes the calling thread count in the block of a worker. The other threads share the first block.
    pub(crate) fn use_block(worker: usize) {
        BLOCK.set(worker + 1);
    }

    /// Adds to a counter, in the block of the calling thread.
    pub(crate) fn add(&self, counter: Count, count: u64) {
        self.block().counters[counter as usize].fetch_add(count, Relaxed);
    }

    /// Counts a session that begins. Returns false, and counts nothing, if `most` sessions are open.
    pub(crate) fn begin_session(&self, most: u64) -> bool {
        let begun = self.sessions.fetch_add(1, Relaxed);
        if begun >= most {
            self.sessions.fetch_sub(1, Relaxed);
            return false;
        }
        true
    }

    /// Counts the end of a session.
    pub(crate) fn end_session(&self, reason: DisconnectReason) {
        self.sessions.fetch_sub(1, Relaxed);
        self.block().ended[reason as usize].fetch_add(1, Relaxed);
    }

    /// Counts a GET request of long-polling that begins to wait.
    pub(crate) fn begin_poll(&self) {
        self.polls.fetch_add(1, Relaxed);
    }

    /// Counts the end of such a request.
    pub(crate) fn end_poll(&self) {
        self.polls.fetch_sub(1, Relaxed);
    }

    /// Returns the number of open sessions.
    pub(crate) fn open_sessions(&self) -> u64 {
        self.sessions.load(Relaxed)
    }

    /// Returns the sum of sessions that have begun, sessions that have ended and HTTP connections that have ended.
    pub(crate) fn changes(&self) -> u64 {
        let ended: u64 = DisconnectReason::ALL
            .into_iter()
            .map(|reason| self.sum(|block| &block.ended[reason as usize]))
            .sum();
        let http = self.sum(|block| &block.counters[Count::HttpEnded as usize]);
        2 * ended + self.open_sessions() + http
    }

    /// Sets the metrics of the transport on a page.
    pub(crate) fn set_on(&self, page: &MetricsPage) {
        for (index, (name, help)) in COUNTERS.into_iter().enumerate() {
            page.set_counter(name, help, self.sum(|block| &block.counters[index]));
        }
        for reason in DisconnectReason::ALL {
            page.set_labeled_counter(
                "presence_connections_closed_total",
                "Sessions that ended, by reason.",
                ("reason", reason.as_str()),
                self.sum(|block| &block.ended[reason as usize]),
            );
        }
        page.set_gauge(
            "presence_connections_open",
            "Sessions that are open.",
            self.sessions.load(Relaxed),
        );
        page.set_gauge(
            "presence_polls_waiting",
            "Requests of long-polling that wait for packets.",
            self.polls.load(Relaxed),
        );
    }

    fn block(&self) -> &Block {
        // Several servers of one process, as in tests, may have different numbers of workers.
        let index = BLOCK.get();
        self.blocks.get(index).unwrap_or(&self.blocks[0])
    }

    fn sum(&self, of: impl Fn(&Block) -> &AtomicU64) -> u64 {
        let values = self.blocks.iter().map(|block| of(block).load(Relaxed));
        values.sum()
    }
}
