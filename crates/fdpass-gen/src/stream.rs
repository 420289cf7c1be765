//! One stream in flight.
//!
//! Bytes per stream: this entry is 72, with its generation 80; the kernel keeps about 7 KB for the socket pair, in no
//! process's memory. There is no read buffer of its own: 10,000 streams are 0.8 MB.

use std::os::fd::OwnedFd;

use crate::expect::{Expected, Unexpected};
use crate::sse::{Fault, Reader};
use crate::transcript::Difference;

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
    /// Bytes of its records.
    body: u32,
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

/// Why a stream is given up.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) fault: Fault,
    /// Where a text differs from the expected one.
    pub(crate) difference: Option<Difference>,
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            difference: None,
        }
    }
}

impl From<Unexpected> for Broken {
    fn from(unexpected: Unexpected) -> Self {
        match unexpected {
            Unexpected::End => Fault::Order.into(),
            Unexpected::Content(difference) => Self {
                fault: Fault::Content,
                difference: Some(difference),
            },
        }
    }
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
            body: 0,
            cut: None,
        }
    }

    /// Reads a piece of the answer, and compares its records with what is expected.
    pub(crate) fn read(&mut self, bytes: &[u8], expected: &mut Expected) -> Result<Piece, Broken> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u32);
        let Some(mut cut) = self.cut.take() else {
            return self.take(bytes, expected);
        };
        cut.extend_from_slice(bytes);
        self.take(&cut, expected)
    }

    fn take(&mut self, bytes: &[u8], expected: &mut Expected) -> Result<Piece, Broken> {
        let seen = self.reader.read(bytes)?;
        if !seen.rejected {
            let records = &bytes[seen.head..seen.consumed];
            expected.take(self.body as usize, records)?;
            self.body = self.body.saturating_add(records.len() as u32);
        }
        self.keep(&bytes[seen.consumed..]);
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
