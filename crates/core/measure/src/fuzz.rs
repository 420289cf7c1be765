//! Fuzz targets: stored histograms and results.

use std::io::Cursor;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};

use crate::result::RunResult;
use crate::tally::{Distribution, HEADER, encode_v2, histogram};

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("histogram", stored_histogram), ("result", result)];

/// A histogram is the same for the HdrHistogram library, and is the same after it was written again.
pub fn stored_histogram(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else {
        return;
    };
    // Neither a checksum nor a header is found by chance.
    let text = match first {
        0 => String::from_utf8_lossy(rest).into_owned(),
        1 => BASE64_STANDARD.encode(rest),
        _ => encoded(rest),
    };
    let Ok(read) = Distribution::decode(&text, 0) else {
        return;
    };
    let bytes = BASE64_STANDARD.decode(&text).expect("it was read before");
    let other: Result<Histogram<u64>, _> = Deserializer::new().deserialize(&mut Cursor::new(bytes));
    if let Ok(other) = other {
        assert_eq!(*read.histogram(), other);
    }
    assert_eq!(Distribution::decode(&read.encode(), 0), Ok(read));
}

/// Encodes a histogram of the common shape with these counts.
fn encoded(counts: &[u8]) -> String {
    let mut plain = Vec::new();
    let written = V2Serializer::new().serialize(&histogram(), &mut plain);
    written.expect("writing to memory does not fail");
    plain.truncate(HEADER);
    plain[4..8].copy_from_slice(&(counts.len() as u32).to_be_bytes());
    plain.extend_from_slice(counts);
    encode_v2(&plain)
}

/// A result is the same after it was written again.
pub fn result(input: &[u8]) {
    let Ok(result) = serde_json::from_slice::<RunResult>(input) else {
        return;
    };
    let written = result.to_json();
    let again: RunResult = serde_json::from_value(written.clone()).expect("a result can be read");
    assert_eq!(again.to_json(), written);
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
