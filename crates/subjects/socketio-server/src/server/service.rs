//! Answers HTTP requests: Engine.IO's, and the health of the server.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::task::spawn_local;

use crate::counts::Count;
use crate::server::handshake::{accept_key, asks_for_websocket, first_protocol};
use crate::server::query::{Query, TransportName};
use crate::server::refusal::Refusal;
use crate::server::worker::Worker;
use crate::server::{cors, polling, websocket};
use crate::session::{Protocol, Session};

/// The path of the echo of Engine.IO messages.
const ECHO_PATH: &str = "/engine.io/";

/// Answers a request.
pub(crate) async fn respond(
    worker: &Rc<Worker>,
    mut request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    if request.uri().path() == "/healthz" {
        return health(worker);
    }
    let Some(protocol) = protocol(worker, request.uri().path()) else {
        return text(StatusCode::NOT_FOUND, "not found\n");
    };
    let allowed = cors::allowed_origin(&worker.engine.config, request.headers());
    let mut response = match *request.method() {
        Method::OPTIONS if allowed.is_some() => cors::preflight(request.headers()),
        _ => match serve(worker, protocol, &mut request).await {
            Ok(response) => response,
            Err(refusal) => {
                let counts = &worker.engine.counts;
                counts.add(Count::HandshakesRefused, 1);
                refuse(refusal)
            }
        },
    };
    if let Some(origin) = allowed {
        cors::allow(response.headers_mut(), origin);
    }
    response
}

fn health(worker: &Worker) -> Response<Full<Bytes>> {
    if worker.is_stopping() {
        text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else {
        text(StatusCode::OK, "ok\n")
    }
}

/// Returns what is served at a path, which may lack the slash at its end.
fn protocol(worker: &Worker, path: &str) -> Option<Protocol> {
    let config = &worker.engine.config;
    let is = |served: &str| path == served || Some(path) == served.strip_suffix('/');
    if is(&config.path) {
        return Some(Protocol::SocketIo);
    }
    (config.serves_engine_echo && is(ECHO_PATH)).then_some(Protocol::Echo)
}

/// Serves a request of Engine.IO.
async fn serve(
    worker: &Rc<Worker>,
    protocol: Protocol,
    request: &mut Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let uri = request.uri().clone();
    let query = Query::parse(uri.query().unwrap_or_default());
    let transport = query.transport.ok_or(Refusal::UnknownTransport)?;
    // A handshake of WebSocket must name its transport. Offers of other protocols are ignored (RFC 9110 §7.8).
    if transport == TransportName::Polling && asks_for_websocket(request.headers()) {
        return Err(Refusal::BadRequest);
    }
    if transport == TransportName::WebSocket
        && cors::is_foreign(&worker.engine.config, request.headers())
    {
        return Err(Refusal::ForeignOrigin);
    }
    let Some(id) = query.session else {
        return open(worker, protocol, transport, query.version, request);
    };
    let session = worker.polled.find(id).ok_or(Refusal::UnknownSession)?;
    match (transport, request.method()) {
        (TransportName::Polling, &Method::GET) => {
            let payload = polling::poll(worker, &session).await?;
            Ok(packets(payload))
        }
        (TransportName::Polling, &Method::POST) => {
            polling::post(worker, &session, request.body_mut()).await?;
            Ok(text(StatusCode::OK, "ok"))
        }
        (TransportName::WebSocket, &Method::GET) => upgrade(worker, session, request),
        _ => Err(Refusal::BadRequest),
    }
}

fn open(
    worker: &Rc<Worker>,
    protocol: Protocol,
    transport: TransportName,
    version: Option<&str>,
    request: &mut Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Refusal> {
    if request.method() != Method::GET {
        return Err(Refusal::BadMethod);
    }
    if version != Some("4") {
        return Err(Refusal::UnsupportedVersion);
    }
    if worker.is_stopping() {
        return Err(Refusal::Stopping);
    }
    if transport == TransportName::Polling {
        return Ok(packets(polling::open(worker, protocol)?));
    }
    // First: a session counts as open from its creation until its holder is dropped.
    let response = switch(request)?;
    let session = Session::new(&worker.engine, protocol).ok_or(Refusal::Full)?;
    let counts = &worker.engine.counts;
    counts.add(Count::HandshakesWebSocket, 1);
    let upgrade = hyper::upgrade::on(request);
    spawn_local(websocket::serve(worker.hold(session), upgrade));
    Ok(response)
}

fn upgrade(
    worker: &Rc<Worker>,
    session: Arc<Session>,
    request: &mut Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Refusal> {
    if session.connection.end().is_some() {
        return Err(Refusal::UnknownSession);
    }
    let response = switch(request)?;
    let upgrade = hyper::upgrade::on(request);
    if session.connection.is_upgraded() || session.is_upgrading.swap(true, Relaxed) {
        spawn_local(websocket::turn_away(upgrade));
    } else {
        let worker = Rc::clone(worker);
        spawn_local(websocket::serve_upgrade(worker, session, upgrade));
    }
    Ok(response)
}

/// Creates the response after which the connection is a WebSocket.
fn switch(request: &Request<Incoming>) -> Result<Response<Full<Bytes>>, Refusal> {
    let key = accept_key(request.headers()).ok_or(Refusal::BadRequest)?;
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    if let Some(protocol) = first_protocol(request.headers()) {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(response)
}

fn refuse(refusal: Refusal) -> Response<Full<Bytes>> {
    let mut response = text(refusal.status(), refusal.body());
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn packets(payload: Vec<u8>) -> Response<Full<Bytes>> {
    text(StatusCode::OK, payload)
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=UTF-8");
    headers.insert(header::CONTENT_TYPE, plain);
    let no_store = HeaderValue::from_static("no-store");
    headers.insert(header::CACHE_CONTROL, no_store);
    response
}
