//! Responses with a body of this daemon.

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use crate::body::Body;
use crate::connection::Busy;

pub(crate) type Answer = Response<Body>;

/// Returns a response with a plain text.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>, busy: Busy) -> Answer {
    answer(status, "text/plain", Body::whole(text, busy))
}

/// Returns a response with a body of this content type.
pub(crate) fn answer(status: StatusCode, kind: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    with_field(answer, CONTENT_TYPE, HeaderValue::from_static(kind))
}

pub(crate) fn with_field(mut answer: Answer, name: HeaderName, value: HeaderValue) -> Answer {
    answer.headers_mut().insert(name, value);
    answer
}
