//! The HTTP service: selects the response to a request.

use std::io;
use std::ops::Range;
use std::time::Duration;

use hyper::body::Body as _;
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HOST,
    HeaderValue, LAST_MODIFIED, LOCATION,
};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Method, StatusCode, Version};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::answer::{Answer, answer, text, with_field};
use crate::body::Body;
use crate::byte_ranges::ByteRanges;
use crate::conditions::{Selection, http_date, select};
use crate::connection::Busy;
use crate::counts::Counter;
use crate::faults::{self, Fault};
use crate::files::NotServed;
use crate::worker::Worker;

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Responds to a request, whose content has the length that `content` reads. `is_plain` is true if neither TLS nor HTTP/2
/// is between the requests and the socket.
pub(crate) async fn answer_to(
    worker: &Worker,
    head: &Parts,
    is_plain: bool,
    content: impl Future<Output = io::Result<u64>>,
    busy: Busy,
) -> Answer {
    let path = head.uri.path();
    let answer = if let Err(complaint) = check_host(head.version, &head.headers) {
        let answer = text(StatusCode::BAD_REQUEST, complaint, busy);
        // An invalid request may hide another one.
        with_field(answer, CONNECTION, CLOSE)
    } else if let Some(name) = path.strip_prefix("/fault/") {
        match Fault::parse(name, head.uri.query().unwrap_or_default()) {
            Ok(fault) if !is_plain && fault.needs_socket() => {
                let complaint = "this fault needs HTTP/1.1 without TLS\n";
                text(StatusCode::NOT_IMPLEMENTED, complaint, busy)
            }
            Ok(fault) => Box::pin(faults::commit(fault, busy, worker.counts)).await,
            Err(complaint) => text(StatusCode::BAD_REQUEST, complaint, busy),
        }
    } else if path == "/echo" {
        Box::pin(echo(worker, head, content, busy)).await
    } else if !matches!(head.method, Method::GET | Method::HEAD) {
        let answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n", busy);
        with_field(answer, ALLOW, HeaderValue::from_static("GET, HEAD"))
    } else {
        match path {
            "/healthz" => text(StatusCode::OK, "ok\n", busy),
            "/metrics" => text(StatusCode::OK, worker.resources.metrics(), busy),
            _ => file(worker, head, busy),
        }
    };
    worker.counts.answered(answer.status().as_u16(), 1);
    match head.method {
        Method::HEAD => head_alone(answer),
        _ => answer,
    }
}

fn file(worker: &Worker, head: &Parts, busy: Busy) -> Answer {
    let failed = |status: StatusCode, busy| text(status, format!("{status}\n"), busy);
    let (facts, content) = match worker.folder.find(head.uri.path()) {
        Ok(found) => found,
        Err(NotServed::Failed(status)) => return failed(status, busy),
        Err(NotServed::IsFolder) => return to_folder(head, busy),
    };
    let selection = select(&head.method, &head.headers, &facts);
    let (status, range) = match &selection {
        Selection::Whole => (StatusCode::OK, 0..facts.length),
        Selection::Part(range) => (StatusCode::PARTIAL_CONTENT, range.clone()),
        Selection::Parts(_) => (StatusCode::PARTIAL_CONTENT, 0..0),
        Selection::NotModified => (StatusCode::NOT_MODIFIED, 0..0),
        Selection::Failed => return failed(StatusCode::PRECONDITION_FAILED, busy),
        Selection::Unsatisfiable => {
            let range = format!("bytes */{}", facts.length);
            let answer = failed(StatusCode::RANGE_NOT_SATISFIABLE, busy);
            return with_field(answer, CONTENT_RANGE, ascii(range));
        }
    };
    let mut answer = if selection == Selection::NotModified {
        Answer::new(Body::whole("", busy))
    } else if let Selection::Parts(ranges) = &selection {
        let (parts, kind) = ByteRanges::new(content, &facts, ranges.clone());
        let answer = Answer::new(Body::parts(parts, busy));
        with_field(answer, CONTENT_TYPE, ascii(kind))
    } else {
        match content.part(range.clone()) {
            Ok(content) => answer(status, facts.kind, Body::content(content, busy)),
            Err(_) => return failed(StatusCode::INTERNAL_SERVER_ERROR, busy),
        }
    };
    *answer.status_mut() = status;
    let fields = answer.headers_mut();
    fields.insert(LAST_MODIFIED, ascii(http_date(facts.modified)));
    fields.insert(ETAG, ascii(facts.etag()));
    match selection {
        Selection::Whole => {
            fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
        Selection::Part(Range { start, end }) => {
            let range = format!("bytes {start}-{}/{}", end - 1, facts.length);
            fields.insert(CONTENT_RANGE, ascii(range));
        }
        _ => {}
    }
    answer
}

/// Redirects a client to a folder, whose index has links that are relative to it.
fn to_folder(head: &Parts, busy: Busy) -> Answer {
    let query = head.uri.query().map(|query| format!("?{query}"));
    let location = format!("{}/{}", head.uri.path(), query.unwrap_or_default());
    let answer = text(StatusCode::MOVED_PERMANENTLY, "", busy);
    match HeaderValue::try_from(location) {
        Ok(location) => with_field(answer, LOCATION, location),
        Err(_) => answer,
    }
}

/// Makes a field of digits, letters and punctuation.
fn ascii(value: String) -> HeaderValue {
    HeaderValue::try_from(value).expect("it has printable characters only")
}

/// Checks the Host of a request as RFC 9112, 3.2 requires: exactly one with HTTP/1.1, none or one with HTTP/1.0. HTTP/2
/// has it among its pseudo-header fields, which hyper checks.
fn check_host(version: Version, headers: &HeaderMap) -> Result<(), &'static str> {
    if version >= Version::HTTP_2 {
        return Ok(());
    }
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 => Err("the Host field is missing\n"),
        (None, _) => Ok(()),
        (Some(_), Some(_)) => Err("the Host field is repeated\n"),
        (Some(host), None) if is_host(host.as_bytes()) => Ok(()),
        (Some(_), None) => Err("the Host field is not a valid host\n"),
    }
}

