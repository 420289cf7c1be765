//! Reads the WebSocket frames of clients (RFC 6455 §5).

use std::mem;
use std::ops::Range;

use crate::engine::frame::{Frame, Opcode};

/// Payload that a control frame may have.
const CONTROL: u64 = 125;

/// A violation of the protocol. The connection ends with its close code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A frame, or a packet in it, is malformed.
    Protocol,
    /// Text is not UTF-8.
    InvalidText,
    /// A message exceeds the limit.
    TooLarge,
}

impl Fault {
    /// Returns the close code (RFC 6455 §7.4.1).
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Protocol => 1002,
            Self::InvalidText => 1007,
            Self::TooLarge => 1009,
        }
    }
}

/// A message, or a control frame, of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A text message.
    Text(&'a str),
    /// A binary message.
    Binary(&'a [u8]),
    /// A ping, which is answered with the same payload.
    Ping(&'a [u8]),
    /// A pong.
    Pong,
    /// The end of the connection, with the code to answer with.
    Close(Option<u16>),
}

/// Decodes the frames of one client. Between two frames it holds no memory.
#[derive(Debug)]
pub struct Decoder {
    /// A frame that has not arrived completely.
    partial: Vec<u8>,
    /// The parts of a fragmented message, unmasked.
    parts: Vec<u8>,
    /// The opcode of the first part.
    fragmented: Option<Opcode>,
    limit: usize,
}

/// A complete frame in a buffer.
struct Found {
    opcode: Opcode,
    is_last: bool,
    key: [u8; 4],
    payload: Range<usize>,
}

impl Decoder {
    /// Creates a decoder of messages of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            partial: Vec::new(),
            parts: Vec::new(),
            fragmented: None,
            limit,
        }
    }

    /// Decodes the bytes that were read, and passes on the messages that they complete. The bytes are changed.
    ///
    /// # Errors
    /// A violation of the protocol, also one that `receive` finds.
    pub fn feed(
        &mut self,
        input: &mut [u8],
        mut receive: impl FnMut(Message<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.partial.is_empty() {
            let done = self.decode(input, &mut receive)?;
            self.partial.extend_from_slice(&input[done..]);
            return Ok(());
        }
        let mut partial = mem::take(&mut self.partial);
        partial.extend_from_slice(input);
        let done = self.decode(&mut partial, &mut receive)?;
        if done < partial.len() {
            partial.drain(..done);
            self.partial = partial;
        }
        Ok(())
    }

    /// Decodes complete frames, and returns their length.
    fn decode(
        &mut self,
        buffer: &mut [u8],
        receive: &mut impl FnMut(Message<'_>) -> Result<(), Fault>,
    ) -> Result<usize, Fault> {
        let mut done = 0;
        while let Some(found) = find(&buffer[done..], self.room())? {
            let payload = &mut buffer[done..][found.payload.clone()];
            unmask(payload, found.key);
            self.deliver(&found, payload, receive)?;
            done += found.payload.end;
        }
        Ok(done)
    }

    /// Returns how many bytes the message under way may still grow.
    fn room(&self) -> usize {
        self.limit - self.parts.len()
    }

    fn deliver(
        &mut self,
        found: &Found,
        payload: &[u8],
        receive: &mut impl FnMut(Message<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match (found.opcode, self.fragmented) {
            (Opcode::Ping, _) => receive(Message::Ping(payload)),
            (Opcode::Pong, _) => receive(Message::Pong),
            (Opcode::Close, _) => receive(Message::Close(close_code(payload)?)),
            (Opcode::Continuation, Some(first)) => {
                self.parts.extend_from_slice(payload);
                if found.is_last {
                    self.fragmented = None;
                    let whole = mem::take(&mut self.parts);
                    return receive(message(first, &whole)?);
                }
                Ok(())
            }
            (Opcode::Text | Opcode::Binary, None) if found.is_last => {
                receive(message(found.opcode, payload)?)
            }
            (Opcode::Text | Opcode::Binary, None) => {
                self.fragmented = Some(found.opcode);
                self.parts.extend_from_slice(payload);
                Ok(())
            }
            _ => Err(Fault::Protocol),
        }
    }
}

fn message(opcode: Opcode, payload: &[u8]) -> Result<Message<'_>, Fault> {
    if opcode == Opcode::Binary {
        return Ok(Message::Binary(payload));
    }
    let text = str::from_utf8(payload).map_err(|_| Fault::InvalidText)?;
    Ok(Message::Text(text))
}

/// Finds the frame at the head of a buffer; `None` if more must be read. What is wrong is found before the payload
/// arrives.
fn find(buffer: &[u8], room: usize) -> Result<Option<Found>, Fault> {
    let &[first, second, ref rest @ ..] = buffer else {
        return Ok(None);
    };
    let opcode = Opcode::from_number(first & 0x0f).ok_or(Fault::Protocol)?;
    let is_last = first & 0x80 != 0;
    let (is_reserved, is_masked) = (first & 0x70 != 0, second & 0x80 != 0);
    if is_reserved || !is_masked || (opcode.is_control() && !is_last) {
        return Err(Fault::Protocol);
    }
    let (length, extended) = match second & 0x7f {
        126 => match rest.first_chunk() {
            Some(length) => (u16::from_be_bytes(*length).into(), 2),
            None => return Ok(None),
        },
        127 => match rest.first_chunk() {
            Some(length) => (u64::from_be_bytes(*length), 8),
            None => return Ok(None),
        },
        length => (length.into(), 0),
    };
    if opcode.is_control() && length > CONTROL {
        return Err(Fault::Protocol);
    }
    let length = usize::try_from(length).map_err(|_| Fault::TooLarge)?;
    if !opcode.is_control() && length > room {
        return Err(Fault::TooLarge);
    }
    let Some(&key) = rest.get(extended..).and_then(<[u8]>::first_chunk) else {
        return Ok(None);
    };
    let start = 2 + extended + key.len();
    if buffer.len() - start < length {
        return Ok(None);
    }
    Ok(Some(Found {
        opcode,
        is_last,
        key,
        payload: start..start + length,
    }))
}

fn unmask(payload: &mut [u8], key: [u8; 4]) {
    let word = u32::from_ne_bytes(key);
    let mut words = payload.chunks_exact_mut(4);
    for bytes in &mut words {
        let masked: [u8; 4] = bytes.try_into().expect("chunks have this length");
        bytes.copy_from_slice(&(u32::from_ne_bytes(masked) ^ word).to_ne_bytes());
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(key) {
        *byte ^= key;
    }
}

/// Reads the payload of a close frame (RFC 6455 §5.5.1 and §7.4).
fn close_code(payload: &[u8]) -> Result<Option<u16>, Fault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(None),
            _ => Err(Fault::Protocol),
        };
    };
    let code = u16::from_be_bytes(*code);
    str::from_utf8(reason).map_err(|_| Fault::InvalidText)?;
    match code {
        1000..=1003 | 1007..=1014 | 3000..=4999 => Ok(Some(code)),
        _ => Err(Fault::Protocol),
    }
}

