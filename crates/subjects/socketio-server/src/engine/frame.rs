//! WebSocket frames of a server (RFC 6455 §5): encoded once, sent to any number of connections.

use std::cell::RefCell;
use std::sync::Arc;

use serde::Serialize;

/// Longest head of a server's frame: two bytes, and a length of eight.
const HEAD: usize = 10;
/// Memory that a thread keeps for encoding.
const KEPT: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The kinds of frames (RFC 6455 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Opcode {
    /// The next part of a fragmented message.
    Continuation = 0,
    /// UTF-8 text, or its first part.
    Text = 1,
    /// Bytes, or their first part.
    Binary = 2,
    /// The end of the connection, with a code and a reason.
    Close = 8,
    /// A question whether the peer is alive.
    Ping = 9,
    /// The answer to it.
    Pong = 10,
}

impl Opcode {
    /// Returns the opcode of the number, if the protocol defines it.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Returns true for frames that may stand between the parts of a message.
    pub(crate) fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// An encoded packet: a whole, unmasked WebSocket frame. Clones share the bytes, so an event for a thousand members is
/// encoded once. Long-polling sends the payload alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame(Arc<[u8]>);

impl Frame {
    /// Creates a frame whose payload `write` appends to the vector it is given. It must not create another frame
    /// meanwhile.
    pub(crate) fn with_payload(opcode: Opcode, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            scratch.resize(HEAD, 0);
            write(scratch);
            let start = write_head(scratch, opcode);
            let frame = Self(scratch[start..].into());
            if scratch.capacity() > KEPT {
                *scratch = Vec::new();
            }
            frame
        })
    }

    /// Creates a text frame.
    pub(crate) fn from_text(payload: &str) -> Self {
        Self::with_payload(Opcode::Text, |out| {
            out.extend_from_slice(payload.as_bytes());
        })
    }

    /// Creates a frame of a binary packet.
    pub(crate) fn from_binary(payload: &[u8]) -> Self {
        Self::with_payload(Opcode::Binary, |out| out.extend_from_slice(payload))
    }

    /// Creates the frame of an event from its name and arguments: JSON values separated by commas, which `write`
    /// appends to the vector it is given.
    pub fn with_event(namespace: &str, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        Self::with_payload(Opcode::Text, |out| {
            out.extend_from_slice(b"42");
            write_namespace(out, namespace);
            out.push(b'[');
            write(out);
            out.push(b']');
        })
    }

    /// Returns the whole frame.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        let head = match self.0[1] {
            126 => 4,
            127 => HEAD,
            _ => 2,
        };
        &self.0[head..]
    }

    /// Returns true if the payload is binary.
    pub(crate) fn is_binary(&self) -> bool {
        self.0[0] & 0x0f == Opcode::Binary as u8
    }
}

/// Writes the head in front of the payload, which begins at `HEAD`. Returns where the frame begins.
#[inline]
fn write_head(bytes: &mut [u8], opcode: Opcode) -> usize {
    let length = bytes.len() - HEAD;
    let start = match length {
        0..126 => HEAD - 2,
        126..65_536 => HEAD - 4,
        _ => 0,
    };
    bytes[start] = 0x80 | opcode as u8;
    match start {
        0 => {
            bytes[1] = 127;
            bytes[2..HEAD].copy_from_slice(&(length as u64).to_be_bytes());
        }
        6 => {
            bytes[start + 1] = 126;
            bytes[start + 2..HEAD].copy_from_slice(&(length as u16).to_be_bytes());
        }
        _ => bytes[start + 1] = length as u8,
    }
    start
}

/// Appends the namespace of a packet. The main one, `/`, is left out.
#[inline]
pub(crate) fn write_namespace(out: &mut Vec<u8>, namespace: &str) {
    if namespace != "/" {
        out.extend_from_slice(namespace.as_bytes());
        out.push(b',');
    }
}

/// Appends a value as JSON.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("keys are strings, and a vector takes all bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_has_the_shortest_length() {
        for (length, head) in [
            (0, vec![0x81, 0]),
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_535, vec![0x81, 126, 255, 255]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let text = "x".repeat(length);
            let frame = Frame::from_text(&text);
            assert_eq!(frame.as_bytes()[..head.len()], head);
            assert_eq!(frame.payload(), text.as_bytes());
        }
    }

    #[test]
    fn an_event_names_its_namespace_unless_it_is_the_main_one() {
        let payload = |namespace| {
            let frame = Frame::with_event(namespace, |out| out.extend_from_slice(br#""a",[1]"#));
            String::from_utf8(frame.payload().to_vec()).unwrap()
        };
        assert_eq!(payload("/"), r#"42["a",[1]]"#);
        assert_eq!(payload("/custom"), r#"42/custom,["a",[1]]"#);
    }
}