/// Returns true for `uri-host [ ":" port ]` (RFC 9110, 7.2), and for an empty value, which stands for a target without
/// authority.
pub(crate) fn is_host(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else {
        return false;
    };
    let port = match host.rsplit_once(':') {
        // These colons belong to an address in brackets.
        Some((_, last)) if last.ends_with(']') => "",
        Some((_, port)) => port,
        None => "",
    };
    let is_authority = || {
        host.parse::<Authority>()
            .is_ok_and(|it| it.as_str() == host)
    };
    host.is_empty()
        || (!host.contains('@')
            && port.bytes().all(|digit| digit.is_ascii_digit())
            && (port.is_empty() || port.parse::<u16>().is_ok())
            && is_authority())
}

/// Returns the request as JSON, for tests of clients.
async fn echo(
    worker: &Worker,
    head: &Parts,
    content: impl Future<Output = io::Result<u64>>,
    busy: Busy,
) -> Answer {
    // One deadline for the whole content: single bytes sent slowly would hold the connection forever.
    let limit = worker.resources.config.performance.connection_timeout;
    let refused = |status, complaint: &'static str, busy| {
        let answer = text(status, complaint, busy);
        if head.version < Version::HTTP_2 {
            with_field(answer, CONNECTION, CLOSE)
        } else {
            answer
        }
    };
    let length = match timeout(Duration::from_secs(limit.get().into()), content).await {
        Ok(Ok(length)) => length,
        Ok(Err(_)) => return refused(StatusCode::BAD_REQUEST, "the body is broken\n", busy),
        Err(_) => {
            worker.counts.add(Counter::Timeouts, 1);
            let complaint = "the body did not arrive in time\n";
            return refused(StatusCode::REQUEST_TIMEOUT, complaint, busy);
        }
    };
    let echo = json!({
        "method": head.method.as_str(),
        "target": head.uri.to_string(),
        "version": format!("{:?}", head.version),
        "headers": fields(&head.headers),
        "body_bytes": length,
    });
    let body = Body::whole(echo.to_string(), busy);
    answer(StatusCode::OK, "application/json", body)
}

/// Returns the fields by name; repeated fields are joined as RFC 9110, 5.3 defines.
fn fields(headers: &HeaderMap) -> Map<String, Value> {
    let joined = |name| {
        let values = headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()));
        values.collect::<Vec<_>>().join(", ")
    };
    headers
        .keys()
        .map(|name| (name.to_string(), joined(name).into()))
        .collect()
}

/// Turns a response into one to HEAD: with the length of the body, but without the body. A 304 has no length: it would be
/// the one of a 200 (RFC 9110, 8.6).
fn head_alone(answer: Answer) -> Answer {
    let has_length = !matches!(answer.status().as_u16(), 204 | 304);
    let length = answer.body().size_hint().exact().filter(|_| has_length);
    let answer = answer.map(Body::emptied);
    match length {
        Some(length) => with_field(answer, CONTENT_LENGTH, length.into()),
        None => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for host in ["", "a", "a.b:80", "127.0.0.1", "[::1]", "[::1]:8080", "a:"] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "a b", "a/b", "a@b", "a:b", "a:80:80", "a:99999", "a?b", "[::1", "a\u{e9}", "a\\b",
            "http://a",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }
}
