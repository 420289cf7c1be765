//! Reads encoded histograms without a dense copy of each.
//!
//! A worker's second has some hundred different values, of the 33,792 that a histogram of the common shape
//! distinguishes. Adding 200 of them takes 7 µs on a 2-core machine, and 3,000 take 50 µs; a decoder that writes and
//! reads all 33,792 counts needs 35 µs and 80 µs.

use std::sync::LazyLock;

use base64::Engine as _;
use flate2::{Decompress, FlushDecompress, Status};
use hdrhistogram::serialization::{Serializer as _, V2Serializer};

use super::{BASE64, DIGITS, DecodeError, Distribution, HIGHEST_NS, histogram};

/// First four bytes of a deflated V2 histogram; the length of the rest follows.
pub(super) const DEFLATED_COOKIE: [u8; 4] = (0x1c84_9304_u32 | 0x10).to_be_bytes();
/// Number of bytes before the counts.
pub(crate) const HEADER: usize = 40;
/// Maximum number of bytes of one count.
const LONGEST_COUNT: usize = 9;
/// Binary logarithm of the number of counts per power of two: 1,024 counts are the fewest that keep 3 digits.
const COUNTS_LOG2: u32 = (2 * 10_u64.pow(DIGITS as u32)).next_power_of_two().ilog2() - 1;
/// Number of counts of the common shape. The values below twice 1,024 have one each, and every further power of two up
/// to the highest value's has 1,024.
const COUNTS: usize = ((HIGHEST_NS.ilog2() - COUNTS_LOG2 + 2) as usize) << COUNTS_LOG2;

/// The header of every histogram of the common shape: a cookie, the length of the counts, and the shape.
pub(super) static COMMON: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut empty = Vec::new();
    let mut serializer = V2Serializer::new();
    let written = serializer.serialize(&histogram(), &mut empty);
    written.expect("writing to memory does not fail");
    empty.truncate(HEADER);
    empty
});

/// Decodes histograms and adds them to distributions. It keeps its buffers, some 350 KiB, for the next histogram.
///
/// The format is the V2 encoding of HdrHistogram, deflated, as its `org.HdrHistogram.EncodableHistogram` writes it in
/// Java and `V2DeflateSerializer` in Rust: behind the cookie and the length of the rest, a zlib stream of the header and
/// the counts in the order of the values. A count is a ZigZag LEB128 number of at most 9 bytes, whose ninth has 8 bits of
/// the number. A negative number stands for that many counts of zero.
#[derive(Debug)]
pub struct Decoder {
    inflater: Decompress,
    inflated: Vec<u8>,
    /// The values that were counted, with their counts.
    counts: Vec<(u64, u64)>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Creates a decoder.
    pub fn new() -> Self {
        Self {
            inflater: Decompress::new(true),
            // The longest encoding of the common shape. A longer output is an error, so a small text cannot fill the
            // memory.
            inflated: vec![0; HEADER + COUNTS * LONGEST_COUNT],
            counts: Vec::new(),
        }
    }

    /// Adds the values of an encoded histogram to `into`; `clamped` of them were clamped when they were recorded. After
    /// an error, `into` is unchanged.
    ///
    /// # Errors
    /// The text is not base64, or not a deflated V2 histogram of the common shape.
    pub fn add(
        &mut self,
        text: &str,
        clamped: u64,
        into: &mut Distribution,
    ) -> Result<(), DecodeError> {
        self.read(text)?;
        if self.counts.is_empty() {
            return Ok(());
        }
        let histogram = into.get_or_init();
        for (value, count) in &self.counts {
            histogram
                .record_n(*value, *count)
                .expect("the index was compared with the number of counts");
        }
        into.clamped = into.clamped.saturating_add(clamped);
        Ok(())
    }

