//! The HTTP service: selects the response to a request.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, LocalBoxFuture, Ready, ready};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_LENGTH, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Method, Request, StatusCode, Version};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use crate::answer::{Answer, answer, text, with_field};
use crate::body::Body;
use crate::connection::{Busy, Connection};
use crate::counts::Counter;
use crate::faults::{self, Fault};
use crate::files::content_type;
use crate::worker::Worker;

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// The service of one connection.
pub(crate) struct Service {
    worker: Rc<Worker>,
    connection: Rc<Connection>,
    /// True if neither TLS nor HTTP/2 is between the requests and the socket.
    is_plain: bool,
}

type Answered = Result<Answer, Infallible>;
/// The future of a response. Most responses are ready at once and need no box.
type Answering = Either<Ready<Answered>, LocalBoxFuture<'static, Answered>>;

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let busy = self.connection.begin();
        let is_echo = request.uri().path() == "/echo";
        if !is_echo && !request.body().is_end_stream() {
            self.connection.leave_body();
        }
        if let Err(complaint) = check_host(request.version(), request.headers()) {
            let answer = text(StatusCode::BAD_REQUEST, complaint, busy);
            // An invalid request may hide another one.
            return self.now(with_field(answer, CONNECTION, CLOSE));
        }
        let path = request.uri().path();
        if let Some(name) = path.strip_prefix("/fault/") {
            return match Fault::parse(name, request.uri().query().unwrap_or_default()) {
                Ok(fault) => self.fail(fault, busy),
                Err(complaint) => self.now(text(StatusCode::BAD_REQUEST, complaint, busy)),
            };
        }
        if is_echo {
            return later(echo(Rc::clone(&self.worker), request, busy));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n", busy);
            let allowed = HeaderValue::from_static("GET, HEAD");
            return self.now(with_field(answer, ALLOW, allowed));
        }
        let answer = match path {
            "/healthz" => text(StatusCode::OK, "ok\n", busy),
            "/metrics" => text(StatusCode::OK, self.worker.resources.metrics(), busy),
            _ => self.file(path, busy),
        };
        self.now(match *request.method() {
            Method::HEAD => head_alone(answer),
            _ => answer,
        })
    }
}

impl Service {
    pub(crate) fn new(worker: &Rc<Worker>, connection: &Rc<Connection>, is_plain: bool) -> Self {
        Self {
            worker: Rc::clone(worker),
            connection: Rc::clone(connection),
            is_plain,
        }
    }

    fn now(&self, answer: Answer) -> Answering {
        self.worker.counts.answered(answer.status().as_u16(), 1);
        Either::Left(ready(Ok(answer)))
    }

    fn file(&self, path: &str, busy: Busy) -> Answer {
        match self.worker.folder.find(path) {
            Ok(content) => answer(
                StatusCode::OK,
                content_type(path),
                Body::content(content, busy),
            ),
            Err(status) => text(status, format!("{status}\n"), busy),
        }
    }

    fn fail(&self, fault: Fault, busy: Busy) -> Answering {
        let worker = Rc::clone(&self.worker);
        if !self.is_plain && fault.needs_socket() {
            let complaint = "this fault needs HTTP/1.1 without TLS\n";
            return self.now(text(StatusCode::NOT_IMPLEMENTED, complaint, busy));
        }
        later(async move {
            let answer = faults::commit(fault, busy, worker.counts).await;
            worker.counts.answered(answer.status().as_u16(), 1);
            answer
        })
    }
}

fn later(answer: impl Future<Output = Answer> + 'static) -> Answering {
    Either::Right(Box::pin(async { Ok(answer.await) }))
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
async fn echo(worker: Rc<Worker>, request: Request<Incoming>, busy: Busy) -> Answer {
    let (head, mut body) = request.into_parts();
    let mut length = 0;
    // One deadline for the whole body: single bytes sent slowly would hold the connection forever.
    let timeout = worker.resources.config.performance.connection_timeout;
    let deadline = Instant::now() + Duration::from_secs(timeout.get().into());
    loop {
        match timeout_at(deadline, body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => length += frame.data_ref().map_or(0, Bytes::len),
            // hyper closes the connection on this error, so nobody reads the response.
            Ok(Some(Err(_))) => return text(StatusCode::BAD_REQUEST, "the body is broken\n", busy),
            Err(_) => {
                worker.counts.add(Counter::Timeouts, 1);
                worker.counts.answered(408, 1);
                let complaint = "the body did not arrive in time\n";
                let answer = text(StatusCode::REQUEST_TIMEOUT, complaint, busy);
                return if head.version < Version::HTTP_2 {
                    with_field(answer, CONNECTION, CLOSE)
                } else {
                    answer
                };
            }
        }
    }
    let echo = json!({
        "method": head.method.as_str(),
        "target": head.uri.to_string(),
        "version": format!("{:?}", head.version),
        "headers": fields(&head.headers),
        "body_bytes": length,
    });
    worker.counts.answered(200, 1);
    answer(
        StatusCode::OK,
        "application/json",
        Body::whole(echo.to_string(), busy),
    )
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

/// Turns a response into one to HEAD: with the length of the body, but without the body. hyper drops the body by itself
/// only with HTTP/1.1.
fn head_alone(answer: Answer) -> Answer {
    let length = answer.body().size_hint().exact();
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
