//! TLS: whom a server's certificate must be signed by, and what to do where it is not.

use std::io;
use std::path::Path;
use std::sync::Arc;

use harness::plan::Invalid;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
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
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?;
        let builder = if settings.tls_insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        } else {
            builder.with_root_certificates(roots(settings.tls_ca.as_deref())?)
        };
        let mut config = builder.with_no_client_auth();
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
            Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
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

/// Who may sign: those of a file, or those whom this machine trusts.
///
/// # Errors
/// A file that can't be read, with the remedy.
pub(crate) fn roots(file: Option<&Path>) -> Result<RootCertStore, Invalid> {
    let mut roots = RootCertStore::empty();
    let Some(path) = file else {
        // Those that can't be read are none to trust; without any, the handshake says so.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let wrong = |problem: String| {
        let field = format!("driver.tls_ca (--tls-ca {})", path.display());
        Invalid::new(
            field,
            format!("{problem}: name a file of certificates in PEM"),
        )
    };
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("it has no certificate".to_owned()));
    }
    Ok(roots)
}

/// Takes any certificate; that whoever shows it has its key is still asked.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
