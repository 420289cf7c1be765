//! The protocol of a connection: detected, then served by hyper until the connection ends or is ordered to.

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::connection::{Connection, Order, Wire};
use crate::service::Service;
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
    // A connection has no buffers before its first byte, whatever its protocol will be.
    let is_http2 = match &worker.resources.tls {
        // Boxed, so that a silent connection does not pay for the size.
        Some(tls) if secure => return Box::pin(serve_tls(worker, connection, tls)).await,
        _ => {
            connection
                .unless_ordered(begins_with_preface(connection))
                .await
        }
    };
    let wire = Wire(Rc::clone(connection));
    match is_http2 {
        Err(order) => order.into(),
        Ok(true) => Box::pin(serve_http2(worker, connection, wire)).await,
        Ok(false) => Box::pin(serve_http1(worker, connection, wire, true)).await,
    }
}

async fn serve_tls(worker: &Rc<Worker>, connection: &Rc<Connection>, tls: &TlsAcceptor) -> Ended {
    let handshake = tls.accept(Wire(Rc::clone(connection)));
    match connection.unless_ordered(handshake).await {
        Err(order) => order.into(),
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            Ended::Refused
        }
        Ok(Ok(stream)) => match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => serve_http2(worker, connection, stream).await,
            _ => serve_http1(worker, connection, stream, false).await,
        },
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
                sleep(PAUSE).await
            }
            Ok(length) => return first[..length] == *PREFACE,
            // The next read reports the error.
            Err(_) => return false,
        }
    }
}

async fn serve_http1(
    worker: &Rc<Worker>,
    connection: &Rc<Connection>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    is_plain: bool,
) -> Ended {
    let service = Service::new(worker, connection, is_plain);
    // Without `pipeline_flush`: with it, the response to a broken head (400, 431) stays unsent (hyper 1.12).
    let protocol = http1::Builder::new()
        .max_buf_size(worker.resources.config.performance.request_buffer_size)
        .header_read_timeout(None)
        // A client that has ended its side may wait for its answer (RFC 9112, 9.6).
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    drive(worker, connection, protocol).await
}

async fn serve_http2(
    worker: &Rc<Worker>,
    connection: &Rc<Connection>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Ended {
    connection.multiplex();
    let service = Service::new(worker, connection, false);
    let protocol = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    drive(worker, connection, protocol).await
}

/// Runs a protocol to its end, or to the end that was ordered.
async fn drive(
    worker: &Worker,
    connection: &Connection,
    protocol: impl GracefulConnection<Error = hyper::Error>,
) -> Ended {
    let mut protocol = pin!(protocol);
    let mut drains = false;
    let ended = std::future::poll_fn(|cx| {
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
        Err(order) => order.into(),
        Ok(Ok(())) => Ended::Well,
        Ok(Err(error)) => {
            tracing::debug!(%error, "serving failed");
            if !error.is_parse() {
                return Ended::Well;
            }
            // hyper has answered with 400, 414 or 431.
            worker.counts.answered(400, 1);
            Ended::Refused
        }
    }
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
