//! The intake of handoffs by a shard.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use daemon_kit::accept_waiting;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};

use super::{Shard, SlowPath};
use crate::failure::HandoffFailure;
use crate::handoff::{Handoff, Work};
use crate::head::REFUSAL;
use crate::incoming::Incoming;
use crate::relay::relay;
use crate::stream::Stream;
use daemon_kit::clock;

/// Number of handoffs taken before writes get a turn: about half a millisecond.
pub(super) const BATCH: u32 = 64;

/// Pause of accepting after the process ran out of descriptors (10 ms). Retrying at once would spin, since the
/// connection stays in the queue.
const ACCEPT_PAUSE: u64 = 10_000_000;

/// The state of the accept queue after a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    /// The queue is empty.
    Drained,
    /// The queue was not read to its end: the process is out of descriptors.
    Paused,
    /// The queue probably contains more.
    More,
}

impl Shard {
    /// Takes up to a batch of handoffs. Stops if one of them lost its client for lack of descriptors: the next one
    /// would lose its own.
    pub(super) fn accept_batch(&mut self) -> Queue {
        for _ in 0..BATCH {
            if self.is_accept_paused() {
                return Queue::Paused;
            }
            let Some(listener) = &self.listener else {
                return Queue::Drained;
            };
            match accept_waiting(listener.get_ref()) {
                Ok(connection) => {
                    self.taken += 1;
                    self.take(connection);
                }
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                // EINVAL: shut down, and nothing waits any more.
                Err(Errno::EAGAIN | Errno::EINVAL) => return Queue::Drained,
                Err(errno) => {
                    self.pause_accepting(errno);
                    return Queue::Paused;
                }
            }
        }
        Queue::More
    }

    fn pause_accepting(&mut self, errno: Errno) {
        let failure = HandoffFailure::OutOfDescriptors;
        self.shared.metrics.handoff_flaw(failure);
        self.shared
            .log
            .warn(format_args!("accepting: {failure} ({errno})"));
        self.accept_from = clock::now() + ACCEPT_PAUSE;
    }

    fn take(&mut self, connection: OwnedFd) {
        self.shared.metrics.connection_opened();
        if !self.shared.peers.allow(&connection) {
            // Closed unread: the kernel closes the descriptor in it.
            return self.refuse(HandoffFailure::PeerRefused);
        }
        self.read(Incoming::new(connection, clock::now()));
    }

    /// Reads a handoff connection. Usually the message is already there. But the connect wakes this shard, and if that
    /// preempts the sender on its core, it has not sent yet. (Retrying a little later was measured to help in 3 of
    /// 1,000 such cases: the sender needs the core that we use.)
    fn read(&mut self, mut incoming: Incoming) {
        match incoming.read(self.shared.socket_type, &mut self.buffer) {
            Ok(Some(length)) => self.finish(incoming, length),
            Ok(None) => self.wait_for_sender(incoming),
            Err(failure) => self.refuse(failure),
        }
    }

    fn wait_for_sender(&mut self, incoming: Incoming) {
        self.waiting += 1;
        self.slow_paths
            .spawn(async { SlowPath::Sender(incoming.readable().await) });
    }

    /// Continues with a handoff that was awaited.
    pub(super) fn on_sender_ready(&mut self, waited: Result<Incoming, HandoffFailure>) {
        match waited {
            // A partial payload does not parse: the client is served with the defaults.
            Ok(incoming) => self.read(incoming),
            Err(failure) => self.refuse(failure),
        }
    }

    /// Starts the stream of a complete handoff, if it is valid and there is a free slot.
    fn finish(&mut self, incoming: Incoming, length: usize) {
        let shared = &self.shared;
        let handoff = match Handoff::new(incoming, &self.buffer, length, shared) {
            Ok(handoff) => handoff,
            Err(failure) => return self.refuse(failure),
        };
        let now = clock::now();
        shared
            .metrics
            .handoff_done(now.saturating_sub(handoff.accepted));
        if shared.metrics.try_start_stream(shared.capacity) {
            self.begin(handoff.client, handoff.work, now);
        } else {
            // More may be on its way from a client that has just connected.
            if reject(&handoff.client) {
                self.linger(handoff.client);
            }
        }
    }

    fn begin(&mut self, client: OwnedFd, work: Work, now: u64) {
        match work {
            Work::Events(user_id, opening) => {
                self.streams
                    .push(Stream::new(client, user_id, opening, now));
            }
            Work::Relay(openai, order) => {
                let relay = relay(Arc::clone(&self.shared), openai, client, order, now);
                self.slow_paths.spawn(async {
                    relay.await;
                    SlowPath::Closed
                });
            }
        }
    }

    fn refuse(&mut self, failure: HandoffFailure) {
        self.shared.metrics.handoff_failed(failure);
        if failure != HandoffFailure::Empty {
            self.shared
                .log
                .warn(format_args!("handoff refused: {failure}"));
        }
        if failure == HandoffFailure::Truncated {
            self.accept_from = clock::now() + ACCEPT_PAUSE;
        }
    }
}

/// Responds with 503. A fresh socket accepts it at once; otherwise the close has to tell. Returns false for a client that
/// has left, and for a listening socket, on which a read would wait for ever.
fn reject(client: &OwnedFd) -> bool {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let sent = send(client.as_raw_fd(), REFUSAL.as_bytes(), flags);
    matches!(sent, Ok(_) | Err(Errno::EAGAIN))
}
