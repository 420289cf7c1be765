//! `/metrics` and `/healthz` over HTTP/1.1, and further pages that a daemon has.

use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, server::conn::http1};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// How long a client may take to send its request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// What accepting waits after an error, which is most likely a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(10);

/// A request for a page, by GET or HEAD.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The path as it was sent, not decoded.
    pub path: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The client's address.
    pub peer: SocketAddr,
}

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// The status code of HTTP.
    pub status: u16,
    /// The `Content-Type`.
    pub kind: &'static str,
    /// The content.
    pub body: String,
    /// The `WWW-Authenticate` header, for status 401.
    pub challenge: Option<&'static str>,
}

impl Page {
    /// Makes a page in the text format of Prometheus.
    #[must_use]
    pub fn metrics(body: String) -> Self {
        Self {
            status: 200,
            kind: "text/plain; version=0.0.4; charset=utf-8",
            body,
            challenge: None,
        }
    }
}

/// Serves `/healthz`, and what `metrics` makes as `/metrics`, in the text format of Prometheus. Never ends by itself;
/// dropping the future closes its connections. It is `Send` if `metrics` may be shared between threads.
pub async fn serve(listener: TcpListener, metrics: impl Fn() -> String) {
    serve_with(listener, |asked| {
        let found = (asked.path == "/metrics").then(|| Page::metrics(metrics()));
        ready(found)
    })
    .await;
}

/// Serves `/healthz` and the pages that `answer` knows. Never ends by itself; dropping the future closes its connections.
pub async fn serve_with<A>(listener: TcpListener, answer: impl Fn(Asked) -> A)
where
    A: Future<Output = Option<Page>>,
{
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, peer)) => connections.push(serve_client(client, peer, &answer)),
                Err(_) => sleep(PAUSE).await,
            },
            Some(()) = connections.next() => {}
        }
    }
}

async fn serve_client<A>(client: TcpStream, peer: SocketAddr, answer: &impl Fn(Asked) -> A)
where
    A: Future<Output = Option<Page>>,
{
    let service =
        service_fn(
            |request| async move { Ok::<_, Infallible>(respond(&request, peer, answer).await) },
        );
    // An error here is the client's: it left, or spoke no HTTP.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(client), service)
        .await;
}

async fn respond<A>(
    request: &Request<Incoming>,
    peer: SocketAddr,
    answer: &impl Fn(Asked) -> A,
) -> Response<Full<Bytes>>
where
    A: Future<Output = Option<Page>>,
{
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let path = request.uri().path();
    if path == "/healthz" {
        return text(StatusCode::OK, "ok\n");
    }
    let authorization = request.headers().get(AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok());
    let asked = Asked {
        path: path.to_owned(),
        authorization: authorization.map(str::to_owned),
        peer,
    };
    let Some(page) = answer(asked).await else {
        return text(
            StatusCode::NOT_FOUND,
            "there is no such page; there are /metrics and /healthz\n",
        );
    };
    let status = StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = text(status, page.body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(page.kind));
    if let Some(challenge) = page.challenge {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    response
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
