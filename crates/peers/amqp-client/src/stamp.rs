//! The stamp at the head of each body: run, producer, number of the message, intended start, and a checksum.
//!
//! | bytes | content |
//! | --- | --- |
//! | 0–3 | the checksum, or the letters `Drov` of a body without one |
//! | 4–7 | a number drawn for the run, which sets the messages of an earlier run apart |
//! | 8–11 | the stream: twice the number of the producer, plus 1 where the message counts (0 in the warm-up) |
//! | 12–19 | the number of the message in its stream, from 0 without a gap |
//! | 20–27 | the intended start, nanoseconds of CLOCK_MONOTONIC; with `--wall-clock` since 1970 |
//!
//! All numbers are big-endian, as AMQP's are. The checksum is the CRC-32C of the octets after the stamp, the length of the body
//! (8 bytes) and bytes 4 to 27, in this order: the part that all messages share is summed once.

/// The length of a stamp, bytes: the smallest body.
pub const BYTES: usize = 28;

/// Replaces the checksum in bodies of a version that had none.
const WITHOUT: [u8; 4] = *b"Drov";
/// The offset of the part after the checksum.
const NAMED: usize = 4;
/// Exclusive upper bound of stream numbers: two for each producer of the largest plan.
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

/// Returns the stream of a producer's messages that count, or of its warm-up.
#[must_use]
pub fn stream(producer: u32, counts: bool) -> u32 {
    2 * producer + u32::from(counts)
}

/// Returns true if the messages of a stream count.
#[must_use]
pub fn counts(stream: u32) -> bool {
    stream % 2 == 1
}

/// The checksum and length of the octets after the stamp, which all messages of a producer share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BodySum {
    sum: u32,
    bytes: u64,
}

impl BodySum {
    /// Sums the octets of a body after its stamp; the stamp may be missing yet.
    #[must_use]
    pub fn new(body: &[u8]) -> Self {
        let mut rest = Self::default();
        rest.add(body.get(BYTES..).unwrap_or_default());
        rest
    }

    /// Adds the next octets.
    pub fn add(&mut self, piece: &[u8]) {
        self.sum = crc32c::crc32c_append(self.sum, piece);
        self.bytes += piece.len() as u64;
    }
}

/// A stamp that is not verified yet, with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StampHead {
    /// The stamp.
    pub stamp: Stamp,
    sum: [u8; 4],
}

impl StampHead {
    /// Reads the head of a body. Returns `None` if it can't be a stamp.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let body: &[u8; BYTES] = body.get(..BYTES)?.try_into().ok()?;
        let word =
            |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let stamp = Stamp {
            run: word(4),
            stream: word(8),
            sequence: long(12),
            start: long(20),
        };
        let sum = [body[0], body[1], body[2], body[3]];
        (stamp.stream < MOST_STREAMS).then_some(Self { stamp, sum })
    }

    /// Returns true if the checksum matches the octets after the stamp, or if the body has no checksum.
    #[must_use]
    pub fn is_intact(&self, rest: &BodySum) -> bool {
        self.sum == WITHOUT || self.sum == self.stamp.sum(rest)
    }
}

impl Stamp {
    /// Writes the stamp into a body that is complete otherwise.
    pub fn write(&self, body: &mut [u8]) {
        let rest = BodySum::new(body);
        self.put(&mut body[..BYTES], &rest);
    }

    /// Writes the stamp of a body with this sum into its first octets.
    pub fn put(&self, bytes: &mut [u8], rest: &BodySum) {
        bytes[..NAMED].copy_from_slice(&self.sum(rest));
        bytes[NAMED..BYTES].copy_from_slice(&self.bytes());
    }

    fn bytes(&self) -> [u8; BYTES - NAMED] {
        let mut bytes = [0; BYTES - NAMED];
        bytes[..4].copy_from_slice(&self.run.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.stream.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..].copy_from_slice(&self.start.to_be_bytes());
        bytes
    }

    fn sum(&self, rest: &BodySum) -> [u8; 4] {
        let mut last = [0; 8 + BYTES - NAMED];
        last[..8].copy_from_slice(&(rest.bytes + BYTES as u64).to_be_bytes());
        last[8..].copy_from_slice(&self.bytes());
        crc32c::crc32c_append(rest.sum, &last).to_be_bytes()
    }

    /// Returns the stamp of a body and if its checksum matches; `None` if the body cannot have a stamp.
    #[must_use]
    pub fn check(body: &[u8]) -> Option<(Self, bool)> {
        let beginning = StampHead::read(body)?;
        Some((beginning.stamp, beginning.is_intact(&BodySum::new(body))))
    }

    /// Returns the stamp of a body whose checksum matches.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        Self::check(body).and_then(|(stamp, is_intact)| is_intact.then_some(stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        run: 7,
        stream: 7,
        sequence: u64::MAX - 1,
        start: 1 << 60,
    };

    #[test]
    fn a_stamp_reads_back_and_anything_else_is_none() {
        let mut body = [9; 40];
        STAMP.write(&mut body);
        assert_eq!(Stamp::read(&body), Some(STAMP));
        assert!(stream(3, true) == 7 && counts(7) && !counts(stream(3, false)));
        assert_eq!(Stamp::check(&body[..BYTES - 1]), None);
        let mut small = [0; BYTES];
        STAMP.write(&mut small);
        assert_eq!(Stamp::read(&small), Some(STAMP));
    }

    #[test]
    fn one_bit_that_is_another_and_every_cut_is_seen() {
        let mut body: Vec<u8> = (0..100).collect();
        STAMP.write(&mut body);
        for bit in 0..8 * body.len() {
            let mut other = body.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Stamp::read(&other), None, "bit {bit}");
        }
        for length in BYTES..body.len() {
            assert_eq!(Stamp::check(&body[..length]), Some((STAMP, false)));
        }
        assert_eq!(Stamp::read(&[&body[..], &[0]].concat()), None);
    }

    #[test]
    fn a_body_of_a_version_without_checksum_is_taken_as_it_is() {
        let mut body = [b'x'; 40];
        STAMP.write(&mut body);
        body[..4].copy_from_slice(b"Drov");
        assert_eq!(Stamp::read(&body), Some(STAMP));
    }
}
