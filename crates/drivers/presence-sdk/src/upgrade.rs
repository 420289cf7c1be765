//! The HTTP request that opens a WebSocket, and the check of its response (RFC 6455 §4.1).
//!
//! Tungstenite's own handshake leaves a read buffer of 4 KiB in the connection for good, four times what it needs.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::handshake::client::{Request, Response, generate_request};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::handshake::machine::TryParse as _;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};

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
    let accept = derive_accept_key(key.as_bytes());
    let length = loop {
        if let Some(length) = read_head(&response, &accept)? {
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
    Ok(response[length..].to_vec())
}

/// Returns the length of the head, once it is complete.
fn read_head(response: &[u8], accept: &str) -> Result<Option<usize>, Error> {
    let parsed = Response::try_parse(response)
        .map_err(|error| Error::connect(format!("the server does not answer in HTTP ({error})")))?;
    let Some((length, head)) = parsed else {
        return Ok(None);
    };
    let status = head.status();
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::connect(format!(
            "the server answered {status} instead of opening a WebSocket; check the path of the URL"
        )));
    }
    let field = |name| head.headers().get(name).map(HeaderValue::as_bytes);
    let is_upgraded = field("upgrade").is_some_and(|it| it.eq_ignore_ascii_case(b"websocket"));
    if is_upgraded && field("sec-websocket-accept") == Some(accept.as_bytes()) {
        return Ok(Some(length));
    }
    let problem = "the HTTP response does not accept the WebSocket";
    Err(Error::connect(problem))
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
        let read = |response: &str| read_head(response.as_bytes(), ACCEPT).unwrap();
        assert_eq!(read(&format!("{head}\x01")), Some(head.len()));
        assert_eq!(read(&head[..head.len() - 1]), None);
        assert!(read_head(head.as_bytes(), "another").is_err());
    }

    #[test]
    fn another_response_is_refused() {
        for head in [
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "x\r\n\r\n",
        ] {
            assert!(read_head(head.as_bytes(), ACCEPT).is_err(), "{head}");
        }
    }
}
