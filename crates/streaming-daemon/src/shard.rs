//! A share of the streams, served by one task.
//!
//! The sketch that this follows from, for 19,000 held streams of 19 writes on two cores:
//!
//! | what | cost |
//! | --- | --- |
//! | memory of a held stream | 32 bytes in the heap (a task would take 500 and more, a timer 100) |
//! | one `send` to a Unix socket | 2.5–4 µs, 19 times: 48–76 µs, which nothing here can change |
//! | finding what is due, and putting it back | 0.1–0.2 µs (a heap of 19,000 lies in the cache) |
//! | taking a handoff: accept, recvmsg, getsockopt, setsockopt, two closes | about 11 µs |
//! | waking up: epoll, timer, context switch | 5–10 µs, so not once per write: see [`tick`] |
//!
//! So a stream is an entry in a binary heap ordered by due time, one timer wakes the shard for
//! whatever is due, and no client socket is registered with epoll. Only the exceptions get a task:
//! a client that does not read, a sender that connected and has not sent, and every stream of a real
//! backend (see the module `relay`).
//!
//! All shards accept from the same socket, in turns (see [`Turns`]), and keep what they took.

mod intake;
mod turns;
mod writes;

pub(crate) use self::turns::Turns;

use self::intake::Queue;

use std::collections::BinaryHeap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch::Receiver;
use tokio::task::{JoinError, JoinSet, yield_now};

use crate::answer::Answer;
use crate::clock::{self, Timer};
use crate::config::SocketType;
use crate::failure::{HandoffFailure, StreamFailure};
use crate::incoming::{Buffer, Waited};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::openai::OpenAi;
use crate::peers::Peers;
use crate::socket::watch;
use crate::stream::Stream;

/// A shard wakes for writes at most once in a tick: 1/100 of the delay between two events, but no
/// less than 1 ms and no more than 5 ms.
///
/// With few streams each write is made within some tens of microseconds of its due time. With many,
/// what falls due within a tick shares one wake-up and is up to a tick late; lateness never adds up,
/// because due times do not move. A longer tick spares wake-ups, each of which costs more than a
/// write. Measured with 19,000 streams and a delay of 1 s: 117 µs per stream with a tick of 1 ms,
/// 85 µs with one of 2 ms.
fn tick(answer: &Answer) -> u64 {
    (answer.delay() / 100).clamp(1_000_000, 5_000_000)
}

/// What all shards of a daemon share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) answer: Answer,
    /// `None` for the mock backend, whose answers are above.
    pub(crate) openai: Option<Arc<OpenAi>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) turns: Turns,
    pub(crate) log: Log,
    pub(crate) socket_type: SocketType,
    pub(crate) peers: Peers,
    /// How many streams may be open at once.
    pub(crate) capacity: u64,
    pub(crate) write_timeout: Duration,
}

/// One shard. Dropping it closes its streams and counts them as canceled.
#[derive(Debug)]
pub(crate) struct Shard {
    index: usize,
    shared: Arc<Shared>,
    /// `None` once the daemon stops and the accept queue is empty.
    listener: Option<AsyncFd<OwnedFd>>,
    stopping: Receiver<bool>,
    streams: BinaryHeap<Stream>,
    exceptions: JoinSet<Exception>,
    /// How many of the exceptions wait for senders, and how many for clients.
    waiting: usize,
    blocked: usize,
    timer: Timer,
    buffer: Buffer,
    scratch: Vec<u8>,
    /// Before this time nothing is accepted: the process was out of descriptors. 0 when it was not.
    accept_from: u64,
    /// Handoffs taken since its turn began.
    taken: u32,
    /// The last batch left some: more are accepted without regard to turns.
    is_rushing: bool,
    /// See [`tick`].
    tick: u64,
    /// When something was last written.
    last_served: u64,
}

/// How an exception ended: see [`Incoming::readable`](crate::incoming::Incoming::readable),
/// [`Stream::unblock`] and [`relay`](crate::relay::relay).
#[derive(Debug)]
enum Exception {
    Sender(Result<Waited, HandoffFailure>),
    Client(usize, Result<Stream, StreamFailure>),
    /// It has counted itself.
    Relay,
}

