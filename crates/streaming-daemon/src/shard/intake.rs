//! How a shard takes handoffs.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};

use super::{Exception, Shard};
use crate::clock;
use crate::failure::HandoffFailure;
use crate::handoff::{Handoff, Incoming, Progress};
use crate::head::REFUSAL;
use crate::socket::accept;
use crate::stream::Stream;

/// So many handoffs are taken before writes get a turn: about half a millisecond.
pub(super) const BATCH: u32 = 64;

/// How long nothing is accepted after the process ran out of descriptors (10 ms). Trying again at
/// once would spin, for the connection stays in the queue.
const PAUSE: u64 = 10_000_000;

impl Shard {
    /// Takes up to a batch of handoffs. Returns whether that was all there is to take now.
    pub(super) fn accept_batch(&mut self) -> bool {
        if self.is_accept_paused() {
            return true;
        }
        for _ in 0..BATCH {
            let Some(listener) = &self.listener else {
                return true;
            };
            match accept(listener.get_ref()) {
                Ok(connection) => {
                    self.taken += 1;
                    self.take(connection);
                }
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                // EINVAL: shut down, and nothing waits any more.
                Err(Errno::EAGAIN | Errno::EINVAL) => return true,
                Err(errno) => {
                    self.pause_accepting(errno);
                    return true;
                }
            }
        }
        false
    }

    fn pause_accepting(&mut self, errno: Errno) {
        let failure = HandoffFailure::OutOfDescriptors;
        self.shared.metrics.handoff_flaw(failure);
        self.shared
            .log
            .warn(format_args!("accepting: {failure} ({errno})"));
        self.accept_from = clock::now() + PAUSE;
    }

    /// Reads a handoff connection. Nearly always the message is there already.
    fn take(&mut self, connection: OwnedFd) {
        self.shared.metrics.connection_opened();
        let mut incoming = Incoming::new(clock::now());
        match incoming.advance(&connection, self.shared.socket_type, &mut self.buffer) {
            Ok(Progress::Whole) => {
                let handoff = incoming.finish(connection, &self.buffer, &self.shared);
                self.begin(handoff);
            }
            Ok(Progress::Wait) => self.take_later(connection, incoming),
            Err(failure) => self.begin(Err(failure)),
        }
    }

    fn take_later(&mut self, connection: OwnedFd, incoming: Incoming) {
        let buffer = incoming.own_buffer(&self.buffer);
        let shared = Arc::clone(&self.shared);
        self.waiting += 1;
        self.exceptions.spawn(async move {
            Exception::Received(incoming.finish_later(connection, buffer, &shared).await)
        });
    }

    /// Begins the stream of a handoff, or counts what was wrong with it.
    pub(super) fn begin(&mut self, handoff: Result<Handoff, HandoffFailure>) {
        let shared = &self.shared;
        let handoff = match handoff {
            Ok(handoff) => handoff,
            Err(failure) => return self.refuse(failure),
        };
        let now = clock::now();
        shared
            .metrics
            .handoff_done(now.saturating_sub(handoff.accepted));
        if shared.metrics.try_start_stream(shared.capacity) {
            self.streams.push(Stream::new(handoff, now));
        } else {
            turn_away(&handoff.client);
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
            self.accept_from = clock::now() + PAUSE;
        }
    }
}

/// Answers 503. A fresh socket takes it at once; to one that does not, the close has to say it.
fn turn_away(client: &OwnedFd) {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let _ = send(client.as_raw_fd(), REFUSAL.as_bytes(), flags);
}
