//! The head of a request (RFC 9112, sections 2 to 6).

use httparse::{EMPTY_HEADER, Error, Status};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, StatusCode, Uri, Version};

use super::content::Content;

/// Maximum number of fields.
const FIELDS: usize = 100;

/// A request, of which the content is still to be read.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) parts: Parts,
    pub(crate) content: Content,
    /// True if the client wants to make another request.
    pub(crate) keeps_alive: bool,
}

/// Parses a head. Returns it with its length in bytes, or `None` if its end is missing.
///
/// # Errors
/// The status for a request that is not valid. The connection must end then: another one may be hidden in it.
pub(crate) fn parse(received: &[u8], limit: usize) -> Result<Option<(Head, usize)>, StatusCode> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let too_long = |length| {
        // The line goes first: with its end missing, it is the target that is too long.
        match memchr::memchr(b'\n', received) {
            _ if length <= limit => Ok(()),
            Some(_) => Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            None => Err(StatusCode::URI_TOO_LONG),
        }
    };
    let length = match request.parse(received) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return too_long(received.len()).map(|()| None),
        Err(Error::TooManyHeaders) => return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Err(Error::Version) => return Err(StatusCode::HTTP_VERSION_NOT_SUPPORTED),
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    };
    too_long(length)?;
    let head = to_head(&request).ok_or(StatusCode::BAD_REQUEST)?;
    let content = content(head.version, &head.headers)?;
    let keeps_alive = match head.version {
        Version::HTTP_11 => !has_option(&head.headers, "close"),
        _ => has_option(&head.headers, "keep-alive"),
    };
    let head = Head {
        parts: head,
        content,
        keeps_alive,
    };
    Ok(Some((head, length)))
}

fn to_head(request: &httparse::Request<'_, '_>) -> Option<Parts> {
    let (mut head, ()) = Request::new(()).into_parts();
    head.method = Method::from_bytes(request.method?.as_bytes()).ok()?;
    head.uri = Uri::try_from(request.path?).ok()?;
    if request.version? == 0 {
        head.version = Version::HTTP_10;
    }
    for field in &*request.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(field.value).ok()?;
        head.headers.append(name, value);
    }
    Some(head)
}

/// Returns true if a Connection field has this option.
pub(super) fn has_option(headers: &HeaderMap, option: &str) -> bool {
    let fields = headers.get_all(CONNECTION).into_iter();
    let mut options = fields.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    options.any(|found| found.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
}

/// Finds out how the content is framed (RFC 9112, 6.1 to 6.3). Whatever others could read in another way is refused.
fn content(version: Version, headers: &HeaderMap) -> Result<Content, StatusCode> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let length = lengths.next();
    let mut fields = headers.get_all(TRANSFER_ENCODING).iter().peekable();
    if fields.peek().is_some() {
        if length.is_some() || version == Version::HTTP_10 {
            return Err(StatusCode::BAD_REQUEST);
        }
        let codings = fields.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let is_chunked = |coding: &[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
        let codings: Vec<bool> = codings.map(is_chunked).collect();
        return match codings.split_last() {
            Some((true, [])) => Ok(Content::chunked()),
            // The last coding must be the only `chunked` one; others are not implemented.
            Some((true, others)) if !others.contains(&true) => Err(StatusCode::NOT_IMPLEMENTED),
            _ => Err(StatusCode::BAD_REQUEST),
        };
    }
    let Some(length) = length else {
        return Ok(Content::Length(0));
    };
    let digits = length.to_str().unwrap_or_default();
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    match digits.parse() {
        Ok(length) if is_number && lengths.next().is_none() => Ok(Content::Length(length)),
        _ => Err(StatusCode::BAD_REQUEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(fields: &str) -> Result<Content, u16> {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        match parse(head.as_bytes(), 8192) {
            Ok(found) => Ok(found.unwrap().0.content),
            Err(status) => Err(status.as_u16()),
        }
    }

    #[test]
    fn content_that_could_be_read_in_two_ways_is_refused() {
        for (fields, content) in [
            ("", Ok(Content::Length(0))),
            ("Content-Length: 5\r\n", Ok(Content::Length(5))),
            ("Transfer-Encoding: chunked\r\n", Ok(Content::chunked())),
            ("Transfer-Encoding: CHUNKED \r\n", Ok(Content::chunked())),
            ("Transfer-Encoding: gzip, chunked\r\n", Err(501)),
            (
                "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
                Err(501),
            ),
            ("Transfer-Encoding: chunked, chunked\r\n", Err(400)),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                Err(400),
            ),
            ("Transfer-Encoding: chunked, gzip\r\n", Err(400)),
            ("Transfer-Encoding: gzip\r\n", Err(400)),
            ("Transfer-Encoding: xchunked\r\n", Err(400)),
            ("Transfer-Encoding: chunked;a=b\r\n", Err(400)),
            ("Transfer-Encoding:\r\n", Err(400)),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                Err(400),
            ),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", Err(400)),
            ("Content-Length: 5, 5\r\n", Err(400)),
            ("Content-Length: +5\r\n", Err(400)),
            ("Content-Length: -5\r\n", Err(400)),
            ("Content-Length:\r\n", Err(400)),
            ("Content-Length: 0x5\r\n", Err(400)),
            ("Content-Length: 99999999999999999999\r\n", Err(400)),
            ("Content-Length : 5\r\n", Err(400)),
            ("X: a\r\n b\r\n", Err(400)),
        ] {
            assert_eq!(parsed(fields), content, "{fields}");
        }
        let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse(old, 8192).unwrap_err(), 400);
    }

    #[test]
    fn a_head_has_a_limit_wherever_it_is_too_long() {
        let limit = 100;
        let long = "x".repeat(limit);
        for (head, status) in [
            (format!("GET /{long}"), 414),
            (format!("GET / HTTP/1.1\r\nX: {long}"), 431),
            (format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n"), 431),
            ("GET / HTTP/1.1\r\nX:".to_owned() + &long[..limit - 17], 431),
            (
                "GET / HTTP/1.1\r\n".to_owned() + &"a:\r\n".repeat(FIELDS + 1),
                431,
            ),
            ("GET / HTTP/2.0\r\n\r\n".to_owned(), 505),
        ] {
            assert_eq!(parse(head.as_bytes(), limit).unwrap_err(), status, "{head}");
        }
        let whole = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert!(parse(whole, whole.len()).unwrap().is_some());
        assert!(parse(&whole[..20], 20).unwrap().is_none());
    }
}
