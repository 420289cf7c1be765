//! Payloads of long-polling: packets separated by the character 0x1e.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;

use crate::engine::frame::Frame;
use crate::engine::websocket::{Fault, Message};

const SEPARATOR: char = '\x1e';
/// Decodes what [`decode_base64`] has cleaned.
const LIBERAL: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Encodes the packets of a response to a poll.
pub(crate) fn encode<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Vec<u8> {
    let mut payload = Vec::new();
    for frame in frames {
        if !payload.is_empty() {
            payload.push(SEPARATOR as u8);
        }
        if frame.is_binary() {
            payload.push(b'b');
            payload.extend_from_slice(BASE64_STANDARD.encode(frame.payload()).as_bytes());
        } else {
            payload.extend_from_slice(frame.payload());
        }
    }
    payload
}

/// Passes on the packets of a body.
pub(crate) fn decode(
    body: &[u8],
    mut receive: impl FnMut(Message<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let text = str::from_utf8(body).map_err(|_| Fault::InvalidText)?;
    text.split(SEPARATOR)
        .try_for_each(|packet| receive(Message::Text(packet)))
}

/// Decodes base64 as liberally as the reference, because its clients in other languages encode in several ways: of either
/// alphabet (RFC 4648 §4 and §5), with or without padding, in lines. Characters that are none of base64 are skipped, and
/// padding ends the text.
pub(crate) fn decode_base64(encoded: &str) -> Result<Vec<u8>, Fault> {
    if let Ok(bytes) = BASE64_STANDARD.decode(encoded) {
        return Ok(bytes);
    }
    let letters = encoded.bytes().take_while(|byte| *byte != b'=');
    let mut letters: Vec<u8> = letters
        .filter_map(|byte| match byte {
            b'-' => Some(b'+'),
            b'_' => Some(b'/'),
            _ if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/') => Some(byte),
            _ => None,
        })
        .collect();
    // One letter alone is less than a byte.
    if letters.len() % 4 == 1 {
        letters.pop();
    }
    LIBERAL.decode(letters).map_err(|_| Fault::Protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_binary_packets_share_a_payload() {
        let frames = [
            Frame::from_text("4hello"),
            Frame::from_binary(&[1, 2, 3, 4]),
        ];
        let payload = encode(&frames);
        assert_eq!(payload, b"4hello\x1ebAQIDBA==");
        let mut received = Vec::new();
        decode(&payload, |message| {
            received.push(format!("{message:?}"));
            Ok(())
        })
        .unwrap();
        assert_eq!(received, [r#"Text("4hello")"#, r#"Text("bAQIDBA==")"#]);
    }

    #[test]
    fn base64_is_read_as_the_reference_reads_it() {
        for (encoded, bytes) in [
            ("", &[][..]),
            ("!", &[]),
            ("A", &[]),
            ("AQID", &[1, 2, 3]),
            ("AQIDBA", &[1, 2, 3, 4]),
            ("AQID\r\nBA==\r\n", &[1, 2, 3, 4]),
            ("-_8=", &[0xfb, 0xff]),
            ("AR==AQID", &[1]),
            ("AQIDB", &[1, 2, 3]),
        ] {
            assert_eq!(decode_base64(encoded).as_deref(), Ok(bytes), "{encoded:?}");
        }
    }

    #[test]
    fn broken_text_is_refused() {
        assert_eq!(decode(b"4\xff", |_| Ok(())), Err(Fault::InvalidText));
    }
}
