//! Opening of connections: the socket, and TLS over it if the server uses it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use load::clock;
use load::net::dial::finish;
use nix::errno::Errno;
use tls_client::TlsClient;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::outcome;
use crate::tls::{self, H2};

/// A connection to a server, over TCP or a Unix socket, with TLS on the right. What is done with it does not depend on
/// the kind of socket.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

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
    tls: Option<&TlsClient>,
    http2: bool,
    socket: Result<OwnedFd, Errno>,
    began: u64,
) -> Result<(Stream, ConnectTimes), ConnectError> {
    let socket = socket.map_err(io::Error::from)?;
    let stream = TcpStream::from_std(socket.into())?;
    stream.writable().await?;
    finish(&stream).map_err(io::Error::from)?;
    let connected = clock::now();
    let times = |tls_ns| ConnectTimes {
        connecting_ns: connected - began,
        tls_ns,
    };
    let Some(tls) = tls else {
        return Ok((Stream::Left(stream), times(None)));
    };
    let stream = TlsConnector::from(Arc::clone(&tls.config))
        .connect(tls.name.clone(), stream)
        .await;
    let stream = stream.map_err(|error| match error.raw_os_error() {
        Some(_) => ConnectError::Socket(error),
        None => ConnectError::Tls(tls::explain(&tls.name.to_str(), &error)),
    })?;
    if http2 && stream.get_ref().1.alpn_protocol() != Some(H2) {
        return Err(ConnectError::Tls(tls::NO_HTTP2.to_owned()));
    }
    let times = times(Some(clock::now() - connected));
    Ok((Stream::Right(Box::new(stream)), times))
}
