//! Fuzz targets: the frames of brokers.

use crate::frame::{encode, whole_frame};
use crate::stamp::StampHead;

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("frame", frame)];

/// A frame is found only when it is whole, and is the same after it was written again.
pub fn frame(octets: &[u8]) {
    let _ = StampHead::read(octets);
    let Ok(Some((length, frame))) = whole_frame(octets) else {
        return;
    };
    for end in 0..length {
        assert!(matches!(whole_frame(&octets[..end]), Ok(None) | Err(_)));
    }
    let written = encode(&frame);
    let again = whole_frame(&written).expect("a written frame can be read");
    let (length, frame) = again.expect("a written frame is whole");
    assert_eq!(length, written.len());
    assert_eq!(encode(&frame), written);
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
