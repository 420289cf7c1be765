//! The protocol of a connection: detected, then served until the connection ends or is ordered to. HTTP/2 is hyper's.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::connection::{Connection, Order, Wire};
use crate::http1::Http1;
use crate::service::answer_to;
use crate::worker::Worker;

/// The beginning of an HTTP/2 connection (RFC 9113, 3.4), up to where it is unambiguous.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Pause before the next look at a client that has sent part of it.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Normally, or as ordered; there is nothing to report.
    Well,
    /// The client took too long for a request.
    TimedOut,
    /// The client was silent for too long.
    Idle,
    /// The client got an error response, and may still be sending its request.
    Refused,
}

impl From<Order> for Ended {
    fn from(order: Order) -> Self {
        match order {
            Order::TimedOut => Self::TimedOut,
            Order::Expired => Self::Idle,
            Order::None | Order::Drain | Order::Close => Self::Well,
        }
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(worker: &Rc<Worker>, connection: &Rc<Connection>, secure: bool) -> Ended {
    // A connection has no buffers before its first byte, whatever its protocol will be. Boxed is what an idle connection
    // would pay for otherwise.
    let is_http2 = match &worker.resources.tls {
        Some(tls) if secure => return Box::pin(serve_tls(worker, connection, tls)).await,
        _ => {
            connection
                .unless_ordered(pin!(begins_with_preface(connection)))
                .await
        }
    };
    let wire = Wire(Rc::clone(connection));
    match is_http2 {
        Err(order) => order.into(),
        Ok(true) => Box::pin(serve_http2(worker, connection, wire)).await,
        Ok(false) => Http1::new(worker, connection, wire, true).serve().await,
    }
}

async fn serve_tls(worker: &Rc<Worker>, connection: &Rc<Connection>, tls: &TlsAcceptor) -> Ended {
    let handshake = Box::pin(tls.accept(Wire(Rc::clone(connection))));
    let stream = match connection.unless_ordered(handshake).await {
        Err(order) => return order.into(),
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            return Ended::Refused;
        }
        Ok(Ok(stream)) => Box::new(stream),
    };
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Box::pin(serve_http2(worker, connection, stream)).await,
        _ => Http1::new(worker, connection, stream, false).serve().await,
    }
}

/// Waits for the first bytes and peeks at them.
async fn begins_with_preface(connection: &Connection) -> bool {
    let mut first = [0; PREFACE.len()];
    loop {
        // Readiness may be spurious; the peek shows that.
        if connection.readable().await.is_err() {
            return false;
        }
        match connection.peek(&mut first) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The rest may come; the socket stays ready meanwhile, so readiness says nothing.
            Ok(length @ 1..)
                if first[..length] == PREFACE[..length]
                    && length < PREFACE.len()
                    && !connection.is_ended() =>
            {
                Box::pin(sleep(PAUSE)).await;
            }
            Ok(length) => return first[..length] == *PREFACE,
            // The next read reports the error.
            Err(_) => return false,
        }
    }
}

async fn serve_http2(
    worker: &Rc<Worker>,
    connection: &Rc<Connection>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Ended {
    connection.multiplex();
    let service = service_fn(|request: Request<Incoming>| {
        let (worker, connection) = (Rc::clone(worker), Rc::clone(connection));
        let busy = connection.begin();
        async move {
            let (head, body) = request.into_parts();
            if head.uri.path() != "/echo" && !body.is_end_stream() {
                connection.leave_body();
            }
            Ok::<_, Infallible>(answer_to(&worker, &head, false, length(body), busy).await)
        }
    });
    let mut protocol = pin!(
        http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut drains = false;
    let ended = poll_fn(|cx| {
        match connection.ordered(cx) {
            Order::None => {}
            Order::Drain if drains => {}
            Order::Drain => {
                drains = true;
                protocol.as_mut().graceful_shutdown();
            }
            order => return Poll::Ready(Err(order)),
        }
        protocol.as_mut().poll(cx).map(Ok)
    })
    .await;
    match ended {
        Err(order) => return order.into(),
        Ok(Err(error)) => tracing::debug!(%error, "serving failed"),
        Ok(Ok(())) => {}
    }
    Ended::Well
}

/// Reads the content of a request; returns its length in bytes.
async fn length(mut body: Incoming) -> io::Result<u64> {
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(io::Error::other)?;
        length += frame.data_ref().map_or(0, Bytes::len) as u64;
    }
    Ok(length)
}

/// An executor that runs HTTP/2 streams on the worker's own thread.
#[derive(Debug, Clone, Copy)]
struct LocalExecutor;

impl<F: Future + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(async {
            future.await;
        });
    }
}