/// Creates a close frame with a code, or an empty one.
pub(crate) fn close_frame(code: Option<u16>) -> Frame {
    Frame::with_payload(Opcode::Close, |out| {
        if let Some(code) = code {
            out.extend_from_slice(&code.to_be_bytes());
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes a frame as a client does.
    fn encode(first: u8, key: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length @ 126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend(key);
        frame.extend(payload.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b));
        frame
    }

    fn text(payload: &str) -> Vec<u8> {
        encode(0x81, *b"key!", payload.as_bytes())
    }

    /// Feeds the bytes in pieces of a length, and returns what was received.
    fn feed(bytes: &[u8], piece: usize) -> Result<Vec<String>, Fault> {
        let mut decoder = Decoder::new(1000);
        let mut received = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.feed(&mut piece.to_vec(), |message| {
                received.push(format!("{message:?}"));
                Ok(())
            })?;
        }
        assert_eq!(decoder.partial.capacity(), 0, "memory is kept");
        Ok(received)
    }

    #[test]
    fn messages_arrive_whatever_the_reads() {
        let mut bytes = text("a");
        bytes.extend(encode(0x01, [1, 2, 3, 4], b"frag"));
        bytes.extend(encode(0x89, [9; 4], b"now"));
        bytes.extend(encode(0x00, [0; 4], b"men"));
        bytes.extend(encode(0x80, [7; 4], b"ted"));
        bytes.extend(encode(0x82, [255; 4], &[0; 200]));
        bytes.extend(encode(0x88, [1; 4], &[3, 232, b'x']));
        let expected = feed(&bytes, bytes.len()).unwrap();
        assert_eq!(expected[0], r#"Text("a")"#);
        assert_eq!(expected[1], "Ping([110, 111, 119])");
        assert_eq!(expected[2], r#"Text("fragmented")"#);
        assert_eq!(expected[4], "Close(Some(1000))");
        for piece in 1..50 {
            assert_eq!(feed(&bytes, piece).unwrap(), expected, "{piece}");
        }
    }

    #[test]
    fn violations_have_the_close_code_of_the_standard() {
        let key = [1, 2, 3, 4];
        let mut unfinished = encode(0x01, key, b"a");
        unfinished.extend(text("b"));
        let mut grown = encode(0x01, key, &[b'a'; 600]);
        grown.extend(encode(0x80, key, &[b'a'; 600]));
        for (name, bytes, code) in [
            ("a reserved bit", encode(0xc1, key, b"a"), 1002),
            ("an unknown opcode", encode(0x83, key, b"a"), 1002),
            ("an unmasked frame", vec![0x81, 1, b'a'], 1002),
            ("a continuation of nothing", encode(0x80, key, b"a"), 1002),
            ("a message inside another", unfinished, 1002),
            ("a fragmented ping", encode(0x09, key, b"a"), 1002),
            ("a long ping", encode(0x89, key, &[0; 126]), 1002),
            ("half a close code", encode(0x88, key, &[3]), 1002),
            ("a reserved close code", encode(0x88, key, &[3, 237]), 1002),
            ("text that is not UTF-8", encode(0x81, key, &[0xff]), 1007),
            (
                "a reason that is not",
                encode(0x88, key, b"\x03\xe8\xff"),
                1007,
            ),
            ("a long message", encode(0x81, key, &[b'a'; 1001]), 1009),
            ("a message that grows", grown, 1009),
        ] {
            let fault = feed(&bytes, bytes.len()).unwrap_err();
            assert_eq!(fault.code(), code, "{name}");
        }
    }

    #[test]
    fn an_announced_length_is_refused_before_it_arrives() {
        for length in [1001, u64::MAX] {
            let mut bytes = vec![0x82, 0xff];
            bytes.extend(length.to_be_bytes());
            assert_eq!(feed(&bytes, 100), Err(Fault::TooLarge));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = Decoder::new(100);
            let _ = decoder.feed(&mut bytes.clone(), |_| Ok(()));
            prop_assert!(decoder.parts.len() <= 100);
        }
    }
}
