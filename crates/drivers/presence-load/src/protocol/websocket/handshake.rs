//! The handshake: an HTTP upgrade (RFC 6455 §4.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use httparse::{EMPTY_HEADER, Header, Response, Status};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use super::mask::Masks;
use crate::protocol::ProtocolError;

/// The text that the server appends to the key (RFC 6455 §1.3).
const SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Maximum length of the head of a response.
const LIMIT: usize = 16 << 10;
/// Maximum number of fields in a head.
const FIELDS: usize = 64;

/// A handshake that awaits its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    key: [u8; 16],
    /// The subprotocols that are offered, separated by commas; empty for none.
    subprotocols: Box<str>,
}

impl Handshake {
    /// Creates a handshake with a new key. `subprotocols` are offered: names separated by commas, or none.
    pub fn new(masks: &mut Masks, subprotocols: &str) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&masks.next_word().to_ne_bytes());
        key[8..].copy_from_slice(&masks.next_word().to_ne_bytes());
        Self {
            key,
            subprotocols: subprotocols.into(),
        }
    }

    /// Appends the request. `target` is the path with its query, and `fields` are further lines of the head.
    pub fn append_request(&self, out: &mut Vec<u8>, host: &str, target: &str, fields: &str) {
        let key = STANDARD.encode(self.key);
        let offer = match &*self.subprotocols {
            "" => "",
            _ => "\r\nSec-WebSocket-Protocol: ",
        };
        for part in [
            "GET ",
            target,
            " HTTP/1.1\r\nHost: ",
            host,
            "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ",
            &key,
            offer,
            &self.subprotocols,
            "\r\n",
            fields,
            "\r\n",
        ] {
            out.extend_from_slice(part.as_bytes());
        }
    }

    /// Reads the response. Returns the length of its head and its status, or `None` if it is incomplete. With the status
    /// 101 the frames follow; with any other the handshake was refused.
    ///
    /// # Errors
    /// It is not a response, or it accepts another handshake than this one.
    pub fn read_response(&self, input: &[u8]) -> Result<Option<(usize, u16)>, ProtocolError> {
        let mut slots = [EMPTY_HEADER; FIELDS];
        let mut response = Response::new(&mut slots);
        let length = match response.parse(input).map_err(|_| ProtocolError::Head)? {
            Status::Complete(length) => length,
            Status::Partial if input.len() < LIMIT => return Ok(None),
            Status::Partial => return Err(ProtocolError::Head),
        };
        let status = response.code.ok_or(ProtocolError::Head)?;
        if status == 101 {
            let mut fields = Fields::default();
            response.headers.iter().for_each(|field| fields.read(field));
            let is_offered = |chosen: &[u8]| {
                let mut offered = self.subprotocols.split(',');
                offered.any(|name| name.trim().as_bytes() == chosen)
            };
            let is_unasked = fields.extension || !fields.subprotocol.is_none_or(is_offered);
            let is_1_1 = response.version == Some(1);
            if !is_1_1 || !fields.upgrade || !fields.connection || is_unasked {
                return Err(ProtocolError::Handshake);
            }
            if fields.accept != Some(self.accept().as_bytes()) {
                return Err(ProtocolError::Accept);
            }
        }
        Ok(Some((length, status)))
    }

    /// Returns the value of `Sec-WebSocket-Accept` that fits the key.
    fn accept(&self) -> String {
        let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        digest.update(STANDARD.encode(self.key).as_bytes());
        digest.update(SUFFIX.as_bytes());
        STANDARD.encode(digest.finish())
    }
}

/// The fields of a response that matter.
#[derive(Default)]
struct Fields<'a> {
    upgrade: bool,
    connection: bool,
    accept: Option<&'a [u8]>,
    /// An extension was chosen; the request offers none.
    extension: bool,
    /// The subprotocol that was chosen.
    subprotocol: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    fn read(&mut self, field: &Header<'a>) {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("upgrade") {
            self.upgrade = field.value.eq_ignore_ascii_case(b"websocket");
        } else if is("connection") {
            let mut options = field.value.split(|byte| *byte == b',');
            self.connection |= options.any(|it| it.trim_ascii().eq_ignore_ascii_case(b"upgrade"));
        } else if is("sec-websocket-accept") {
            self.accept = Some(field.value);
        } else if is("sec-websocket-extensions") {
            self.extension |= !field.value.is_empty();
        } else if is("sec-websocket-protocol") && !field.value.is_empty() {
            self.subprotocol = Some(field.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455 §1.3.
    fn example() -> Handshake {
        Handshake {
            key: *b"the sample nonce",
            subprotocols: "".into(),
        }
    }

    fn response(replaced: &str, by: &str) -> String {
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
            .replace(replaced, by)
    }

    #[test]
    fn the_example_of_the_rfc_is_accepted_and_its_request_has_the_key() {
        let response = response("", "");
        let read = example().read_response(response.as_bytes());
        assert_eq!(read, Ok(Some((response.len(), 101))));
        for cut in 0..response.len() {
            assert_eq!(
                example().read_response(&response.as_bytes()[..cut]),
                Ok(None)
            );
        }
        let mut request = Vec::new();
        example().append_request(&mut request, "server.example.com", "/chat?a=b", "");
        let request = String::from_utf8(request).unwrap();
        assert!(request.starts_with("GET /chat?a=b HTTP/1.1\r\nHost: server.example.com\r\n"));
        assert!(request.contains("\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"));
    }

    #[test]
    fn a_subprotocol_is_accepted_if_it_was_offered() {
        let handshake = Handshake {
            subprotocols: "a, b".into(),
            ..example()
        };
        let mut request = Vec::new();
        handshake.append_request(&mut request, "h", "/", "X-A: 1\r\n");
        let request = String::from_utf8(request).unwrap();
        let end = "\r\nSec-WebSocket-Protocol: a, b\r\nX-A: 1\r\n\r\n";
        assert!(request.ends_with(end), "{request}");
        for (chosen, is_accepted) in [("a", true), ("b", true), ("c", false), ("a, b", false)] {
            let response = response(
                "Upgrade: w",
                &format!("Sec-WebSocket-Protocol: {chosen}\r\nUpgrade: w"),
            );
            let read = handshake.read_response(response.as_bytes());
            assert_eq!(read.is_ok(), is_accepted, "{chosen}");
            assert_eq!(
                example().read_response(response.as_bytes()),
                Err(ProtocolError::Handshake)
            );
        }
    }

    #[test]
    fn a_response_that_does_not_fit_is_an_error_and_a_refusal_is_not() {
        let read = |replaced, by| example().read_response(response(replaced, by).as_bytes());
        for (replaced, by, error) in [
            ("s3p", "S3p", ProtocolError::Accept),
            ("Sec-WebSocket-Accept", "X", ProtocolError::Accept),
            (
                "Upgrade: websocket",
                "Upgrade: h2c",
                ProtocolError::Handshake,
            ),
            (
                "Connection: Upgrade",
                "Connection: close",
                ProtocolError::Handshake,
            ),
            (
                "Upgrade: w",
                "Sec-WebSocket-Extensions: x\r\nUpgrade: w",
                ProtocolError::Handshake,
            ),
            ("HTTP/1.1", "HTTP/1.0", ProtocolError::Handshake),
            ("HTTP/1.1 101", "SSH-2.0", ProtocolError::Head),
        ] {
            assert_eq!(read(replaced, by), Err(error), "{by}");
        }
        let refused = read("101 Switching Protocols", "503 Busy");
        assert!(matches!(refused, Ok(Some((_, 503)))), "{refused:?}");
    }
}
