//! Translation of hyper's errors into outcomes.

use std::error::Error as _;

use load::net::http1::ResponseError;
use std::io;

use hyper::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use hyper::{Response, StatusCode, Version};

use crate::outcome::{EARLY_CLOSE, HTTP2, RESET, TIMEOUT, TLS};

/// Finds framing faults that hyper accepts in an HTTP/1.1 response and the other engine's parser does not.
pub(super) fn framing<B>(is_head: bool, response: &Response<B>) -> Result<(), ResponseError> {
    let status = response.status();
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(ResponseError::Upgrade);
    }
    if is_head || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        return Ok(());
    }
    coding(response.version(), response.headers())
}

fn coding(version: Version, headers: &HeaderMap) -> Result<(), ResponseError> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else {
        return Ok(());
    };
    let alone = codings.next().is_none() && version == Version::HTTP_11;
    if !alone || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        Err(ResponseError::Coding)
    } else if headers.contains_key(CONTENT_LENGTH) {
        Err(ResponseError::Length)
    } else {
        Ok(())
    }
}

/// Returns the outcome of a failed request. hyper exposes few of its errors by a method; the others are distinguished
/// by their text, which the tests pin down.
pub(super) fn kind(error: &hyper::Error) -> &'static str {
    if error.is_parse_too_large() {
        return ResponseError::HeadTooLarge.kind();
    }
    if error.is_parse_status() {
        return ResponseError::StatusLine.kind();
    }
    // Cancelled: the connection ended before the request was sent.
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return EARLY_CLOSE;
    }
    if error.is_parse() {
        let fault = match error.to_string().as_str() {
            "invalid HTTP version parsed" | "invalid HTTP status-code parsed" => {
                ResponseError::StatusLine
            }
            "invalid content-length parsed" => ResponseError::Length,
            "unexpected transfer-encoding parsed" => ResponseError::Coding,
            _ => ResponseError::Header,
        };
        return fault.kind();
    }
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return of_http2(error);
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return of_io(error);
        }
        source = error.source();
    }
    EARLY_CLOSE
}

/// Returns true if only one stream of a connection is affected.
pub(super) fn is_of_one_stream(error: &hyper::Error) -> bool {
    let error = error.source().and_then(|source| source.downcast_ref());
    error.is_some_and(h2::Error::is_reset)
}

/// Returns true if the server did not take a request over HTTP/2: it was not sent, or a GOAWAY excluded its stream
/// (RFC 9113 §6.8).
pub(super) fn is_not_taken(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref());
    let excludes = |error: &h2::Error| error.is_go_away() && error.is_remote();
    error.is_canceled() || source.is_some_and(excludes)
}

fn of_http2(error: &h2::Error) -> &'static str {
    match error.get_io() {
        Some(error) => of_io(error),
        None if !error.is_remote() => HTTP2,
        None if error.is_reset() => RESET,
        None => EARLY_CLOSE,
    }
}

fn of_io(error: &io::Error) -> &'static str {
    if error
        .get_ref()
        .is_some_and(|error| error.is::<rustls::Error>())
    {
        return TLS;
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => EARLY_CLOSE,
        // HTTP/2: the server has closed, which is no error of the system.
        io::ErrorKind::BrokenPipe if error.raw_os_error().is_none() => EARLY_CLOSE,
        io::ErrorKind::TimedOut => TIMEOUT,
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => of_chunks(&error.to_string()),
        _ => RESET,
    }
}

fn of_chunks(text: &str) -> &'static str {
    let parts = ["chunk size", "chunk extension", "chunk body"];
    let fault = if parts.iter().any(|part| text.contains(part)) {
        ResponseError::Chunk
    } else {
        ResponseError::Trailer
    };
    fault.kind()
}
