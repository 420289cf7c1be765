//! TLS with a server of HTTP, and explanations of failed handshakes.

use std::io;

use load::net::url::ServerUrl;
use load::plan::Invalid;
use rustls::{AlertDescription, CertificateError};
use tls_client::{TlsClient, describe, tls_error};

use crate::settings::Settings;

/// The ALPN names of HTTP/2 and HTTP/1.1 (RFC 9113 §3.2, RFC 7301 §6).
pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// Prepares TLS for a server.
pub(crate) fn client(server: &ServerUrl, settings: &Settings) -> Result<TlsClient, Invalid> {
    let protocol = if settings.http2 { H2 } else { HTTP_1_1 };
    TlsClient::new(&server.host, &settings.tls(), &[protocol])
}

/// Explains why a handshake failed, and what to do.
pub(crate) fn explain(client: &TlsClient, error: &io::Error) -> String {
    let remedy = match tls_error(error) {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "use a name that its certificate has, or accept any certificate with --tls-insecure",
        // Other: a CA certificate that was not given.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::Other(_),
        )) => {
            "trust the CA that signed the certificate with --tls-ca FILE, or accept any certificate with --tls-insecure"
        }
        Some(rustls::Error::InvalidCertificate(_)) => {
            "give the server a valid certificate, or accept any with --tls-insecure"
        }
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            "the server does not support this version of HTTP: add or leave out --http2"
        }
        Some(
            rustls::Error::AlertReceived(
                AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure
                | AlertDescription::InsufficientSecurity,
            )
            | rustls::Error::PeerIncompatible(_),
        ) => {
            "both sides have no version, cipher suite or curve in common: let the server accept TLS 1.2 or 1.3 with ECDHE on X25519, P-256 or P-384"
        }
        _ => "check that the port uses TLS, or write http://",
    };
    let name = client.name.to_str();
    let problem = describe(error);
    format!("the TLS handshake with {name} failed ({problem}): {remedy}")
}
