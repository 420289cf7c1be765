//! Payloads of long-polling: packets separated by the character 0x1e.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::engine::frame::Frame;
use crate::engine::websocket::{Fault, Message};

const SEPARATOR: char = '\x1e';

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
    for packet in text.split(SEPARATOR) {
        match packet.strip_prefix('b') {
            Some(encoded) => {
                let bytes = BASE64_STANDARD.decode(encoded);
                receive(Message::Binary(&bytes.map_err(|_| Fault::Protocol)?))?;
            }
            None => receive(Message::Text(packet))?,
        }
    }
    Ok(())
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
        assert_eq!(received, [r#"Text("4hello")"#, "Binary([1, 2, 3, 4])"]);
    }

    #[test]
    fn broken_base64_and_broken_text_are_refused() {
        assert_eq!(decode(b"b!", |_| Ok(())), Err(Fault::Protocol));
        assert_eq!(decode(b"4\xff", |_| Ok(())), Err(Fault::InvalidText));
    }
}
