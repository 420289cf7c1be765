//! The server side of WebSocket (RFC 6455), without extensions and without fragments.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use crate::server::Malformed;

const SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Fields of a request that is parsed.
const FIELDS: usize = 64;

pub(crate) const TEXT: u8 = 1;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// Reads the request for an upgrade. Returns its length and the response; `None` if it is incomplete.
pub(crate) fn upgrade(input: &[u8]) -> Result<Option<(usize, String)>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let httparse::Status::Complete(length) = request.parse(input).map_err(|_| Malformed)? else {
        return Ok(None);
    };
    let mut fields = request.headers.iter();
    let key = fields.find(|field| field.name.eq_ignore_ascii_case("sec-websocket-key"));
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key.ok_or(Malformed)?.value);
    digest.update(SUFFIX);
    let accept = BASE64.encode(digest.finish());
    Ok(Some((
        length,
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        ),
    )))
}

/// Reads a frame of a client: writes its payload into `payload`. Returns its length and its code; `None` if it is
/// incomplete.
#[inline]
pub(crate) fn read(input: &[u8], payload: &mut Vec<u8>) -> Result<Option<(usize, u8)>, Malformed> {
    let &[first, second, ref rest @ ..] = input else {
        return Ok(None);
    };
    // A last frame, masked.
    if first & 0xf0 != 0x80 || second & 0x80 == 0 {
        return Err(Malformed);
    }
    let (length, rest) = match second & 0x7f {
        126 => match rest.split_first_chunk() {
            Some((length, rest)) => (u16::from_be_bytes(*length).into(), rest),
            None => return Ok(None),
        },
        127 => match rest.split_first_chunk() {
            Some((length, rest)) => (u64::from_be_bytes(*length) as usize, rest),
            None => return Ok(None),
        },
        length => (usize::from(length), rest),
    };
    let Some((mask, rest)) = rest.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let Some(masked) = rest.get(..length) else {
        return Ok(None);
    };
    payload.clear();
    let bytes = masked.iter().zip(mask.iter().cycle());
    payload.extend(bytes.map(|(byte, mask)| byte ^ mask));
    Ok(Some((input.len() - rest.len() + length, first & 0x0f)))
}

/// Appends a frame of a server.
#[inline]
pub(crate) fn write(code: u8, payload: &[u8], output: &mut Vec<u8>) {
    output.push(0x80 | code);
    match payload.len() {
        length @ 0..126 => output.push(length as u8),
        length @ 126..0x1_0000 => {
            output.push(126);
            output.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            output.push(127);
            output.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    output.extend_from_slice(payload);
}
