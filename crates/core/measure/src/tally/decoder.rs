//! Reads encoded histograms without a dense copy of each.
//!
//! A worker's second has some hundred different values, of the 33,792 that a histogram of the common shape
//! distinguishes. On a 2-core machine, adding 200 of them takes 7 µs here, and 3,000 take 50 µs. With
//! [`Distribution::decode`] and [`Distribution::merge`], which write and read all 33,792 counts, these are 35 µs and
//! 80 µs, and 100 µs more if the allocator has returned the memory of the previous one.

use base64::Engine as _;
use flate2::{Decompress, FlushDecompress, Status};

use super::{BASE64, DIGITS, DecodeError, Distribution, HIGHEST_NS, LOWEST_NS};

/// First four bytes of a deflated V2 histogram.
const DEFLATED_COOKIE: u32 = 0x1c84_9304 | 0x10;
/// First four bytes of a V2 histogram.
const COOKIE: u32 = 0x1c84_9303 | 0x10;
/// Number of bytes before the counts.
const HEADER: usize = 40;
/// Maximum number of bytes of one count.
const LONGEST_COUNT: usize = 9;

/// Binary logarithm of the number of counts per power of two: 1,024 counts are the fewest that keep 3 digits.
const COUNTS_LOG2: u32 = (2 * 10_u64.pow(DIGITS as u32)).next_power_of_two().ilog2() - 1;
/// Number of counts of the common shape. The values below twice 1,024 have one each, and every further power of two up
/// to that of the highest value has 1,024.
const COUNTS: usize = ((HIGHEST_NS.ilog2() - COUNTS_LOG2 + 2) as usize) << COUNTS_LOG2;

/// Decodes histograms and adds them to distributions. It keeps its buffers, some 350 KiB, for the next histogram.
///
/// The format is the V2 encoding of HdrHistogram, deflated, as its `org.HdrHistogram.EncodableHistogram` writes it in
/// Java and `V2DeflateSerializer` in Rust. All numbers are big-endian:
///
/// | bytes | meaning |
/// | --- | --- |
/// | 4 | cookie 0x1c849314 |
/// | 4 | length of the rest, which is a zlib stream of the following |
/// | 4 | cookie 0x1c849313 |
/// | 4 | length of the counts in bytes |
/// | 4 | normalizing index offset, 0 unless the values were shifted |
/// | 4 | significant digits |
/// | 8 + 8 | lowest and highest value |
/// | 8 | ratio of floating-point values to integer values |
/// | | counts in the order of the values |
///
/// A count is a ZigZag LEB128 number of at most 9 bytes, whose ninth has 8 bits of the number. A negative number stands
/// for that many counts of zero.
#[derive(Debug)]
pub struct Decoder {
    deflated: Vec<u8>,
    inflater: Decompress,
    inflated: Vec<u8>,
    /// Indices and values of the counts that are not zero.
    counts: Vec<(usize, u64)>,
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
            deflated: Vec::new(),
            inflater: Decompress::new(true),
            // The longest encoding of the common shape. A longer output is an error, so a small text cannot fill the
            // memory.
            inflated: vec![0; HEADER + COUNTS * LONGEST_COUNT],
            counts: Vec::new(),
        }
    }

    /// Adds the values of an encoded histogram to `into`; `clamped` of them were clamped when they were recorded. The
    /// result is that of [`Distribution::decode`] and [`Distribution::merge`]. After an error, `into` is unchanged.
    ///
    /// # Errors
    /// The text is not base64, not a deflated V2 histogram, longer than any encoding of the common shape, or not
    /// compatible with that shape.
    pub fn add(
        &mut self,
        text: &str,
        clamped: u64,
        into: &mut Distribution,
    ) -> Result<(), DecodeError> {
        let len = self.inflate(text)?;
        if !read(&self.inflated[..len], &mut self.counts)? {
            into.merge(&Distribution::decode(text, clamped)?);
            return Ok(());
        }
        if self.counts.is_empty() {
            return Ok(());
        }
        let histogram = into.get_or_init();
        for (index, count) in &self.counts {
            histogram
                .record_n(value_at(*index), *count)
                .expect("the index was compared with the number of counts");
        }
        into.clamped = into.clamped.saturating_add(clamped);
        Ok(())
    }

    /// Inflates the histogram of a text, and returns its length.
    fn inflate(&mut self, text: &str) -> Result<usize, DecodeError> {
        self.deflated.clear();
        BASE64
            .decode_vec(text, &mut self.deflated)
            .map_err(|_| DecodeError::Base64)?;
        let mut stream = &self.deflated[..];
        if u32::from_be_bytes(take(&mut stream)?) != DEFLATED_COOKIE {
            return Err(malformed("it does not begin as a deflated V2 histogram"));
        }
        if u32::from_be_bytes(take(&mut stream)?) as usize != stream.len() {
            return Err(malformed("its length is not the stated one"));
        }
        self.inflater.reset(true);
        // With `Finish`, the stream is inflated into the buffer at once, without a window in between.
        let inflated =
            self.inflater
                .decompress(stream, &mut self.inflated, FlushDecompress::Finish);
        let is_whole = self.inflater.total_in() == stream.len() as u64;
        match inflated {
            Ok(Status::StreamEnd) if is_whole => Ok(self.inflater.total_out() as usize),
            _ => Err(malformed("its deflated part is damaged or too long")),
        }
    }
}

