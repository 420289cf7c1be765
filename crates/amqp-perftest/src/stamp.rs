//! What each body begins with: who sent it in which run, its number, and when it was meant to start.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0–3 | the letters `Drov` |
//! | 4–7 | a number drawn for the run, so that what an earlier one left in a queue is told apart |
//! | 8–11 | the stream: twice the number of the producer, plus 1 where the message counts (0 in the warm-up) |
//! | 12–19 | the number of the message in its stream, from 0 without a gap |
//! | 20–27 | the intended start, nanoseconds of CLOCK_MONOTONIC; with `--wall-clock` since 1970 |
//!
//! All numbers are big-endian, as AMQP's are.

/// Bytes of a stamp: the smallest body.
pub const BYTES: usize = 28;

const MAGIC: [u8; 4] = *b"Drov";
/// Where the part begins that differs from message to message of one producer.
pub(crate) const CHANGING: usize = 8;
/// Streams above this are nobody's: two for each of the most producers that a plan may have.
const MOST_STREAMS: u32 = 2_000_000;

/// The stamp of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The run.
    pub run: u32,
    /// The producer and whether the message counts: see [`stream`].
    pub stream: u32,
    /// The number of the message in its stream.
    pub sequence: u64,
    /// The intended start, nanoseconds of CLOCK_MONOTONIC, or since 1970.
    pub start: u64,
}

/// The stream of a producer's messages that count, or of those of its warm-up.
#[must_use]
pub fn stream(producer: u32, counts: bool) -> u32 {
    2 * producer + u32::from(counts)
}

/// Whether the messages of a stream count.
#[must_use]
pub fn counts(stream: u32) -> bool {
    stream % 2 == 1
}

impl Stamp {
    /// Writes the whole stamp.
    pub fn write(&self, body: &mut [u8]) {
        body[..4].copy_from_slice(&MAGIC);
        body[4..CHANGING].copy_from_slice(&self.run.to_be_bytes());
        self.rewrite(&mut body[CHANGING..BYTES]);
    }

    /// Writes what differs from message to message, into the bytes from [`CHANGING`] on.
    pub(crate) fn rewrite(&self, changing: &mut [u8]) {
        changing[..4].copy_from_slice(&self.stream.to_be_bytes());
        changing[4..12].copy_from_slice(&self.sequence.to_be_bytes());
        changing[12..20].copy_from_slice(&self.start.to_be_bytes());
    }

    /// Reads the stamp of a body, if it has one.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let body: &[u8; BYTES] = body.get(..BYTES)?.try_into().ok()?;
        let word =
            |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let stamp = Self {
            run: word(4),
            stream: word(8),
            sequence: long(12),
            start: long(20),
        };
        (body[..4] == MAGIC && stamp.stream < MOST_STREAMS).then_some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_back_and_anything_else_is_none() {
        let stamp = Stamp {
            run: 7,
            stream: stream(3, true),
            sequence: u64::MAX - 1,
            start: 1 << 60,
        };
        let mut body = [9; 40];
        stamp.write(&mut body);
        assert_eq!(Stamp::read(&body), Some(stamp));
        assert!(counts(stamp.stream) && !counts(stream(3, false)));
        assert_eq!(Stamp::read(&body[..BYTES - 1]), None);
        body[0] = b'x';
        assert_eq!(Stamp::read(&body), None);
    }
}
