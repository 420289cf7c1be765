//! TLS with a broker.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use load::plan::Invalid;
use load::tls;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// The options for the verification of a broker's certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// The file of CA certificates; without one, this machine's trusted CAs.
    pub ca: Option<PathBuf>,
    /// Accepts any certificate.
    pub insecure: bool,
}

/// The client's side of TLS with one broker.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Prepares TLS with the broker of this name or address.
    ///
    /// # Errors
    /// Unreadable certificates, with the remedy.
    pub(crate) fn new(host: &str, options: &TlsOptions) -> Result<Self, Invalid> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| {
            Invalid::new("--uri", format!("{host}: {error}: name the broker's host"))
        })?;
        let config = tls::client_config(options.ca.as_deref(), options.insecure)?;
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// Begins TLS on a new connection.
    pub(crate) fn client(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(io::Error::other)
    }
}
