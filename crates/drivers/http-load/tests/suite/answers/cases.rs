//! Responses byte by byte, their meaning, and whether hyper agrees. The server closes after the last byte.

mod bodies;
mod chunked;
mod heads;

use load::net::http1::{Missing, RequestInfo, ResponseError};

use crate::answers::hyper_view::HyperKind::{self, Differs, Same};
use crate::answers::read::Content;

/// A response with its expected result.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) asked: RequestInfo,
    pub(crate) bytes: Vec<u8>,
    pub(crate) expected: Result<Content, ResponseError>,
    pub(crate) hyper: HyperKind,
}

impl Case {
    fn asked_by_head(mut self) -> Self {
        self.asked.head = true;
        self
    }

    fn hyper(mut self, kind: &'static str, why: &'static str) -> Self {
        self.hyper = Differs(kind, why);
        self
    }
}

fn case(
    name: &'static str,
    bytes: impl Into<Vec<u8>>,
    expected: Result<Content, ResponseError>,
) -> Case {
    Case {
        name,
        asked: RequestInfo { head: false },
        bytes: bytes.into(),
        expected,
        hyper: Same,
    }
}

/// Builds a case whose connection may be used again.
fn kept(name: &'static str, bytes: impl Into<Vec<u8>>, status: u16, body: &str) -> Case {
    case(name, bytes, Ok((status, body.into(), true)))
}

/// Builds a case whose connection may not be used again.
fn closed(name: &'static str, bytes: impl Into<Vec<u8>>, status: u16, body: &str) -> Case {
    case(name, bytes, Ok((status, body.into(), false)))
}

fn fault(name: &'static str, bytes: impl Into<Vec<u8>>, fault: ResponseError) -> Case {
    case(name, bytes, Err(fault))
}

fn early(name: &'static str, bytes: impl Into<Vec<u8>>, missing: Missing) -> Case {
    case(name, bytes, Err(ResponseError::Early { missing }))
}

/// Builds a chunked response.
fn chunked(rest: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}")
}

/// Builds a response with a body of 5 bytes and additional fields.
fn five(fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{fields}\r\nhello")
}

/// Returns all cases.
pub(crate) fn cases() -> Vec<Case> {
    [
        heads::status_lines(),
        heads::heads(),
        heads::sizes(),
        heads::connections(),
        bodies::lengths(),
        bodies::codings(),
        bodies::bodyless(),
        bodies::cut_short(),
        chunked::chunks(),
        chunked::trailers(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
