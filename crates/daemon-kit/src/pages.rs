//! An HTTP/1.1 server for `/metrics`, `/healthz` and further pages of a daemon.

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

/// Maximum time for a client to send its request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed `accept`. The most likely cause is a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(10);

/// A GET or HEAD request for a page.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The path as received, not decoded.
    pub path: String,
    /// The `Authorization` header, if any.
    pub authorization: Option<String>,
    /// The client's address.
    pub peer: SocketAddr,
}

/// A response page.
#[derive(Debug, Clone)]
pub struct Page {
    /// The HTTP status code.
    pub status: u16,
    /// The `Content-Type`.
    pub kind: &'static str,
    /// The content.
    pub body: String,
    /// The `WWW-Authenticate` header, for status 401.
    pub challenge: Option<&'static str>,
}

impl Page {
    /// Creates a page in the Prometheus text format.
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

/// Serves `/healthz`, and the output of `metrics` as `/metrics` in the Prometheus text format. It runs until the future
/// is dropped, which closes its connections. The future is `Send` if `metrics` may be shared between threads.
pub async fn serve(listener: TcpListener, metrics: impl Fn() -> String) {
    serve_with(listener, |asked| {
        let found = (asked.path == "/metrics").then(|| Page::metrics(metrics()));
        ready(found)
    })
    .await;
}

/// Serves `/healthz` and the pages returned by `answer`. It runs until the future is dropped, which closes its
/// connections.
pub async fn serve_with<A>(listener: TcpListener, answer: impl Fn(Asked) -> A)
where
    A: Future<Output = Option<Page>>,
{
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, peer)) => connections.push(serve_client(client, peer, &answer)),
                Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
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
    // An error here is the client's: it disconnected, or did not speak HTTP.
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
            "page not found; try /metrics or /healthz\n",
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
