//! `/metrics` and `/healthz`.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, server::conn::http1};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long a client may take to send its request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// What accepting waits after an error, which is most likely a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(10);

/// Makes the page of metrics.
pub(crate) type Page = Rc<dyn Fn() -> String>;

/// Serves the pages. Never ends by itself; dropping the future closes its connections.
pub(crate) async fn serve(listener: TcpListener, page: Page) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    connections.spawn_local(serve_client(client, Rc::clone(&page)));
                }
                Err(_) => sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_client(client: TcpStream, page: Page) {
    let service = service_fn(|request| {
        let response = respond(&request, &page);
        async { Ok::<_, Infallible>(response) }
    });
    // An error here is the client's: it left, or spoke no HTTP.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(client), service)
        .await;
}

fn respond(request: &Request<Incoming>, page: &Page) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/metrics" => {
            let mut response = text(StatusCode::OK, page());
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
