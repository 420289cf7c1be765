//! Answers byte by byte, what each means, and whether hyper agrees. After the last byte the server closes.

#[path = "cases/bodies.rs"]
mod bodies;
#[path = "cases/chunked.rs"]
mod chunked;
#[path = "cases/heads.rs"]
mod heads;

use http_load::answer::{Asked, Fault, Missing};

use crate::hyper_view::HyperKind::{self, Differs, Same};
use crate::read::Content;

/// One answer.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) asked: Asked,
    pub(crate) bytes: Vec<u8>,
    pub(crate) expected: Result<Content, Fault>,
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

fn case(name: &'static str, bytes: impl Into<Vec<u8>>, expected: Result<Content, Fault>) -> Case {
    Case {
        name,
        asked: Asked { head: false },
        bytes: bytes.into(),
        expected,
        hyper: Same,
    }
}

/// The connection may be used again.
fn kept(name: &'static str, bytes: impl Into<Vec<u8>>, status: u16, body: &str) -> Case {
    case(name, bytes, Ok((status, body.into(), true)))
}

/// It may not.
fn closed(name: &'static str, bytes: impl Into<Vec<u8>>, status: u16, body: &str) -> Case {
    case(name, bytes, Ok((status, body.into(), false)))
}

fn fault(name: &'static str, bytes: impl Into<Vec<u8>>, fault: Fault) -> Case {
    case(name, bytes, Err(fault))
}

fn early(name: &'static str, bytes: impl Into<Vec<u8>>, missing: Missing) -> Case {
    case(name, bytes, Err(Fault::Early { missing }))
}

/// A chunked answer.
fn chunked(rest: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}")
}

/// An answer of 5 bytes with some more fields.
fn five(fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{fields}\r\nhello")
}

/// All of them.
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