impl Shard {
    /// Shard number `index`, which accepts from `listener`, its own descriptor of the shared
    /// socket, until `stopping` turns true. Needs a Tokio runtime.
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        listener: OwnedFd,
        stopping: Receiver<bool>,
    ) -> io::Result<Self> {
        Ok(Self {
            index,
            tick: tick(&shared.answer),
            shared,
            listener: Some(watch(listener, Interest::READABLE)?),
            stopping,
            streams: BinaryHeap::new(),
            exceptions: JoinSet::new(),
            waiting: 0,
            blocked: 0,
            timer: Timer::new()?,
            buffer: Buffer::new(),
            scratch: Vec::new(),
            accept_from: 0,
            taken: 0,
            is_rushing: false,
            last_served: 0,
        })
    }

    /// Serves until the daemon stops and the last stream is over. Dropping the future closes what
    /// is open.
    ///
    /// Accepting comes first, since the accept queue is short (4,096) and a full one refuses
    /// handoffs, while a write can be late. Writes get a small share even so; the shares are in
    /// `Shard::write_budget`.
    pub(crate) async fn run(mut self) -> io::Result<()> {
        loop {
            let stopping = *self.stopping.borrow_and_update();
            self.end_pause();
            let accepts = stopping || self.is_rushing || self.has_turn();
            let queue = accepts.then(|| self.accept_batch());
            self.is_rushing = queue == Some(Queue::More);
            let accepted_all = !self.is_rushing;
            while let Some(ended) = self.exceptions.try_join_next() {
                self.settle(ended);
            }
            let served_all = self.serve(self.write_budget(accepted_all));
            // Not while it is paused: then what waits there has not been seen.
            if stopping && queue == Some(Queue::Drained) {
                self.listener = None;
            }
            if self.is_over() {
                return Ok(());
            }
            if self.has_turn() && (self.taken >= intake::BATCH || !served_all) {
                self.taken = 0;
                self.shared.turns.pass_on(self.index);
            }
            if accepted_all && served_all {
                self.wait().await?;
            } else {
                // The metrics page and the exceptions get their turn.
                yield_now().await;
            }
        }
    }

    fn has_turn(&self) -> bool {
        self.shared.turns.is_of(self.index)
    }

    fn is_over(&self) -> bool {
        self.listener.is_none() && self.streams.is_empty() && self.exceptions.is_empty()
    }

    /// Waits for whatever comes first: a handoff, a due time, an exception's end, the shutdown.
    async fn wait(&mut self) -> io::Result<()> {
        let wake = self.next_wake();
        if let Some(at) = wake {
            self.timer.set(at)?;
        }
        let has_turn = self.has_turn();
        let accepts = has_turn && !self.is_accept_paused();
        tokio::select! {
            biased;
            ready = readable(self.listener.as_ref()), if accepts && self.listener.is_some() => ready,
            () = self.shared.turns.call(self.index), if !has_turn => Ok(()),
            expired = self.timer.expired(), if wake.is_some() => expired,
            Some(ended) = self.exceptions.join_next() => {
                self.settle(ended);
                Ok(())
            }
            _ = self.stopping.changed(), if self.listener.is_some() => Ok(()),
        }
    }

    /// When the timer has to wake this shard.
    fn next_wake(&self) -> Option<u64> {
        let next_write = self
            .streams
            .peek()
            .map(|next| next.due().max(self.last_served + self.tick));
        let next_accept = self.is_accept_paused().then_some(self.accept_from);
        next_write.into_iter().chain(next_accept).min()
    }

    /// The clock is asked here alone, so that nothing in a round sees the pause end but this.
    fn end_pause(&mut self) {
        if self.is_accept_paused() && self.accept_from <= clock::now() {
            self.accept_from = 0;
        }
    }

    fn is_accept_paused(&self) -> bool {
        self.accept_from > 0
    }

    fn settle(&mut self, ended: Result<Exception, JoinError>) {
        match ended.expect("exceptions neither panic nor are aborted while their shard lives") {
            Exception::Sender(waited) => {
                self.waiting -= 1;
                self.hear(waited);
            }
            Exception::Client(bytes, stream) => {
                self.blocked -= 1;
                self.resume(bytes, stream);
            }
            Exception::Relay => {}
        }
    }
}

/// Waits until the listener may have something, and forgets that it said so: the caller accepts
/// until there is nothing left, and what comes meanwhile is a new event.
async fn readable(listener: Option<&AsyncFd<OwnedFd>>) -> io::Result<()> {
    if let Some(listener) = listener {
        listener.readable().await?.clear_ready();
    }
    Ok(())
}

impl Drop for Shard {
    fn drop(&mut self) {
        for _ in 0..self.streams.len() + self.blocked {
            self.shared.metrics.stream_failed(StreamFailure::Canceled);
        }
        for _ in 0..self.waiting {
            self.shared.metrics.handoff_failed(HandoffFailure::Canceled);
        }
    }
}
