//! Messages of the server, read in place.

use std::borrow::Cow;

use super::frame::Opcode;
use crate::protocol::ProtocolError;

/// A message or a control frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// A text message. It is borrowed from the input unless it was fragmented.
    Text(Cow<'a, str>),
    /// A binary message.
    Binary(Cow<'a, [u8]>),
    /// A ping, which must be answered with a pong of the same payload.
    Ping(&'a [u8]),
    /// A pong.
    Pong(&'a [u8]),
    /// A close frame with its code, or an empty one; nothing follows.
    Close(Option<u16>),
}

/// Reads messages. It keeps nothing but the fragments of an incomplete message.
#[derive(Debug, Default)]
pub struct Reader {
    fragments: Option<Box<Fragments>>,
}

/// The first fragments of a message.
#[derive(Debug)]
struct Fragments {
    is_text: bool,
    payload: Vec<u8>,
}

/// The head of a frame.
#[derive(Debug, Clone, Copy)]
struct FrameHead {
    /// Number of bytes of the head itself.
    length: usize,
    is_final: bool,
    opcode: Opcode,
    payload: u64,
}

impl FrameHead {
    /// Parses a head; `None` if it is incomplete.
    #[inline]
    fn parse(input: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let [first, second, rest @ ..] = input else {
            return Ok(None);
        };
        if first & 0x70 != 0 {
            return Err(ProtocolError::ReservedBits);
        }
        if second & 0x80 != 0 {
            return Err(ProtocolError::Masked);
        }
        let is_final = first & 0x80 != 0;
        let opcode = opcode(first & 0x0F).ok_or(ProtocolError::Opcode)?;
        let is_control = opcode as u8 & 8 != 0;
        if is_control && (!is_final || *second > 125) {
            return Err(ProtocolError::Control);
        }
        let (length, payload) = match *second {
            126 => match rest.first_chunk() {
                Some(bytes) => (4, u64::from(u16::from_be_bytes(*bytes))),
                None => return Ok(None),
            },
            127 => match rest.first_chunk() {
                Some(bytes) => (10, u64::from_be_bytes(*bytes)),
                None => return Ok(None),
            },
            short => (2, u64::from(short)),
        };
        let is_shortest = match length {
            4 => payload > 125,
            10 => payload > 0xFFFF && payload >> 63 == 0,
            _ => true,
        };
        is_shortest
            .then_some(Some(Self {
                length,
                is_final,
                opcode,
                payload,
            }))
            .ok_or(ProtocolError::Length)
    }
}

fn opcode(bits: u8) -> Option<Opcode> {
    Some(match bits {
        0 => Opcode::Continuation,
        1 => Opcode::Text,
        2 => Opcode::Binary,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return None,
    })
}

impl Reader {
    /// Reads the next message from `input`; also returns how many bytes it consumed. Returns `None` if more bytes are
    /// needed: the unconsumed ones must then be presented again with more. A message, with all its fragments, has
    /// `limit` bytes at most.
    ///
    /// # Errors
    /// A frame that breaks RFC 6455, or a message beyond the limit.
    #[inline]
    pub fn next<'a>(
        &mut self,
        input: &'a [u8],
        limit: usize,
    ) -> Result<(usize, Option<Message<'a>>), ProtocolError> {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            let Some(head) = FrameHead::parse(rest)? else {
                return Ok((taken, None));
            };
            let kept = self.check_sequence(head.opcode)?;
            // Known before the payload has come: a message that is too large is refused at once.
            if head.payload > limit.saturating_sub(kept) as u64 {
                return Err(ProtocolError::TooLarge);
            }
            let end = head.length + head.payload as usize;
            let Some(payload) = rest.get(head.length..end) else {
                return Ok((taken, None));
            };
            taken += end;
            if let Some(message) = self.frame(head, payload)? {
                return Ok((taken, Some(message)));
            }
        }
    }

    /// Checks that a frame may come now. Returns the size of the fragments that it continues.
    #[inline]
    fn check_sequence(&self, opcode: Opcode) -> Result<usize, ProtocolError> {
        match (opcode, &self.fragments) {
            (Opcode::Continuation, Some(fragments)) => Ok(fragments.payload.len()),
            (Opcode::Continuation, None) | (Opcode::Text | Opcode::Binary, Some(_)) => {
                Err(ProtocolError::Continuation)
            }
            _ => Ok(0),
        }
    }

    #[inline]
    fn frame<'a>(
        &mut self,
        head: FrameHead,
        payload: &'a [u8],
    ) -> Result<Option<Message<'a>>, ProtocolError> {
        Ok(Some(match head.opcode {
            Opcode::Text if head.is_final => Message::Text(Cow::Borrowed(text(payload)?)),
            Opcode::Binary if head.is_final => Message::Binary(Cow::Borrowed(payload)),
            Opcode::Text | Opcode::Binary | Opcode::Continuation => {
                return self.fragment(head, payload);
            }
            Opcode::Ping => Message::Ping(payload),
            Opcode::Pong => Message::Pong(payload),
            Opcode::Close => Message::Close(close(payload)?),
        }))
    }

    #[cold]
    fn fragment<'a>(
        &mut self,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<Option<Message<'a>>, ProtocolError> {
        let fragments = self.fragments.get_or_insert_with(|| {
            Box::new(Fragments {
                is_text: head.opcode == Opcode::Text,
                payload: Vec::new(),
            })
        });
        fragments.payload.extend_from_slice(payload);
        if !head.is_final {
            return Ok(None);
        }
        let Some(whole) = self.fragments.take() else {
            return Ok(None);
        };
        Ok(Some(if whole.is_text {
            let text = String::from_utf8(whole.payload);
            Message::Text(Cow::Owned(text.map_err(|_| ProtocolError::Utf8)?))
        } else {
            Message::Binary(Cow::Owned(whole.payload))
        }))
    }
}

fn text(payload: &[u8]) -> Result<&str, ProtocolError> {
    std::str::from_utf8(payload).map_err(|_| ProtocolError::Utf8)
}

/// Returns the code of a close frame; `None` if the frame is empty.
fn close(payload: &[u8]) -> Result<Option<u16>, ProtocolError> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        let is_empty = payload.is_empty();
        return is_empty.then_some(None).ok_or(ProtocolError::CloseCode);
    };
    let code = u16::from_be_bytes(*code);
    // RFC 6455 §7.4, and the codes registered since.
    match code {
        1000..=1003 | 1007..=1014 | 3000..=4999 => text(reason).map(|_| Some(code)),
        _ => Err(ProtocolError::CloseCode),
    }
}
