//! Configures TLS of a driver: which certificates of servers it accepts.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::plan::Invalid;

/// Returns a client configuration that accepts the certificates in the file `ca` (`driver.tls_ca`, `--tls-ca`) and
/// those signed by them. Without a file it accepts those that this machine trusts. With `insecure` it accepts any.
///
/// # Errors
/// A file that can't be read or has no certificate, with the remedy.
pub fn client_config(ca: Option<&Path>, insecure: bool) -> Result<ClientConfig, Invalid> {
    let wrong = |error: &dyn std::fmt::Display| Invalid::new("driver.tls_ca", error.to_string());
    let provider = Arc::new(ring::default_provider());
    let trusted = match insecure {
        true => None,
        false => Some(Trusted::new(ca, &provider)?),
    };
    let verifier = Arc::new(Verifier {
        provider: Arc::clone(&provider),
        trusted,
    });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// The certificates that a server may present: those that `signed` accepts, and those of `given`.
#[derive(Debug)]
struct Trusted {
    signed: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl Trusted {
    fn new(ca: Option<&Path>, provider: &Arc<CryptoProvider>) -> Result<Self, Invalid> {
        let given = ca.map(read).transpose()?.unwrap_or_default();
        let field = || {
            ca.map_or("driver.tls_ca (--tls-ca)".to_owned(), |path| {
                format!("driver.tls_ca (--tls-ca {})", path.display())
            })
        };
        let wrong = |problem: String| {
            let remedy =
                "name a file of certificates in PEM with --tls-ca, or take any with --tls-insecure";
            Invalid::new(field(), format!("{problem}: {remedy}"))
        };
        let mut roots = RootCertStore::empty();
        match ca {
            // Unreadable certificates are not trusted.
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Some(_) => {
                for certificate in &given {
                    let added = roots.add(certificate.clone());
                    added.map_err(|error| wrong(error.to_string()))?;
                }
            }
        }
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let signed = builder.build().map_err(|error| wrong(error.to_string()))?;
        Ok(Self { signed, given })
    }
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, Invalid> {
    let wrong = |problem: String| {
        let field = format!("driver.tls_ca (--tls-ca {})", path.display());
        let remedy = "name a file of certificates in PEM";
        Invalid::new(field, format!("{problem}: {remedy}"))
    };
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| wrong(error.to_string()))?;
    match certificates.is_empty() {
        true => Err(wrong("it has no certificate".to_owned())),
        false => Ok(certificates),
    }
}

/// Verifies the certificate of a server. Without `trusted` it accepts any certificate; the handshake signature is
/// still verified.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trusted: Option<Trusted>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(Trusted { signed, given }) = &self.trusted else {
            return Ok(ServerCertVerified::assertion());
        };
        match signed.verify_server_cert(shown, between, name, ocsp, now) {
            // A certificate from `openssl req -x509` may sign others, and webpki takes no such certificate of a server
            // (CaUsedAsEndEntity, after it has checked the dates). If the user named this very certificate, it is the
            // one to trust.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if given.iter().any(|given| given == shown) =>
            {
                verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
