//! The stream of one client: 32 bytes, and nothing else while it waits.

use std::cmp::Ordering;
use std::os::fd::OwnedFd;
use std::time::Duration;

use daemon_kit::watch;
use tokio::io::Interest;
use tokio::time::timeout;

use crate::answer::{Answer, Opening};
use crate::client::{send_now, write_all};
use crate::failure::StreamFailure;

/// A stream between two writes.
///
/// The client's socket is not registered with epoll: as long as its buffer accepts the writes, only time has to pass. A
/// client that leaves is noticed at the next write.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Time of the next write, in nanoseconds.
    due: u64,
    user_id: i64,
    /// The opening, freed after the first event, so that a held stream does not pay for its prompt.
    opening: Option<Box<Opening>>,
    client: OwnedFd,
    /// The number of the next write.
    write: u32,
}

const _: () = assert!(size_of::<Stream>() == 32);

/// The result of one write.
#[derive(Debug)]
pub(crate) enum Step {
    /// The socket accepted all bytes.
    Sent(usize),
    /// The socket accepted this many bytes, and the rest has to wait for the client.
    Blocked(usize, Vec<u8>),
    Failed(StreamFailure),
}

impl Stream {
    /// Creates a stream whose head is due at `now`.
    pub(crate) fn new(client: OwnedFd, user_id: i64, opening: Opening, now: u64) -> Self {
        Self {
            due: now,
            user_id,
            opening: Some(Box::new(opening)),
            client,
            write: 0,
        }
    }

    pub(crate) fn into_client(self) -> OwnedFd {
        self.client
    }

    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Returns the start of the stream, computed from the due time, which lateness never moves.
    pub(crate) fn started(&self, answer: &Answer) -> u64 {
        self.due - answer.offset(self.write)
    }

    /// Returns the number of events that were written.
    pub(crate) fn events(&self) -> u32 {
        self.write.saturating_sub(1)
    }

    pub(crate) fn is_over(&self, answer: &Answer) -> bool {
        self.write > answer.last_write()
    }

    /// Makes the next write, without waiting.
    pub(crate) fn step(&mut self, answer: &Answer, scratch: &mut Vec<u8>) -> Step {
        let bytes = answer.bytes(self.write, self.opening.as_deref(), self.user_id, scratch);
        let sent = match send_now(&self.client, bytes) {
            Ok(sent) => sent,
            Err(failure) => return Step::Failed(failure),
        };
        let step = match &bytes[sent..] {
            [] => Step::Sent(sent),
            rest => Step::Blocked(sent, rest.to_vec()),
        };
        self.go_on(answer);
        step
    }

    fn go_on(&mut self, answer: &Answer) {
        let (done, next) = (self.write, self.write + 1);
        self.due += answer.offset(next) - answer.offset(done);
        self.write = next;
        if next >= 2 {
            self.opening = None;
        }
    }

    /// Writes `rest` as the client makes room for it. Returns the number of bytes, and the stream if all were written.
    pub(crate) async fn unblock(
        self,
        rest: Vec<u8>,
        limit: Duration,
    ) -> (usize, Result<Self, StreamFailure>) {
        let mut left = &rest[..];
        let written = timeout(limit, write_rest(self.client, &mut left)).await;
        let sent = rest.len() - left.len();
        let stream = match written {
            Ok(Ok(client)) => Ok(Self { client, ..self }),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(StreamFailure::Timeout),
        };
        (sent, stream)
    }
}

async fn write_rest(client: OwnedFd, left: &mut &[u8]) -> Result<OwnedFd, StreamFailure> {
    let watched = watch(client, Interest::WRITABLE).map_err(|_| StreamFailure::Other)?;
    write_all(&watched, left).await?;
    Ok(watched.into_inner())
}

/// The order of streams is reversed: the one due first is the greatest, which a heap yields first.
impl Ord for Stream {
    fn cmp(&self, other: &Self) -> Ordering {
        other.due.cmp(&self.due)
    }
}

impl PartialOrd for Stream {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Stream {}
