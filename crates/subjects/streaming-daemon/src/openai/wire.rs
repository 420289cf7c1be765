//! Establishes connections to the backend.

use std::io;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::base::{Base, Endpoint};
use super::failure::BackendFailure;

/// Number of streams on one HTTP/2 connection. RFC 9113 §6.5.2 recommends servers to allow no fewer than 100; a lower
/// limit of the backend is respected.
pub(super) const STREAMS: usize = 100;
/// Number of bytes that the backend may send ahead on a stream whose client does not read.
const STREAM_WINDOW: u32 = 64 << 10;
/// The same for the whole connection: large enough that full streams leave it open to the others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS as u32;
/// Number of bytes of an HTTP/1.1 response that are read ahead.
const READ_AHEAD: usize = 64 << 10;
/// Timeout of a ping. A connection without an answer is given up, so that no more requests are sent to an unreachable
/// backend.
const PING: Duration = Duration::from_secs(10);

/// The connection preface of HTTP/2 (RFC 9113 §3.4), with an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Length of a frame header (RFC 9113 §4.1).
const FRAME_HEAD: usize = 9;
/// Time for a server to show that it supports HTTP/2.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(1);

/// The HTTP version used with the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Http {
    /// HTTP/1.1: one connection per open stream.
    #[value(name = "1")]
    One,
    /// HTTP/2 with prior knowledge: up to 100 streams per connection.
    #[value(name = "2")]
    Two,
    /// HTTP/2 if the backend responds to its preface, otherwise HTTP/1.1.
    Auto,
}

/// A connection over TCP or a Unix socket.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

pub(super) type Body = Full<Bytes>;

/// Serves an HTTP/2 connection.
pub(super) type Connection2 = http2::Connection<TokioIo<Box<dyn Wire>>, Body, TokioExecutor>;

async fn connect(base: &Base) -> Result<Box<dyn Wire>, BackendFailure> {
    let connected: io::Result<Box<dyn Wire>> = match &base.endpoint {
        Endpoint::Tcp(host, port) => match TcpStream::connect((host.as_str(), *port)).await {
            Ok(stream) => stream.set_nodelay(true).map(|()| Box::new(stream) as _),
            Err(error) => Err(error),
        },
        Endpoint::Unix(path) => UnixStream::connect(path)
            .await
            .map(|stream| Box::new(stream) as _),
    };
    connected.map_err(BackendFailure::Connect)
}

/// Opens an HTTP/1.1 connection; returns its sender and the future that serves it.
pub(super) async fn connect1(
    base: &Base,
) -> Result<(http1::SendRequest<Body>, impl Future<Output = ()> + use<>), BackendFailure> {
    let wire = TokioIo::new(connect(base).await?);
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_AHEAD);
    let (sender, connection) = builder.handshake(wire).await?;
    // Its error is also reported to the request it had.
    Ok((sender, async { drop(connection.await) }))
}

/// Opens an HTTP/2 connection; returns its sender and the future that serves it.
pub(super) async fn connect2(
    base: &Base,
) -> Result<(http2::SendRequest<Body>, Connection2), BackendFailure> {
    let wire = TokioIo::new(connect(base).await?);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_max_send_streams(STREAMS)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    Ok(builder.handshake(wire).await?)
}

/// Returns true if the backend supports HTTP/2: it then starts with a SETTINGS frame. A server that does not know the
/// preface sends something else, or nothing.
pub(super) async fn speaks_http2(base: &Base) -> Result<bool, BackendFailure> {
    let mut wire = connect(base).await?;
    let asked = async {
        wire.write_all(PREFACE).await?;
        let mut head = [0; FRAME_HEAD];
        wire.read_exact(&mut head).await?;
        // The frame type is SETTINGS, on stream 0.
        Ok::<_, io::Error>(head[3] == 4 && head[5..] == [0; 4])
    };
    Ok(matches!(
        timeout(PREFACE_TIMEOUT, asked).await,
        Ok(Ok(true))
    ))
}
