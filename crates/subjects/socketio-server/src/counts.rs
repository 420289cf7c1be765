//! Counters of the transport: a block of atomics for each worker.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::disconnect_reason::DisconnectReason;

thread_local! {
    /// The block that this thread counts in.
    static BLOCK: Cell<usize> = const { Cell::new(0) };
}

/// A counter of the transport.
#[derive(Debug, Clone, Copy)]
pub enum Count {
    /// TCP connections that were accepted.
    Accepted,
    /// Failures to accept, each with a pause of 10 ms.
    AcceptErrors,
    /// TCP connections that were closed, or became WebSockets.
    HttpEnded,
    /// Sessions that began over WebSocket.
    HandshakesWebSocket,
    /// Sessions that began over long-polling.
    HandshakesPolling,
    /// Requests that were refused: a bad handshake or an unknown session.
    HandshakesRefused,
    /// Handshakes beyond the limit of connections, answered with 503.
    HandshakesFull,
    /// Sessions that went from long-polling to WebSocket.
    Upgrades,
    /// Engine.IO packets received.
    FramesReceived,
    /// Engine.IO packets queued for sending.
    FramesSent,
    /// Bytes read from WebSockets, and bodies of POST requests.
    BytesReceived,
    /// Bytes written to WebSockets, and bodies of responses to polls.
    BytesSent,
    /// Writes that filled a client's socket, so that the rest had to wait.
    WritesBlocked,
}

/// The number of counters.
const COUNTERS: usize = Count::WritesBlocked as usize + 1;

/// The counters of one worker. The alignment is two cache lines, so that two workers never write to the same one.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Block {
    counters: [AtomicU64; COUNTERS],
    ended: [AtomicU64; DisconnectReason::ALL.len()],
}

/// The counters of a server, over all of its workers.
#[derive(Debug)]
pub struct Counts {
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
    #[inline]
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

    /// Returns the value of a counter.
    #[must_use]
    pub fn total(&self, counter: Count) -> u64 {
        self.sum(|block| &block.counters[counter as usize])
    }

    /// Returns the number of sessions that ended for a reason.
    #[must_use]
    pub fn ended(&self, reason: DisconnectReason) -> u64 {
        self.sum(|block| &block.ended[reason as usize])
    }

    /// Returns the number of requests of long-polling that wait for packets.
    #[must_use]
    pub fn waiting_polls(&self) -> u64 {
        self.polls.load(Relaxed)
    }

    /// Returns the number of open sessions.
    #[must_use]
    pub fn open_sessions(&self) -> u64 {
        self.sessions.load(Relaxed)
    }

    /// Returns the sum of sessions that have begun, sessions that have ended and HTTP connections that have ended.
    pub(crate) fn changes(&self) -> u64 {
        let ended: u64 = DisconnectReason::ALL
            .into_iter()
            .map(|reason| self.ended(reason))
            .sum();
        2 * ended + self.open_sessions() + self.total(Count::HttpEnded)
    }

    #[inline]
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
