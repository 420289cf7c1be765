//! TLS settings, and explanations of failed handshakes.

use std::io;
use std::sync::Arc;

use load::plan::Invalid;
use load::tls;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::settings::Settings;
use crate::target::Server;

/// The ALPN names of HTTP/2 and HTTP/1.1 (RFC 9113 §3.2, RFC 7301 §6).
pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// The TLS client configuration for one server.
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
    /// Prepares TLS for a server.
    ///
    /// # Errors
    /// Certificates that can't be read, with the remedy.
    pub(crate) fn new(server: &Server, settings: &Settings) -> Result<Self, Invalid> {
        let host = &server.host;
        let wrong = |problem: String| Invalid::new("URL", problem);
        let name = ServerName::try_from(host.clone())
            .map_err(|error| wrong(format!("{host}: {error}: use the server's host name")))?;
        let mut config = tls::client_config(settings.tls_ca.as_deref(), settings.tls_insecure)?;
        let spoken = if settings.http2 { H2 } else { HTTP_1_1 };
        config.alpn_protocols = vec![spoken.to_vec()];
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }

    /// Explains why a handshake failed, and what to do.
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
                "use a name that its certificate has, or accept any certificate with --tls-insecure"
            }
            // Other: a CA certificate that was not given.
            Some(rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::Other(_),
            )) => {
                "trust the CA that signed the certificate with --tls-ca FILE, or accept any certificate with --tls-insecure"
            }
            Some(rustls::Error::InvalidCertificate(_)) => {
                "give the server a valid certificate, or accept any with --tls-insecure"
            }
            Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)) => {
                "the server does not support this version of HTTP: add or leave out --http2"
            }
            _ => "does the server use TLS on this port? If not, write http://",
        };
        format!("{failed} ({error}): {remedy}")
    }
}
