//! The byte stream below the WebSocket: TCP, with or without TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::options::Options;

/// A connected stream.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    // Boxed: the state of TLS is a kilobyte that plain connections need not have.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    /// Connects, and performs the TLS handshake if the scheme asks for it.
    pub(crate) async fn connect(endpoint: &Endpoint, options: &Options) -> Result<Self, Error> {
        let (host, port) = endpoint.address();
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(Error::connect)?;
        // Heartbeats are small: each must leave at once.
        stream.set_nodelay(true).map_err(Error::connect)?;
        if !endpoint.uses_tls() {
            return Ok(Self::Plain(stream));
        }
        let connector = TlsConnector::from(tls_config(options).await?);
        let name = ServerName::try_from(host).map_err(Error::connect)?;
        let stream = connector.connect(name, stream).await;
        Ok(Self::Tls(Box::new(stream.map_err(Error::connect)?)))
    }
}

/// Returns the user's TLS configuration, or one that trusts the system's roots, loaded once per `Options`.
async fn tls_config(options: &Options) -> Result<Arc<rustls::ClientConfig>, Error> {
    if let Some(config) = options.tls.get() {
        return Ok(Arc::clone(config));
    }
    // Reading the certificates takes milliseconds of file access.
    let loaded = tokio::task::spawn_blocking(native_config).await;
    let config = loaded.map_err(Error::connect)??;
    Ok(Arc::clone(options.tls.get_or_init(|| config)))
}

fn native_config() -> Result<Arc<rustls::ClientConfig>, Error> {
    let mut roots = rustls::RootCertStore::empty();
    let loaded = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(loaded.certs);
    if roots.is_empty() {
        return Err(Error::connect(
            "the system has no root certificates: install them, or pass a configuration with `Options::tls`",
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::connect)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
