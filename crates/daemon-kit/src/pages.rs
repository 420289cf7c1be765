//! `/metrics` and `/healthz` over HTTP/1.1.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, server::conn::http1};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// How long a client may take to send its request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// What accepting waits after an error, which is most likely a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(10);

/// Serves `/healthz`, and what `metrics` makes as `/metrics`, in the text format of Prometheus. Never ends by itself;
/// dropping the future closes its connections. It is `Send` if `metrics` may be shared between threads.
pub async fn serve(listener: TcpListener, metrics: impl Fn() -> String) {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => connections.push(serve_client(client, &metrics)),
                Err(_) => sleep(PAUSE).await,
            },
            Some(()) = connections.next() => {}
        }
    }
}

async fn serve_client(client: TcpStream, metrics: &impl Fn() -> String) {
    let service = service_fn(|request| {
        let response = respond(&request, metrics);
        async { Ok::<_, Infallible>(response) }
    });
    // An error here is the client's: it left, or spoke no HTTP.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(client), service)
        .await;
}

fn respond(request: &Request<Incoming>, metrics: &impl Fn() -> String) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/metrics" => {
            let mut response = text(StatusCode::OK, metrics());
            let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        "/healthz" => text(StatusCode::OK, "ok\n"),
        _ => text(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
