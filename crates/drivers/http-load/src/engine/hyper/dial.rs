//! Opening of connections: the socket, and TLS over it if the server uses it.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use load::clock;
use load::net::dial::{Peer, finish};
use load::net::url::ServerUrl;
use nix::errno::Errno;
use tls_client::TlsClient;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::tls::{self, H2};
use crate::outcome;

/// A connection to a server.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<Self>>),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectTimes {
    pub(super) connecting_ns: u64,
    pub(super) tls_ns: Option<u64>,
}

/// The reason why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("connecting: {0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Tls(String),
}

impl ConnectError {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Socket(error) => {
                outcome::connect_error(Errno::from_raw(error.raw_os_error().unwrap_or_default()))
            }
            Self::Tls(_) => outcome::TLS,
        }
    }
}

/// Completes the connection of a socket that has been connecting since `began`; on loopback the whole handshake happens
/// within `connect`. Dropping the future closes the socket.
pub(super) async fn open(
    server: &ServerUrl,
    tls: Option<&TlsClient>,
    http2: bool,
    socket: Result<OwnedFd, Errno>,
    began: u64,
) -> Result<(Stream, ConnectTimes), ConnectError> {
    let socket = socket.map_err(io::Error::from)?;
    let stream = match server.peer {
        Peer::Tcp(_) => {
            let stream = TcpStream::from_std(socket.into())?;
            stream.writable().await?;
            finish(&stream).map_err(io::Error::from)?;
            Stream::Tcp(stream)
        }
        Peer::Unix(_) => {
            let stream = UnixStream::from_std(socket.into())?;
            stream.writable().await?;
            finish(&stream).map_err(io::Error::from)?;
            Stream::Unix(stream)
        }
    };
    let connected = clock::now();
    let times = |tls_ns| ConnectTimes {
        connecting_ns: connected - began,
        tls_ns,
    };
    let Some(tls) = tls else {
        return Ok((stream, times(None)));
    };
    let stream = TlsConnector::from(Arc::clone(&tls.config))
        .connect(tls.name.clone(), stream)
        .await;
    let stream = stream.map_err(|error| match error.raw_os_error() {
        Some(_) => ConnectError::Socket(error),
        None => ConnectError::Tls(tls::explain(tls, &error)),
    })?;
    if http2 && stream.get_ref().1.alpn_protocol() != Some(H2) {
        let problem = "the server does not offer HTTP/2 over TLS (ALPN): leave out --http2";
        return Err(ConnectError::Tls(problem.to_owned()));
    }
    let times = times(Some(clock::now() - connected));
    Ok((Stream::Tls(Box::new(stream)), times))
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
