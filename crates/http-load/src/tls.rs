//! TLS: whom a server's certificate must be signed by, and what to do where it is not.

use std::io;
use std::sync::Arc;

use harness::plan::Invalid;
use harness::tls;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::settings::Settings;
use crate::target::Server;

/// HTTP/2 and HTTP/1.1 as ALPN names them (RFC 9113 §3.2, RFC 7301 §6).
pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// How TLS is spoken with a server.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) name: ServerName<'static>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Tls")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// With this server.
    ///
    /// # Errors
    /// Certificates that can't be read, with the remedy.
    pub(crate) fn new(server: &Server, settings: &Settings) -> Result<Self, Invalid> {
        let host = &server.host;
        let wrong = |problem: String| Invalid::new("URL", problem);
        let name = ServerName::try_from(host.clone())
            .map_err(|error| wrong(format!("{host}: {error}: name the server's host")))?;
        let mut config = tls::client_config(settings.tls_ca.as_deref(), settings.tls_insecure)?;
        let spoken = if settings.http2 { H2 } else { HTTP_1_1 };
        config.alpn_protocols = vec![spoken.to_vec()];
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }

    /// What a handshake failed of, and what to do.
    pub(crate) fn explain(&self, error: &io::Error) -> String {
        let name = self.name.to_str();
        let failed = format!("the TLS handshake with {name} failed");
        let tls = error
            .get_ref()
            .and_then(|error| error.downcast_ref::<rustls::Error>());
        let remedy = match tls {
            Some(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => {
                "ask for the server by a name that its certificate has, or take any with --tls-insecure"
            }
            // Other: it may sign others itself, and it was not given.
            Some(rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::Other(_),
            )) => {
                "give the certificate of the one who signed it with --tls-ca FILE, or take any with --tls-insecure"
            }
            Some(rustls::Error::InvalidCertificate(_)) => {
                "give the server another certificate, or take any with --tls-insecure"
            }
            Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)) => {
                "it does not speak the version of HTTP that was asked for: add or leave out --http2"
            }
            _ => "does it speak TLS there? otherwise write http://",
        };
        format!("{failed} ({error}): {remedy}")
    }
}
