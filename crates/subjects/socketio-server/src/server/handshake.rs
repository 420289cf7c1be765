//! The handshake of WebSocket (RFC 6455 §4.2).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{self, AsHeaderName, HeaderMap, HeaderValue};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

/// The GUID that is appended to the client's key.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns the value of `Sec-WebSocket-Accept`; `None` if the headers of the request make no handshake.
pub(crate) fn accept_key(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = asks_for_websocket(headers)
        && has_token(headers, header::CONNECTION, "upgrade")
        && has_token(headers, header::SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?.as_bytes();
    let decoded = BASE64_STANDARD.decode(key).ok()?;
    if !asks || decoded.len() != 16 {
        return None;
    }
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(GUID);
    HeaderValue::from_str(&BASE64_STANDARD.encode(hash.finish())).ok()
}

/// Returns the first subprotocol that a client offers. Clients that offer some fail if none is selected.
pub(crate) fn first_protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let offered = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let first = offered
        .split(',')
        .map(str::trim)
        .find(|it| !it.is_empty())?;
    HeaderValue::from_str(first).ok()
}

/// Returns true if one of the protocols that a client offers to change to is WebSocket.
pub(crate) fn asks_for_websocket(headers: &HeaderMap) -> bool {
    has_token(headers, header::UPGRADE, "websocket")
}

/// Returns true if a header, which may be a list and may occur several times, contains a token.
fn has_token(headers: &HeaderMap, name: impl AsHeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    let mut tokens = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tokens.any(|found| found.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(connection: &'static str, key: &'static str) -> HeaderMap {
        let pairs = [
            (header::UPGRADE, "WebSocket"),
            (header::CONNECTION, connection),
            (header::SEC_WEBSOCKET_VERSION, "13"),
            (header::SEC_WEBSOCKET_KEY, key),
        ];
        let pairs = pairs.map(|(name, value)| (name, HeaderValue::from_static(value)));
        pairs.into_iter().collect()
    }

    #[test]
    fn the_key_is_answered_as_in_the_standard() {
        // RFC 6455 §1.3.
        let headers = headers("keep-alive, Upgrade", "dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(
            accept_key(&headers).unwrap(),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn a_request_without_the_headers_is_no_handshake() {
        assert_eq!(
            accept_key(&headers("close", "dGhlIHNhbXBsZSBub25jZQ==")),
            None
        );
        assert_eq!(accept_key(&headers("upgrade", "c2hvcnQ=")), None);
        assert_eq!(accept_key(&HeaderMap::new()), None);
    }
}
