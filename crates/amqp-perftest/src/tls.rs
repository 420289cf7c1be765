//! TLS: whom a broker's certificate must be signed by.

use std::io;
use std::path::Path;
use std::sync::Arc;

use harness::plan::Invalid;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

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
        let wrong = |field: &str, problem: String| Invalid::new(field, problem);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| wrong("--uri", format!("{host}: {error}: name the broker's host")))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong("--uri", error.to_string()))?;
        let config = if settings.tls_insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        } else {
            builder.with_root_certificates(roots(settings.tls_ca.as_deref())?)
        };
        Ok(Self {
            config: Arc::new(config.with_no_client_auth()),
            name,
        })
    }

    /// Our end of a new connection.
    pub(crate) fn client(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(io::Error::other)
    }
}

/// Who may sign: those of a file, or those whom this machine trusts.
fn roots(file: Option<&Path>) -> Result<RootCertStore, Invalid> {
    let mut roots = RootCertStore::empty();
    let Some(path) = file else {
        // Those that can't be read are none to trust; without any, the handshake says so.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let wrong = |problem: String| {
        let field = format!("driver.tls_ca (--tls-ca {})", path.display());
        let remedy = "name a file of certificates in PEM";
        Invalid::new(field, format!("{problem}: {remedy}"))
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
