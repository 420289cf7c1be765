//! The HTTP request that opens a WebSocket, and the check of its response (RFC 6455 §4.1).
//!
//! Tungstenite's own handshake leaves a read buffer of 4 KiB in the connection for good, four times what it needs.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::handshake::client::{Request, generate_request};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::error::Error;

/// The largest response head that is accepted.
const MOST_BYTES: usize = 16 * 1024;

/// Sends the request and reads the response. Returns the bytes behind the response.
pub(crate) async fn upgrade(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: Request,
) -> Result<Vec<u8>, Error> {
    let (head, key) = generate_request(request).map_err(Error::connect)?;
    stream.write_all(&head).await.map_err(Error::connect)?;
    stream.flush().await.map_err(Error::connect)?;
    let mut response = Vec::with_capacity(1024);
    let length = loop {
        if let Some(length) = head_length(&response) {
            break length;
        }
        if response.len() > MOST_BYTES {
            return Err(Error::connect("the HTTP response has too many headers"));
        }
        let read = stream.read_buf(&mut response).await;
        if read.map_err(Error::connect)? == 0 {
            return Err(Error::connect("the server closed the connection"));
        }
    };
    check(&response[..length], &derive_accept_key(key.as_bytes()))?;
    Ok(response[length..].to_vec())
}

/// Returns the length of the head with its empty line, once it is complete.
fn head_length(response: &[u8]) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    let end = response.windows(END.len()).position(|bytes| bytes == END);
    end.map(|end| end + END.len())
}

fn check(head: &[u8], accept: &str) -> Result<(), Error> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let mut words = status.splitn(3, ' ');
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    let code = words.next().unwrap_or_default();
    if !is_http || code != "101" {
        return Err(Error::connect(format!(
            "the server answered `{status:.60}` instead of opening a WebSocket; check the path of the URL"
        )));
    }
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let has = |name: &str, is_right: &dyn Fn(&str) -> bool| {
        let mut fields = fields.iter();
        fields.any(|(field, value)| field.eq_ignore_ascii_case(name) && is_right(value.trim()))
    };
    let is_upgraded = has("upgrade", &|value| value.eq_ignore_ascii_case("websocket"))
        && has("sec-websocket-accept", &|value| value == accept);
    if is_upgraded {
        Ok(())
    } else {
        Err(Error::connect(
            "the HTTP response does not accept the WebSocket",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

    #[test]
    fn the_response_of_the_rfc_is_accepted() {
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nsec-websocket-accept: {ACCEPT}\r\n\r\n"
        );
        check(head.as_bytes(), ACCEPT).unwrap();
        assert_eq!(
            head_length(format!("{head}\x01").as_bytes()),
            Some(head.len())
        );
        assert_eq!(head_length(&head.as_bytes()[..head.len() - 1]), None);
        assert!(check(head.as_bytes(), "another").is_err());
    }

    #[test]
    fn another_response_is_refused() {
        for head in [
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert!(check(head.as_bytes(), ACCEPT).is_err(), "{head}");
        }
    }
}
