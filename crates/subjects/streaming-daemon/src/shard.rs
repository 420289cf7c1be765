//! A shard: a share of the streams, served by one task.
//!
//! The cost sketch behind this design, for 19,000 held streams of 19 writes on two cores:
//!
//! | what | cost |
//! | --- | --- |
//! | memory of a held stream | 32 bytes in the queue, and up to 32 more of its room (a task would take 500 and more, a timer 100) |
//! | one `send` to a Unix socket | 2.5–4 µs, 19 times: 48–76 µs, which cannot be avoided here |
//! | finding a due stream, and putting it back | below 0.1 µs (0.7 µs in a heap of 10,000: see [`due_queue`]) |
//! | taking a handoff: accept, recvmsg, getsockopt, setsockopt, two closes | about 11 µs |
//! | waking up: epoll, timer, context switch | 5–10 µs, so not once per write: see [`tick`] |
//!
//! So a stream is an entry in a queue ordered by due time, one timer wakes the shard for all due streams, and no
//! client socket is registered with epoll. Only the exceptions get a task: a client that does not read, a sender that
//! connected and has not sent, and every stream of a real backend (see the module `relay`).
//!
//! All shards accept from the same socket, in turns (see the module `accept_token`), and keep the streams they accepted.

mod due_queue;
mod intake;
mod writes;

use self::due_queue::DueQueue;
use self::intake::Queue;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use daemon_kit::watch;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch::Receiver;
use tokio::task::{JoinError, JoinSet, yield_now};

use crate::answer::Answer;
use crate::client::linger;
use crate::failure::{HandoffFailure, StreamFailure};
use crate::incoming::{Buffer, Incoming};
use crate::shared::Shared;
use crate::stream::Stream;
use daemon_kit::clock::{self, Timer};

/// Returns the tick: a shard wakes for writes at most once per tick. It is 1/100 of the delay between two events, but
/// no less than 1 ms and no more than 5 ms.
///
/// With few streams each write is made within some tens of microseconds of its due time. With many, writes that fall
/// due within a tick share one wake-up and are up to a tick late; lateness never adds up, because due times do not
/// move. A longer tick saves wake-ups, each of which costs more than a write. Measured with 19,000 streams and a delay
/// of 1 s: 117 µs per stream with a tick of 1 ms, 85 µs with one of 2 ms.
fn tick(answer: &Answer) -> u64 {
    (answer.delay() / 100).clamp(1_000_000, 5_000_000)
}

/// A shard. Dropping it closes its streams and counts them as canceled.
#[derive(Debug)]
pub(crate) struct Shard {
    index: usize,
    shared: Arc<Shared>,
    /// The listener; `None` once the daemon stops and the accept queue is empty.
    listener: Option<AsyncFd<OwnedFd>>,
    stopping: Receiver<bool>,
    streams: DueQueue,
    slow_paths: JoinSet<SlowPath>,
    /// Number of exceptions that wait for senders, and number of those that wait for clients.
    waiting: usize,
    blocked: usize,
    timer: Timer,
    buffer: Buffer,
    scratch: Vec<u8>,
    /// Time before which nothing is accepted, after the process ran out of descriptors; otherwise 0.
    accept_from: u64,
    /// Number of handoffs taken since its turn began.
    taken: u32,
    /// True if the last batch left handoffs: more are accepted regardless of turns.
    is_rushing: bool,
    /// See [`tick`].
    tick: u64,
    /// Time of the last write.
    last_served: u64,
}

/// The end of an exception: see [`Incoming::readable`], [`Stream::unblock`] and [`relay`](crate::relay::relay).
#[derive(Debug)]
enum SlowPath {
    Sender(Result<Incoming, HandoffFailure>),
    Client(usize, Result<Stream, StreamFailure>),
    /// A relay, which has counted itself, or a client that was given time to read its response.
    Closed,
}

