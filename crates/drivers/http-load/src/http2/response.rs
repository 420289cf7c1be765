//! The heads of responses (RFC 9113 §8).

use super::Sink;
use super::blocks::OF_CONNECTION;
use super::frame::Fault;
use super::hpack::{Decoder, Encoded};
use super::streams::Stream;

/// Maximum length of an encoded header block: as of a head in HTTP/1.1.
const MAX_BLOCK: usize = 64 * 1024;

/// A header block whose end has not come (§4.3).
#[derive(Debug)]
pub(super) struct OpenBlock {
    pub(super) stream: u32,
    /// True if its stream ends with it.
    pub(super) ends: bool,
    pub(super) bytes: Vec<u8>,
}

impl OpenBlock {
    pub(super) fn new(stream: u32, ends: bool, fragment: &[u8]) -> Self {
        Self {
            stream,
            ends,
            bytes: fragment.to_vec(),
        }
    }

    pub(super) fn extend(&mut self, fragment: &[u8]) -> Result<(), Fault> {
        if self.bytes.len() + fragment.len() > MAX_BLOCK {
            return Err(Fault::HeadTooLarge);
        }
        self.bytes.extend_from_slice(fragment);
        Ok(())
    }
}

/// The parts of a head that frame the response.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// `None` for trailers.
    pub(super) status: Option<u16>,
    pub(super) length: Option<u64>,
    pub(super) is_malformed: bool,
    /// True after a field that is not a pseudo-header field.
    is_regular: bool,
}

impl Head {
    /// Decodes a header block. Hands its fields on if it is the head of a stream's response. Without a stream only the
    /// decoder's state changes.
    pub(super) fn decode<T>(
        decoder: &mut Decoder,
        block: &[u8],
        mut stream: Option<&mut Stream<T>>,
        sink: &mut impl Sink<T>,
    ) -> Result<Self, Fault> {
        let mut head = Self::default();
        decoder.decode(block, |name, value, is_new| {
            let Some(stream) = &mut stream else {
                return Ok(());
            };
            if name.starts_with(b":") {
                head.pseudo(name, &value.decode()?);
                if let Some(status) = head.status.filter(|status| *status >= 200) {
                    sink.head(&mut stream.item, status);
                }
                return Ok(());
            }
            head.is_regular = true;
            head.is_malformed |= is_new && !is_name(name);
            let is_final = head.status.is_some_and(|status| status >= 200);
            let is_length = name == b"content-length";
            let is_needed = is_final && sink.needs(name);
            match value {
                Encoded::Huffman(_) if !is_length && !is_needed => {}
                value => {
                    let value = value.decode()?;
                    head.is_malformed |= !is_value(&value);
                    if is_length && is_final {
                        head.length(&value);
                    }
                    if is_needed {
                        sink.field(&mut stream.item, name, &value);
                    }
                }
            }
            Ok(())
        })?;
        Ok(head)
    }

    /// Takes a pseudo-header field. A response has only one (§8.3.2), at its beginning.
    fn pseudo(&mut self, name: &[u8], value: &[u8]) {
        let digits = value.len() == 3 && value.iter().all(u8::is_ascii_digit);
        let status = digits.then(|| {
            value
                .iter()
                .fold(0, |sum, digit| 10 * sum + u16::from(digit - b'0'))
        });
        match status {
            Some(status @ 100..)
                if name == b":status" && self.status.is_none() && !self.is_regular =>
            {
                self.status = Some(status);
            }
            _ => self.is_malformed = true,
        }
    }

    fn length(&mut self, value: &[u8]) {
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let length = str::from_utf8(value).ok().filter(|_| digits);
        match (length.and_then(|length| length.parse().ok()), self.length) {
            (Some(length), None) => self.length = Some(length),
            (Some(length), Some(before)) if length == before => {}
            _ => self.is_malformed = true,
        }
    }
}

impl<T> Stream<T> {
    /// Returns false if the response has no body, whatever length it names (RFC 9110 §6.4.1).
    pub(super) fn may_have_body(&self) -> bool {
        !self.is_head && !matches!(self.status, Some(204 | 304))
    }
}

/// Returns true for the name of a field of a response: a token without upper-case letters that does not concern the
/// connection (§8.2).
fn is_name(name: &[u8]) -> bool {
    let is_token = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(byte)
    };
    let of_connection = |own: &&str| own.as_bytes() == name;
    !name.is_empty() && name.iter().all(is_token) && !OF_CONNECTION.iter().any(of_connection)
}

/// Returns true for the value of a field: without NUL and line ends (§8.2.1), and other control characters but tabs.
fn is_value(value: &[u8]) -> bool {
    value
        .iter()
        .all(|byte| *byte >= b' ' && *byte != 0x7f || *byte == b'\t')
}
