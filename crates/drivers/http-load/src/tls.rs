//! TLS with a server of HTTP, and explanations of failed handshakes.

use std::io;

use load::net::url::ServerUrl;
use load::plan::Invalid;
use rustls::AlertDescription;
use tls_client::{TlsClient, describe, remedy, tls_error};

use crate::settings::Settings;

/// The ALPN names of HTTP/2 and HTTP/1.1 (RFC 9113 §3.2, RFC 7301 §6).
pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// The explanation of a handshake that did not choose HTTP/2.
pub(crate) const NO_HTTP2: &str =
    "the server does not offer HTTP/2 over TLS (ALPN): leave out --http2";

/// Prepares TLS for a server, if it uses that.
pub(crate) fn client(
    server: &ServerUrl,
    settings: &Settings,
) -> Result<Option<TlsClient>, Invalid> {
    let protocol = if settings.http2 { H2 } else { HTTP_1_1 };
    let client = || TlsClient::new(&server.host, &settings.tls(), &[protocol]);
    server.tls.then(client).transpose()
}

/// Explains why a handshake with this server failed, and what to do.
pub(crate) fn explain(name: &str, error: &io::Error) -> String {
    let remedy = match tls_error(error) {
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            "the server does not support this version of HTTP: add or leave out --http2"
        }
        _ => remedy(error, "check that the port uses TLS, or write http://"),
    };
    let problem = describe(error);
    format!("the TLS handshake with {name} failed ({problem}): {remedy}")
}
