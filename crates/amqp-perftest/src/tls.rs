//! TLS: whom a broker's certificate must be signed by.

use std::io;
use std::sync::Arc;

use harness::plan::Invalid;
use harness::tls;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::settings::Settings;

/// How TLS is spoken with a broker.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// With a broker of this name or address.
    ///
    /// # Errors
    /// Certificates that can't be read, with the remedy.
    pub(crate) fn new(host: &str, settings: &Settings) -> Result<Self, Invalid> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| {
            Invalid::new("--uri", format!("{host}: {error}: name the broker's host"))
        })?;
        let config = tls::client_config(settings.tls_ca.as_deref(), settings.tls_insecure)?;
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// Our end of a new connection.
    pub(crate) fn client(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(io::Error::other)
    }
}
