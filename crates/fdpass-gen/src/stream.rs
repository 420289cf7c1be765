//! One stream in flight.
//!
//! Bytes per stream: this entry is 72, with its generation 80; the kernel keeps about 7 KB for the socket pair, in no
//! process's memory. There is no read buffer of its own: 10,000 streams are 0.8 MB.

use std::os::fd::OwnedFd;

use crate::sse::{Fault, Reader};

/// One stream in flight.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Our end.
    pub(crate) client: OwnedFd,
    /// The handoff connection, until the daemon closes it.
    pub(crate) handoff: Option<OwnedFd>,
    /// Whether it began in the measured time.
    pub(crate) counted: bool,
    /// Whether its times count as well.
    pub(crate) timed: bool,
    /// How its client reads.
    pub(crate) reads: Reads,
    /// The daemon that it was handed to, by its place among those of the run.
    pub(crate) door: u8,
    /// Where the answer stands.
    pub(crate) reader: Reader,
    /// The instant that it counts from.
    pub(crate) start: u64,
    /// When the message was sent.
    pub(crate) sent: u64,
    /// When the handoff was over.
    pub(crate) handed: u64,
    /// When the last bytes came.
    pub(crate) last: u64,
    /// When the last record came.
    pub(crate) event: u64,
    /// Bytes that came.
    pub(crate) bytes: u32,
    /// A record that a read has cut: rare, so it is a pointer.
    #[expect(
        clippy::box_collection,
        reason = "8 bytes in every stream where a Vec is 24"
    )]
    cut: Option<Box<Vec<u8>>>,
}

/// How a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// What has come, at once.
    Promptly,
    /// A sip, and then it rests.
    Slowly,
    /// Nothing.
    Never,
}

/// What a start is from its beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Birth {
    /// The instant that it counts from.
    pub(crate) start: u64,
    pub(crate) counted: bool,
    pub(crate) timed: bool,
    pub(crate) reads: Reads,
    pub(crate) door: u8,
}

/// What a piece of the answer held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Records that ended in it.
    pub(crate) records: u32,
    /// The daemon is at capacity.
    pub(crate) rejected: bool,
}

impl Stream {
    pub(crate) fn new(
        client: OwnedFd,
        handoff: OwnedFd,
        birth: Birth,
        sent: u64,
        handed: u64,
    ) -> Self {
        let reader = Reader::default();
        Self {
            client,
            handoff: Some(handoff),
            counted: birth.counted,
            timed: birth.timed,
            reads: birth.reads,
            door: birth.door,
            reader,
            start: birth.start,
            sent,
            handed,
            last: handed,
            event: handed,
            bytes: 0,
            cut: None,
        }
    }

    /// Reads a piece of the answer.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<Piece, Fault> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u32);
        let seen = match self.cut.take() {
            None => {
                let seen = self.reader.read(bytes)?;
                self.keep(&bytes[seen.consumed..]);
                seen
            }
            Some(mut cut) => {
                cut.extend_from_slice(bytes);
                let seen = self.reader.read(&cut)?;
                self.keep(&cut[seen.consumed..]);
                seen
            }
        };
        Ok(Piece {
            records: seen.records,
            rejected: seen.rejected,
        })
    }

    fn keep(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.cut = Some(Box::new(rest.to_vec()));
        }
    }

    /// Whether the stream ended where it should.
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