    fn read(&mut self, text: &str) -> Result<(), DecodeError> {
        let bytes = BASE64.decode(text).map_err(|_| DecodeError::Base64)?;
        let stream = bytes.strip_prefix(&DEFLATED_COOKIE);
        let stream = stream.and_then(|rest| rest.get(4..));
        let stream = stream.ok_or_else(|| malformed("it does not begin as a V2 histogram"))?;
        self.inflater.reset(true);
        // With `Finish`, the stream is inflated into the buffer at once, without a window in between.
        let finish = FlushDecompress::Finish;
        let status = self.inflater.decompress(stream, &mut self.inflated, finish);
        if !matches!(status, Ok(Status::StreamEnd)) {
            return Err(malformed("its deflated part is damaged or too long"));
        }
        let inflated = &self.inflated[..self.inflater.total_out() as usize];
        let (header, mut bytes) = inflated
            .split_at_checked(HEADER)
            .ok_or_else(|| malformed("it ends too early"))?;
        // The stream has a checksum, which makes the length of the counts redundant.
        if (&header[..4], &header[8..]) != (&COMMON[..4], &COMMON[8..]) {
            return Err(malformed("it does not range from 1 ns to 1 h at 3 digits"));
        }
        self.counts.clear();
        let mut index = 0_usize;
        while !bytes.is_empty() {
            let number = take_number(&mut bytes)?;
            let zeros = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
            let next = index.saturating_add(if number < 0 { zeros } else { 1 });
            if next > COUNTS {
                return Err(malformed("it has more counts than its shape"));
            }
            if number > 0 {
                self.counts.push((value_at(index), number.unsigned_abs()));
            }
            index = next;
        }
        Ok(())
    }
}

/// Returns the values and their counts of an encoded histogram.
///
/// # Errors
/// As [`Decoder::add`].
#[cfg(feature = "report")]
pub(crate) fn recorded(text: &str) -> Result<Vec<(u64, u64)>, DecodeError> {
    let mut decoder = Decoder::new();
    decoder.read(text)?;
    Ok(decoder.counts)
}

/// Returns the lowest value that is counted at an index of the common shape.
fn value_at(index: usize) -> u64 {
    // Both the first and the second power of two have steps of 1 ns.
    let shift = (index >> COUNTS_LOG2).saturating_sub(1);
    ((index - (shift << COUNTS_LOG2)) as u64) << shift
}

/// Takes a ZigZag LEB128 number off.
fn take_number(bytes: &mut &[u8]) -> Result<i64, DecodeError> {
    let mut bits = 0;
    for at in 0..LONGEST_COUNT {
        let (byte, rest) = bytes
            .split_first()
            .ok_or_else(|| malformed("it ends too early"))?;
        *bytes = rest;
        let is_last = *byte < 0x80 || at + 1 == LONGEST_COUNT;
        let part = if is_last { *byte } else { byte & 0x7f };
        bits |= u64::from(part) << (7 * at);
        if is_last {
            break;
        }
    }
    Ok((bits >> 1) as i64 ^ -((bits & 1) as i64))
}

fn malformed(reason: &str) -> DecodeError {
    DecodeError::Histogram(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::V2DeflateSerializer;

    use super::*;

    #[test]
    fn every_index_has_the_value_that_the_histogram_counts_there() {
        let histogram = histogram();
        let values = histogram.iter_all();
        let lowest = values.map(|step| histogram.lowest_equivalent(step.value_iterated_to()));
        assert!(lowest.eq((0..COUNTS).map(value_at)));
    }

    #[test]
    fn a_number_is_read_as_the_format_writes_it() {
        for (mut bytes, number) in [
            (&[0][..], 0),
            (&[1], -1),
            (&[2], 1),
            (&[0x7f], -64),
            (&[0x80, 1], 64),
            (&[0xff; 9], i64::MIN),
        ] {
            assert_eq!(take_number(&mut bytes).unwrap(), number);
            assert!(bytes.is_empty(), "{number}");
        }
        take_number(&mut &[0x80][..]).unwrap_err();
    }

    #[test]
    fn another_shape_and_a_damaged_stream_are_refused() {
        let mut other = Histogram::<u64>::new_with_bounds(1, HIGHEST_NS, 2).unwrap();
        other.record(1).unwrap();
        let mut bytes = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        serializer.serialize(&other, &mut bytes).unwrap();
        let shape = Distribution::decode(&BASE64.encode(&bytes), 0).unwrap_err();
        assert!(shape.to_string().contains("at 3 digits"), "{shape}");
        bytes.pop();
        for damaged in [&bytes[..], &bytes[..9], &bytes[..4], b"none"] {
            Distribution::decode(&BASE64.encode(damaged), 0).unwrap_err();
        }
    }
}
