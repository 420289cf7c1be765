//! Parses the same bytes with hyper and names the results by the same kinds: the work that an engine on hyper must do
//! to count like the reader.

use std::error::Error as _;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use load::net::http1::RequestInfo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::answers::read::{Content, Seen};

/// The agreement of hyper with the reader.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HyperKind {
    Same,
    /// The kind of hyper's result (`ok` if it sees no fault), and the reason.
    Differs(&'static str, &'static str),
}

/// Returns the result as [`Seen::outcome_by_kind`] does. The connection is closed after the bytes unless the reader had
/// everything it needs.
pub(crate) fn hyper_view(
    asked: RequestInfo,
    bytes: &[u8],
    seen: &Seen,
) -> Result<Content, &'static str> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime can be made");
    let stays_open = seen.result.is_ok() && !seen.ended;
    let bytes = if stays_open {
        &bytes[..seen.used]
    } else {
        bytes
    };
    let exchange = exchange(asked, bytes, stays_open);
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), exchange).await })
        .expect("hyper answers as soon as the connection is closed")
}

async fn exchange(
    asked: RequestInfo,
    bytes: &[u8],
    stays_open: bool,
) -> Result<Content, &'static str> {
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    let (sender, connection) = Builder::new()
        .allow_obsolete_multiline_headers_in_responses(true)
        .max_header_size(64 * 1024)
        .handshake(TokioIo::new(ours))
        .await
        .expect("hyper sends nothing before the request");
    let client = async {
        tokio::select! {
            // The sender is notified of the end of the connection.
            biased;
            view = ask(asked, sender) => view,
            never = async { let _ = connection.await; std::future::pending().await } => never,
        }
    };
    let (view, _open) = tokio::join!(client, serve(theirs, bytes, stays_open));
    view
}

/// Answers the request with the bytes, once it has arrived.
async fn serve(mut stream: DuplexStream, bytes: &[u8], stays_open: bool) -> Option<DuplexStream> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return None;
        }
    }
    // hyper may have given up before the end.
    let _ = stream.write_all(bytes).await;
    stays_open.then_some(stream)
}

async fn ask(
    asked: RequestInfo,
    mut sender: SendRequest<Empty<Bytes>>,
) -> Result<Content, &'static str> {
    let method = if asked.head {
        Method::HEAD
    } else {
        Method::GET
    };
    let request = Request::builder()
        .method(method)
        .uri("/")
        .body(Empty::new())
        .expect("the request is well-formed");
    let response = sender
        .send_request(request)
        .await
        .map_err(|error| kind(&error))?;
    framing(asked, &response)?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| kind(&error))?.to_bytes();
    let keep_alive = sender.ready().await.is_ok();
    Ok((status, body.to_vec(), keep_alive))
}

/// Finds the framing faults that hyper accepts.
fn framing(asked: RequestInfo, response: &Response<Incoming>) -> Result<(), &'static str> {
    let status = response.status();
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err("protocol_upgrade");
    }
    if asked.head || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        return Ok(());
    }
    coding(response.version(), response.headers())
}

fn coding(version: Version, headers: &HeaderMap) -> Result<(), &'static str> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else {
        return Ok(());
    };
    let alone = codings.next().is_none() && version == Version::HTTP_11;
    if !alone || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        Err("protocol_coding")
    } else if headers.contains_key(CONTENT_LENGTH) {
        Err("protocol_length")
    } else {
        Ok(())
    }
}

/// hyper exposes few of its errors by a method: the others are distinguished by their text.
fn kind(error: &hyper::Error) -> &'static str {
    if error.is_parse_too_large() {
        return "protocol_head_too_large";
    }
    if error.is_parse_status() {
        return "protocol_status_line";
    }
    if error.is_incomplete_message() {
        return "early_close";
    }
    if error.is_parse() {
        return match error.to_string().as_str() {
            "invalid HTTP version parsed" | "invalid HTTP status-code parsed" => {
                "protocol_status_line"
            }
            "invalid content-length parsed" => "protocol_length",
            "unexpected transfer-encoding parsed" => "protocol_coding",
            _ => "protocol_header",
        };
    }
    error.source().map_or("other", body_kind)
}

fn body_kind(source: &(dyn std::error::Error + 'static)) -> &'static str {
    let Some(error) = source.downcast_ref::<std::io::Error>() else {
        return "other";
    };
    let text = error.to_string();
    let in_chunks = [
        "chunk size",
        "chunk extension",
        "chunk body",
        "chunk extensions",
    ];
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        "early_close"
    } else if in_chunks.iter().any(|part| text.contains(part)) {
        "protocol_chunk"
    } else {
        "protocol_trailer"
    }
}
