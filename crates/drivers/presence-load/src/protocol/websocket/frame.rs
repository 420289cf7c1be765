//! Frames that the client writes (RFC 6455 §5.2).

use super::mask::{Masks, apply_mask};

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// A further fragment.
    Continuation = 0,
    /// A text message, or its first fragment.
    Text = 1,
    /// A binary message, or its first fragment.
    Binary = 2,
    /// A close frame.
    Close = 8,
    /// A ping.
    Ping = 9,
    /// A pong.
    Pong = 10,
}

/// The final fragment of a message.
const FIN: u8 = 0x80;
/// A masked frame.
const MASKED: u8 = 0x80;

/// Appends a final masked frame.
pub fn append_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], masks: &mut Masks) {
    let first = FIN | opcode as u8;
    match payload.len() {
        length @ 0..=125 => out.extend_from_slice(&[first, MASKED | length as u8]),
        length @ 126..=0xFFFF => {
            let [high, low] = (length as u16).to_be_bytes();
            out.extend_from_slice(&[first, MASKED | 126, high, low]);
        }
        length => {
            out.extend_from_slice(&[first, MASKED | 127]);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    let key = masks.next_key();
    out.extend_from_slice(&key);
    let start = out.len();
    out.extend_from_slice(payload);
    apply_mask(&mut out[start..], key);
}

/// Appends a close frame with a code (RFC 6455 §7.4), or an empty one.
pub fn append_close(out: &mut Vec<u8>, code: Option<u16>, masks: &mut Masks) {
    let bytes = code.unwrap_or_default().to_be_bytes();
    let payload = if code.is_some() { &bytes[..] } else { &[] };
    append_frame(out, Opcode::Close, payload, masks);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_encoded_in_the_shortest_form() {
        for (length, head) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            let mut out = Vec::new();
            let payload = vec![b'x'; length];
            append_frame(&mut out, Opcode::Binary, &payload, &mut Masks::new(1));
            assert_eq!(out.len(), head + 4 + length);
        }
    }
}