impl Shard {
    /// Creates shard number `index`, which accepts from `listener`, its own descriptor of the shared socket, until
    /// `stopping` turns true. Needs a Tokio runtime.
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
            streams: DueQueue::default(),
            slow_paths: JoinSet::new(),
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

    /// Serves until the daemon stops and the last stream is over. Dropping the future closes all streams.
    ///
    /// Accepting comes first, since the accept queue is short (4,096) and a full one refuses handoffs, while a write
    /// can be late. Writes still get a small share; `Shard::write_budget` defines the shares.
    pub(crate) async fn run(mut self) -> io::Result<()> {
        loop {
            let stopping = *self.stopping.borrow_and_update();
            self.end_pause();
            let accepts = stopping || self.is_rushing || self.has_turn();
            let queue = accepts.then(|| self.accept_batch());
            self.is_rushing = queue == Some(Queue::More);
            let accepted_all = !self.is_rushing;
            while let Some(ended) = self.slow_paths.try_join_next() {
                self.settle(ended);
            }
            let served_all = self.serve(self.write_budget(accepted_all));
            // Not during a pause: the queue was not read then.
            if stopping && queue == Some(Queue::Drained) {
                self.listener = None;
            }
            if self.is_over() {
                return Ok(());
            }
            if self.has_turn() && (self.taken >= intake::BATCH || !served_all) {
                self.taken = 0;
                self.shared.accept_token.pass_on(self.index);
            }
            if accepted_all && served_all {
                self.wait().await?;
            } else {
                // Lets the metrics page and the exceptions run.
                yield_now().await;
            }
        }
    }

    fn has_turn(&self) -> bool {
        self.shared.accept_token.is_of(self.index)
    }

    fn is_over(&self) -> bool {
        self.listener.is_none() && self.streams.is_empty() && self.slow_paths.is_empty()
    }

    /// Waits for the first of these: a handoff, a due time, an exception's end, the shutdown.
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
            () = self.shared.accept_token.acquired(self.index), if !has_turn => Ok(()),
            expired = self.timer.expired(), if wake.is_some() => expired,
            Some(ended) = self.slow_paths.join_next() => {
                self.settle(ended);
                Ok(())
            }
            _ = self.stopping.changed(), if self.listener.is_some() => Ok(()),
        }
    }

    /// Returns the time at which the timer has to wake this shard.
    fn next_wake(&self) -> Option<u64> {
        let next_due = self.streams.next_due();
        let next_write = next_due.map(|due| due.max(self.last_served + self.tick));
        let next_accept = self.is_accept_paused().then_some(self.accept_from);
        next_write.into_iter().chain(next_accept).min()
    }

    /// Ends the pause when it is over. Only this function reads the clock, so that the whole round sees the same state.
    fn end_pause(&mut self) {
        if self.is_accept_paused() && self.accept_from <= clock::now() {
            self.accept_from = 0;
        }
    }

    fn is_accept_paused(&self) -> bool {
        self.accept_from > 0
    }

    fn settle(&mut self, ended: Result<SlowPath, JoinError>) {
        match ended.expect("slow paths neither panic nor are aborted while their shard lives") {
            SlowPath::Sender(waited) => {
                self.waiting -= 1;
                self.on_sender_ready(waited);
            }
            SlowPath::Client(bytes, stream) => {
                self.blocked -= 1;
                self.resume(bytes, stream);
            }
            SlowPath::Closed => {}
        }
    }

    /// Closes a client after it has had time to read the end of its response.
    fn linger(&mut self, client: OwnedFd) {
        let shared = Arc::clone(&self.shared);
        self.slow_paths.spawn(async move {
            linger(client, &shared.lingering).await;
            SlowPath::Closed
        });
    }
}

/// Waits until the listener may have something, and clears its readiness: the caller accepts until nothing is left, and
/// later arrivals are a new event.
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

#[cfg(test)]
mod simulated_peers;