/// Reads the counts that are not zero, and returns true if the histogram has the common shape. Only then are the
/// indices compared with the number of counts.
fn read(mut bytes: &[u8], counts: &mut Vec<(usize, u64)>) -> Result<bool, DecodeError> {
    counts.clear();
    let bytes = &mut bytes;
    if u32::from_be_bytes(take(bytes)?) != COOKIE {
        return Err(malformed("it does not inflate to a V2 histogram"));
    }
    let len = u32::from_be_bytes(take(bytes)?) as usize;
    let offset = u32::from_be_bytes(take(bytes)?);
    let digits = u32::from_be_bytes(take(bytes)?);
    let bounds = [take(bytes)?, take(bytes)?].map(u64::from_be_bytes);
    let ratio = f64::from_be_bytes(take(bytes)?);
    if len != bytes.len() {
        return Err(malformed("the length of its counts is not the stated one"));
    }
    let is_common = (offset, digits) == (0, u32::from(DIGITS))
        && bounds == [LOWEST_NS, HIGHEST_NS]
        && ratio == 1.0;
    // No shape has as many counts as the second limit, which keeps impossible numbers from the dense decoder.
    let limit = if is_common { COUNTS } else { u32::MAX as usize };
    let mut index = 0_usize;
    while !bytes.is_empty() {
        let number = take_number(bytes)?;
        if number > 0 {
            counts.push((index, number.unsigned_abs()));
        }
        let zeros = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
        index = index.saturating_add(if number < 0 { zeros } else { 1 });
        if index > limit {
            return Err(malformed("it has more counts than its shape"));
        }
    }
    Ok(is_common)
}

/// Returns the lowest value that is counted at an index of the common shape.
fn value_at(index: usize) -> u64 {
    // Both the first and the second power of two have steps of 1 ns.
    let shift = (index >> COUNTS_LOG2).saturating_sub(1);
    ((index - (shift << COUNTS_LOG2)) as u64) << shift
}

/// Takes the first bytes off.
fn take<const LEN: usize>(bytes: &mut &[u8]) -> Result<[u8; LEN], DecodeError> {
    let (first, rest) = bytes.split_first_chunk().ok_or_else(truncated)?;
    *bytes = rest;
    Ok(*first)
}

/// Takes a ZigZag LEB128 number off.
fn take_number(bytes: &mut &[u8]) -> Result<i64, DecodeError> {
    let mut bits = 0;
    for at in 0..LONGEST_COUNT {
        let [byte] = take(bytes)?;
        let is_last = byte < 0x80 || at + 1 == LONGEST_COUNT;
        let part = if is_last { byte } else { byte & 0x7f };
        bits |= u64::from(part) << (7 * at);
        if is_last {
            break;
        }
    }
    Ok((bits >> 1) as i64 ^ -((bits & 1) as i64))
}

fn truncated() -> DecodeError {
    malformed("it ends too early")
}

