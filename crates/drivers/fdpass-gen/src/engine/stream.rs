//! A stream in flight.
//!
//! Memory per stream: this entry takes 72 bytes, 80 with its generation; the kernel keeps about 7 KB for the socket
//! pair, outside any process's memory. There is no read buffer per stream: 10,000 streams are 0.8 MB.

use std::os::fd::OwnedFd;

use nix::errno::Errno;

use crate::expect::Expected;
use fdpass_client::sse::{Fault, Reader, Seen};

/// A stream in flight.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Our end of the client.
    pub(crate) client: OwnedFd,
    /// The handoff connection, until the daemon closes it.
    pub(crate) handoff: Option<OwnedFd>,
    /// True if it began in the measured time.
    pub(crate) counted: bool,
    /// True if its times count as well.
    pub(crate) timed: bool,
    /// The reading behaviour of its client.
    pub(crate) reads: Reads,
    /// Index of the daemon that it was handed to.
    pub(crate) endpoint: u8,
    /// Parser state of the answer.
    pub(crate) reader: Reader,
    /// The intended start.
    pub(crate) start: u64,
    /// Time at which the message was sent.
    pub(crate) sent: u64,
    /// Time at which the handoff was over.
    pub(crate) handed: u64,
    /// Time of the last bytes.
    pub(crate) last: u64,
    /// Time of the last record.
    pub(crate) event: u64,
    /// Bytes received.
    pub(crate) bytes: u32,
    /// Bytes of its records.
    body: u32,
    /// A record cut by a read: rare, so it is a pointer.
    #[expect(
        clippy::box_collection,
        reason = "8 bytes in every stream where a Vec is 24"
    )]
    cut: Option<Box<Vec<u8>>>,
}

/// The reading behaviour of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Reads everything at once.
    Promptly,
    /// Reads a few bytes, then pauses.
    Slowly,
    /// Reads nothing.
    Never,
}

/// An attempt to start a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// The intended start.
    pub(crate) start: u64,
    pub(crate) counted: bool,
    pub(crate) timed: bool,
    pub(crate) reads: Reads,
    pub(crate) endpoint: u8,
    /// Number of connects that failed before it, and the error of the last one.
    pub(crate) failed: u32,
    pub(crate) errno: Errno,
}

impl Stream {
    pub(crate) fn new(
        client: OwnedFd,
        handoff: OwnedFd,
        attempt: &Attempt,
        sent: u64,
        handed: u64,
    ) -> Self {
        Self {
            client,
            handoff: Some(handoff),
            counted: attempt.counted,
            timed: attempt.timed,
            reads: attempt.reads,
            endpoint: attempt.endpoint,
            reader: Reader::default(),
            start: attempt.start,
            sent,
            handed,
            last: handed,
            event: handed,
            bytes: 0,
            body: 0,
            cut: None,
        }
    }

    /// Parses a piece of the answer, and compares its records with the expected ones.
    pub(crate) fn read(&mut self, bytes: &[u8], expected: &mut Expected) -> Result<Seen, Fault> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u32);
        let Some(mut cut) = self.cut.take() else {
            return self.take(bytes, expected);
        };
        cut.extend_from_slice(bytes);
        self.take(&cut, expected)
    }

    fn take(&mut self, bytes: &[u8], expected: &mut Expected) -> Result<Seen, Fault> {
        let seen = self.reader.read(bytes)?;
        if !seen.rejected {
            let records = &bytes[seen.head..seen.consumed];
            expected.take(self.body as usize, records)?;
            self.body = self.body.saturating_add(records.len() as u32);
        }
        let rest = &bytes[seen.consumed..];
        self.cut = (!rest.is_empty()).then(|| Box::new(rest.to_vec()));
        Ok(seen)
    }

    /// Returns true if the stream has reached its end marker.
    pub(crate) fn complete(&self) -> bool {
        self.reader.done() && self.cut.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_as_small_as_the_sketch_says() {
        assert!(size_of::<Stream>() <= 72, "{} bytes", size_of::<Stream>());
    }
}
