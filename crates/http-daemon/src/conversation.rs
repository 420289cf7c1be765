//! What is spoken on a connection: which protocol, by hyper, until it ends or is ordered to.

use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
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

/// What a client of HTTP/2 begins with (RFC 9113, 3.4), as far as nothing else begins so.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// How long a client that has sent a part of it is left alone.
const PAUSE: Duration = Duration::from_millis(5);

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, or as it was ordered; nothing is to be said.
    Well,
    /// The client took too long for a request.
    TimedOut,
    /// The client said nothing for too long.
    Idle,
    /// The client was told what is wrong with its request, and may still be sending it.
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
pub(crate) async fn converse(
    worker: &Rc<Worker>,
    connection: &Rc<Connection>,
    secure: bool,
) -> Ended {
    // Before its first byte a connection has no buffers, whatever it is going to speak.
    let is_http2 = match &worker.tls {
        // In boxes, so that a connection which says nothing does not pay for their sizes.
        Some(tls) if secure => return Box::pin(converse_secretly(worker, connection, tls)).await,
        _ => {
            connection
                .unless_ordered(begins_with_preface(connection))
                .await
        }
    };
    let wire = Wire(Rc::clone(connection));
    match is_http2 {
        Err(order) => order.into(),
        Ok(true) => Box::pin(multiplexed(worker, connection, wire)).await,
        Ok(false) => Box::pin(one_by_one(worker, connection, wire, true)).await,
    }
}

async fn converse_secretly(
    worker: &Rc<Worker>,
    connection: &Rc<Connection>,
    tls: &TlsAcceptor,
) -> Ended {
    let handshake = tls.accept(Wire(Rc::clone(connection)));
    match connection.unless_ordered(handshake).await {
        Err(order) => order.into(),
        Ok(Err(error)) => {
            tracing::debug!(%error, "shaking hands");
            Ended::Refused
        }
        Ok(Ok(stream)) => match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => multiplexed(worker, connection, stream).await,
            _ => one_by_one(worker, connection, stream, false).await,
        },
    }
}

/// Waits for the first bytes and looks at them without taking them.
async fn begins_with_preface(connection: &Connection) -> bool {
    let mut first = [0; PREFACE.len()];
    loop {
        // Readiness may be a mistake, which the look corrects.
        if connection.readable().await.is_err() {
            return false;
        }
        match connection.peek(&mut first) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The rest will come; the socket is ready all the while, so that readiness says nothing.
            Ok(length @ 1..) if length < PREFACE.len() && first[..length] == PREFACE[..length] => {
                sleep(PAUSE).await
            }
            Ok(length) => return first[..length] == *PREFACE,
            // Whoever reads it finds out why.
            Err(_) => return false,
        }
    }
}

async fn one_by_one(
    worker: &Rc<Worker>,
    connection: &Rc<Connection>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    is_plain: bool,
) -> Ended {
    let service = Service::new(worker, connection, is_plain);
    // Without `pipeline_flush`: with it, an answer to a broken head (400, 431) stays unsent (hyper 1.12).
    let speaking = http1::Builder::new()
        .max_buf_size(worker.config.request_buffer)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    obey(worker, connection, speaking).await
}

async fn multiplexed(
    worker: &Rc<Worker>,
    connection: &Rc<Connection>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Ended {
    connection.multiplex();
    let service = Service::new(worker, connection, false);
    let speaking = http2::Builder::new(Local)
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    obey(worker, connection, speaking).await
}

/// Runs a conversation to its end, or to that which it is ordered to.
async fn obey(
    worker: &Worker,
    connection: &Connection,
    speaking: impl GracefulConnection<Error = hyper::Error>,
) -> Ended {
    let mut speaking = pin!(speaking);
    let mut drains = false;
    let ended =
        std::future::poll_fn(|cx| step(connection, speaking.as_mut(), &mut drains, cx)).await;
    match ended {
        Err(order) => order.into(),
        Ok(Ok(())) => Ended::Well,
        Ok(Err(error)) => {
            tracing::debug!(%error, "serving");
            if !error.is_parse() {
                return Ended::Well;
            }
            // hyper has answered with 400, 414 or 431.
            worker.counts.answered(400, 1);
            Ended::Refused
        }
    }
}

fn step<C: GracefulConnection<Error = hyper::Error>>(
    connection: &Connection,
    mut speaking: Pin<&mut C>,
    drains: &mut bool,
    cx: &mut Context<'_>,
) -> Poll<Result<hyper::Result<()>, Order>> {
    match connection.ordered(cx) {
        Order::None => {}
        Order::Drain => {
            if !std::mem::replace(drains, true) {
                speaking.as_mut().graceful_shutdown();
            }
        }
        order => return Poll::Ready(Err(order)),
    }
    speaking.poll(cx).map(Ok)
}

/// Runs the streams of HTTP/2 on the worker's own thread.
#[derive(Debug, Clone, Copy)]
struct Local;

impl<F: Future + 'static> Executor<F> for Local {
    fn execute(&self, future: F) {
        spawn_local(async {
            future.await;
        });
    }
}