fn malformed(reason: &str) -> DecodeError {
    DecodeError::Histogram(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer, V2Serializer};

    use super::super::histogram;
    use super::*;

    /// Fields of the header of a V2 histogram, those of the common shape by default.
    struct Header {
        cookie: u32,
        len: Option<u32>,
        offset: u32,
        digits: u32,
        bounds: [u64; 2],
        ratio: f64,
    }

    const COMMON: Header = Header {
        cookie: COOKIE,
        len: None,
        offset: 0,
        digits: DIGITS as u32,
        bounds: [LOWEST_NS, HIGHEST_NS],
        ratio: 1.0,
    };

    impl Header {
        fn with(&self, counts: &[u8]) -> Vec<u8> {
            let len = self.len.unwrap_or(counts.len() as u32);
            [
                &self.cookie.to_be_bytes()[..],
                &len.to_be_bytes(),
                &self.offset.to_be_bytes(),
                &self.digits.to_be_bytes(),
                &self.bounds[0].to_be_bytes(),
                &self.bounds[1].to_be_bytes(),
                &self.ratio.to_be_bytes(),
                counts,
            ]
            .concat()
        }
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn text(cookie: u32, len: usize, stream: &[u8]) -> String {
        let parts = [&cookie.to_be_bytes()[..], &(len as u32).to_be_bytes()];
        BASE64.encode([&parts.concat(), stream].concat())
    }

    fn encoded(bytes: &[u8]) -> String {
        let stream = zlib(bytes);
        text(DEFLATED_COOKIE, stream.len(), &stream)
    }

    fn filled() -> Distribution {
        let mut distribution = Distribution::default();
        for ns in [0, 7, 5_000, 1 << 40] {
            distribution.record(ns);
        }
        distribution
    }

    /// Asserts that the text is refused, for a reason that contains `reason`, and that nothing was added.
    #[track_caller]
    fn assert_refused(text: &str, reason: &str) {
        let mut into = filled();
        let error = Decoder::new().add(text, 1, &mut into).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}: not {reason}");
        assert_eq!(into, filled());
    }

    /// Asserts that the text is added as the dense decoder does.
    #[track_caller]
    fn assert_added(text: &str) {
        let mut dense = filled();
        dense.merge(&Distribution::decode(text, 3).unwrap());
        let mut sparse = filled();
        Decoder::new().add(text, 3, &mut sparse).unwrap();
        assert_eq!(sparse, dense);
    }

    #[test]
    fn every_index_has_the_value_that_the_histogram_counts_there() {
        let histogram = histogram();
        assert_eq!(histogram.distinct_values(), COUNTS);
        let mut index = 0;
        for step in histogram.iter_all() {
            let lowest = histogram.lowest_equivalent(step.value_iterated_to());
            assert_eq!(value_at(index), lowest, "{index}");
            index += 1;
        }
        assert_eq!(index, COUNTS);
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
            (
                &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                i64::MAX,
            ),
        ] {
            assert_eq!(take_number(&mut bytes).unwrap(), number);
            assert!(bytes.is_empty(), "{number}");
        }
    }

    #[test]
    fn malformed_text_is_refused_and_adds_nothing() {
        let whole = COMMON.with(&[2, 2]);
        let stream = zlib(&whole);
        let header = |header: Header| encoded(&header.with(&[2, 2]));
        let counts = |counts: &[u8]| encoded(&COMMON.with(counts));
        let damaged = "damaged or too long";
        let early = "ends too early";
        let many = "more counts than its shape";
        for (text, reason) in [
            ("no base64!".to_owned(), "not base64"),
            (String::new(), early),
            (BASE64.encode(&DEFLATED_COOKIE.to_be_bytes()[..3]), early),
            (BASE64.encode(DEFLATED_COOKIE.to_be_bytes()), early),
            (text(COOKIE, stream.len(), &stream), "does not begin"),
            (text(DEFLATED_COOKIE, stream.len() + 1, &stream), "length"),
            (text(DEFLATED_COOKIE, stream.len() - 1, &stream), "length"),
            (text(DEFLATED_COOKIE, 0, &[]), damaged),
            (text(DEFLATED_COOKIE, 9, &stream[..9]), damaged),
            // The checksum is missing, wrong, or followed by more.
            (
                text(
                    DEFLATED_COOKIE,
                    stream.len() - 4,
                    &stream[..stream.len() - 4],
                ),
                damaged,
            ),
            (
                text(
                    DEFLATED_COOKIE,
                    stream.len(),
                    &[&stream[..stream.len() - 1], &[!stream[stream.len() - 1]]].concat(),
                ),
                damaged,
            ),
            (
                text(
                    DEFLATED_COOKIE,
                    stream.len() + 1,
                    &[&stream[..], &[0]].concat(),
                ),
                damaged,
            ),
            (encoded(&[]), early),
            (encoded(&whole[..HEADER - 1]), early),
            (
                header(Header {
                    cookie: DEFLATED_COOKIE,
                    ..COMMON
                }),
                "does not inflate",
            ),
            (
                header(Header {
                    len: Some(1),
                    ..COMMON
                }),
                "length of its counts",
            ),
            (
                header(Header {
                    len: Some(u32::MAX),
                    ..COMMON
                }),
                "length of its counts",
            ),
            (
                header(Header {
                    offset: 1,
                    ..COMMON
                }),
                "doesn't support",
            ),
            (
                header(Header {
                    ratio: 2.0,
                    ..COMMON
                }),
                "doesn't support",
            ),
            (
                header(Header {
                    ratio: f64::NAN,
                    ..COMMON
                }),
                "doesn't support",
            ),
            (
                header(Header {
                    digits: 6,
                    ..COMMON
                }),
                "parameters were invalid",
            ),
            (
                header(Header {
                    digits: u32::MAX,
                    ..COMMON
                }),
                "parameters were invalid",
            ),
            (
                header(Header {
                    bounds: [0, 10],
                    ..COMMON
                }),
                "parameters were invalid",
            ),
            (
                header(Header {
                    bounds: [u64::MAX; 2],
                    ..COMMON
                }),
                "parameters were invalid",
            ),
            // A count that ends too early, and one whose continuation does.
            (counts(&[2, 0x80]), early),
            (counts(&[0xff; 8]), early),
            // Runs of 2^63, 2^62 and the number of counts, each with a count after it, and the first alone.
            (counts(&[0xff; 9]), many),
            (counts(&[&[0xff; 9][..], &[2]].concat()), many),
            (
                counts(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 2]),
                many,
            ),
            (counts(&[0xff, 0x8f, 4, 2]), many),
            (counts(&vec![0; COUNTS + 1]), many),
            (counts(&vec![0; 1 << 22]), damaged),
            (
                encoded(
                    &Header {
                        bounds: [1, 1 << 30],
                        ..COMMON
                    }
                    .with(&[0xff; 9]),
                ),
                many,
            ),
            (
                encoded(
                    &Header {
                        bounds: [1, 1 << 50],
                        ..COMMON
                    }
                    .with(&[0xff, 0xff, 4, 2]),
                ),
                "do not fit",
            ),
        ] {
            assert_refused(&text, reason);
        }
    }

    #[test]
    fn the_longest_encoding_is_read() {
        let longest = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff].repeat(COUNTS);
        assert_added(&encoded(&COMMON.with(&longest)));
    }

    #[test]
    fn a_histogram_without_values_changes_nothing() {
        let mut into = Distribution::default();
        for counts in [&[][..], &[0], &[0xff, 0x8f, 4]] {
            let text = encoded(&COMMON.with(counts));
            Decoder::new().add(&text, 3, &mut into).unwrap();
            assert!(into.histogram.is_none(), "{counts:?}");
            assert_added(&text);
        }
        assert_eq!(into, Distribution::default());
    }

    #[test]
    fn a_value_of_zero_and_the_highest_ones_are_added_as_the_dense_decoder_does() {
        assert_added(&encoded(&COMMON.with(&[2])));
        // The last of all counts, which is above one hour.
        assert_added(&encoded(&COMMON.with(&[0xfd, 0x8f, 4, 2])));
    }

    #[test]
    fn histograms_of_compatible_shapes_are_added() {
        for (lowest, highest, digits) in [
            (1, 1 << 20, 3),
            (1, 4_000_000_000_000, 3),
            (1, HIGHEST_NS, 2),
            (1_000, 60_000_000_000, 3),
            (1, u64::MAX, 5),
        ] {
            let mut other = Histogram::<u64>::new_with_bounds(lowest, highest, digits).unwrap();
            for ns in [1_000, 5_000, 5_001, 1 << 19] {
                other.record_n(ns, 4).unwrap();
            }
            let mut bytes = Vec::new();
            V2DeflateSerializer::new()
                .serialize(&other, &mut bytes)
                .unwrap();
            assert_added(&BASE64.encode(bytes));
        }
    }

    #[test]
    fn a_histogram_that_is_not_deflated_is_refused() {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(filled().histogram(), &mut bytes)
            .unwrap();
        assert_refused(&BASE64.encode(bytes), "does not begin");
    }

    #[test]
    fn a_decoder_can_be_used_after_an_error() {
        let (mut decoder, mut into) = (Decoder::new(), Distribution::default());
        let text = filled().encode();
        for damaged in ["AAAA", &text[..text.len() / 8 * 4]] {
            decoder.add(damaged, 0, &mut into).unwrap_err();
        }
        decoder.add(&text, filled().clamped(), &mut into).unwrap();
        assert_eq!(into, filled());
    }
}
