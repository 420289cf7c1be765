//! The client side of TLS for drivers: which certificates of servers they accept, and connections. A crate of its own,
//! because drivers without TLS should not compile it.

mod socket;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use clap::ValueEnum;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    RootCertStore, SignatureScheme, SupportedProtocolVersion, version,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use load::plan::Invalid;

pub use socket::Socket;

/// The options of a driver for TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// The PEM file of trusted certificates (`driver.tls_ca`, `--tls-ca`): CAs, or the server's own; absent: the CAs
    /// that this machine trusts.
    pub ca: Option<PathBuf>,
    /// Accepts any certificate (`driver.tls_insecure`, `--tls-insecure`).
    pub insecure: bool,
    /// The PEM file of the client's own certificates, the own one first (`driver.tls_cert`, `--tls-cert`).
    pub certificate: Option<PathBuf>,
    /// The PEM file of its private key (`driver.tls_key`, `--tls-key`); absent: it is in the file of the certificate.
    pub key: Option<PathBuf>,
    /// The only version that is offered (`driver.tls_version`, `--tls-version`); absent: 1.3 and 1.2.
    pub version: Option<TlsVersion>,
    /// Resumes no session (`driver.tls_full_handshakes`, `--tls-full-handshakes`).
    pub full_handshakes: bool,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum, JsonSchema)]
pub enum TlsVersion {
    /// RFC 5246.
    #[serde(rename = "1.2")]
    #[value(name = "1.2")]
    Tls12,
    /// RFC 8446.
    #[serde(rename = "1.3")]
    #[value(name = "1.3")]
    Tls13,
}

impl TlsVersion {
    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &version::TLS12,
            Self::Tls13 => &version::TLS13,
        }
    }
}

impl TlsOptions {
    /// Checks that the options do not contradict each other, and that the files can be used.
    ///
    /// # Errors
    /// The field, with the remedy.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.insecure && self.ca.is_some() {
            let problem = "has no effect if any certificate is accepted: leave out one of --tls-ca and --tls-insecure";
            return Err(Invalid::new("driver.tls_ca (--tls-ca)", problem));
        }
        if self.key.is_some() && self.certificate.is_none() {
            let problem =
                "is the key of no certificate: name its file with --tls-cert, or leave the key out";
            return Err(Invalid::new("driver.tls_key (--tls-key)", problem));
        }
        // The CAs of this machine are read only for the connections.
        if self.ca.is_some() || self.certificate.is_some() {
            self.config()?;
        }
        Ok(())
    }

    /// Builds a configuration that accepts the certificates in the file and those signed by them, those that this
    /// machine trusts, or any.
    fn config(&self) -> Result<ClientConfig, Invalid> {
        let provider = Arc::new(ring::default_provider());
        let trusted = if self.insecure {
            None
        } else {
            Some(Trusted::new(self.ca.as_deref(), &provider)?)
        };
        let verifier = Arc::new(Verifier {
            provider: Arc::clone(&provider),
            trusted,
        });
        let versions = match self.version {
            Some(version) => &[version.supported()],
            None => rustls::DEFAULT_VERSIONS,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| Invalid::new("driver.tls_version", error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let chain = read("driver.tls_cert (--tls-cert", path)?;
                let key = self.key.as_deref().unwrap_or(path);
                let wrong = |problem: &dyn fmt::Display| {
                    let field = format!("driver.tls_key (--tls-key {})", key.display());
                    let remedy = "name the private key of the certificate of --tls-cert, in PEM";
                    Invalid::new(field, format!("{problem}: {remedy}"))
                };
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(&error))?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| wrong(&error))?
            }
        };
        if self.full_handshakes {
            config.resumption = Resumption::disabled();
        }
        Ok(config)
    }
}

/// The client's side of TLS with one server.
#[derive(Debug, Clone)]
pub struct TlsClient {
    /// The configuration, for a library that performs the handshake itself.
    pub config: Arc<ClientConfig>,
    /// The name that the server's certificate must have.
    pub name: ServerName<'static>,
}

impl TlsClient {
    /// Prepares TLS with the server of this host name or address. `protocols` are the names to negotiate (ALPN,
    /// RFC 7301); none are offered if it is empty.
    ///
    /// # Errors
    /// A host that no certificate can name, or certificates that can't be read, with the remedy.
    pub fn new(host: &str, options: &TlsOptions, protocols: &[&[u8]]) -> Result<Self, Invalid> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| {
            Invalid::new(
                "URL",
                format!("{host}: {error}: use the server's host name"),
            )
        })?;
        let mut config = options.config()?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// Begins TLS on a new connection.
    ///
    /// # Errors
    /// An error of the TLS library.
    pub fn connect(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(io::Error::other)
    }
}

/// Returns the error of TLS that an error of a connection stands for.
#[must_use]
pub fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Returns what to do about an error of a handshake; `no_tls` if the server does not seem to speak TLS.
#[must_use]
pub fn remedy(error: &io::Error, no_tls: &'static str) -> &'static str {
    use rustls::Error::{AlertReceived, InvalidCertificate, PeerIncompatible};
    match tls_error(error) {
        Some(InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "use a name that its certificate has, or accept any certificate with --tls-insecure",
        // BadSignature: the CA has the name of a trusted one. Other: a CA certificate that was not given.
        Some(InvalidCertificate(
            CertificateError::UnknownIssuer
            | CertificateError::BadSignature
            | CertificateError::Other(_),
        )) => {
            "trust the CA that signed the certificate with --tls-ca FILE, or accept any certificate with --tls-insecure"
        }
        Some(InvalidCertificate(_)) => {
            "give the server a valid certificate, or accept any with --tls-insecure"
        }
        Some(AlertReceived(AlertDescription::CertificateRequired)) => {
            "the server asks for a certificate of the client: name one with --tls-cert FILE, and its key with --tls-key FILE"
        }
        Some(
            AlertReceived(
                AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure
                | AlertDescription::InsufficientSecurity,
            )
            | PeerIncompatible(_),
        ) => {
            "both sides have no version, cipher suite or curve in common: let the server accept TLS 1.2 or 1.3 with ECDHE on X25519, P-256 or P-384"
        }
        _ => no_tls,
    }
}

/// Describes an error of a connection for a message; errors of TLS without the names of the TLS library.
#[must_use]
pub fn describe(error: &io::Error) -> String {
    use rustls::Error::{InvalidCertificate, InvalidMessage};
    match tls_error(error) {
        Some(InvalidMessage(_)) => "the server does not answer in TLS".to_owned(),
        Some(InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => "the CA that signed the certificate of the server is not trusted here".to_owned(),
        Some(InvalidCertificate(CertificateError::Other(_))) => {
            "the certificate of the server is one of a CA, and is not trusted here".to_owned()
        }
        Some(InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "the certificate of the server has expired".to_owned(),
        Some(InvalidCertificate(CertificateError::NotValidForName)) => {
            "the certificate of the server is not valid for the name in the URL".to_owned()
        }
        Some(InvalidCertificate(why)) => format!("the certificate of the server is refused: {why}"),
        _ => error.to_string(),
    }
}

/// The certificates that a server may present: those that `signed` accepts, and the `given` ones.
#[derive(Debug)]
struct Trusted {
    signed: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl Trusted {
    fn new(ca: Option<&Path>, provider: &Arc<CryptoProvider>) -> Result<Self, Invalid> {
        let given = ca.map(|path| read("driver.tls_ca (--tls-ca", path));
        let given = given.transpose()?.unwrap_or_default();
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

/// Reads the certificates of a file that an option names; `option` is the begin of the field's name in errors.
fn read(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Invalid> {
    let wrong = |problem: String| {
        let field = format!("{option} {})", path.display());
        let remedy = "name a file of certificates in PEM";
        Invalid::new(field, format!("{problem}: {remedy}"))
    };
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        Err(wrong("it has no certificate".to_owned()))
    } else {
        Ok(certificates)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_contradict_each_other_or_name_no_file_are_refused() {
        let options = |insecure| TlsOptions {
            ca: Some("/no/such.pem".into()),
            insecure,
            ..TlsOptions::default()
        };
        for (insecure, part) in [(true, "leave out one"), (false, "in PEM")] {
            let error = options(insecure).validate().unwrap_err().to_string();
            assert!(
                error.contains("--tls-ca") && error.contains(part),
                "{error}"
            );
        }
        TlsOptions::default().validate().unwrap();
        let own = |certificate: Option<&str>| TlsOptions {
            certificate: certificate.map(PathBuf::from),
            key: Some("/no/key.pem".into()),
            ..TlsOptions::default()
        };
        for (certificate, part) in [
            (None, "--tls-key): is the key of no certificate"),
            (Some("/no/such.pem"), "--tls-cert /no/such.pem): "),
        ] {
            let error = own(certificate).validate().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_error_is_described_without_names_of_the_library_and_has_a_remedy() {
        for (error, part, to_do) in [
            (
                rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType),
                "does not answer in TLS",
                "write http://",
            ),
            (
                CertificateError::UnknownIssuer.into(),
                "is not trusted",
                "--tls-ca FILE",
            ),
            (
                CertificateError::BadSignature.into(),
                "is not trusted",
                "--tls-ca FILE",
            ),
            (
                CertificateError::Expired.into(),
                "has expired",
                "give the server a valid",
            ),
            (
                CertificateError::NotValidForName.into(),
                "not valid for the name",
                "use a name that",
            ),
        ] {
            let error = io::Error::other(error);
            let (text, remedy) = (describe(&error), remedy(&error, "write http://"));
            assert!(remedy.contains(to_do), "{remedy}");
            assert!(text.contains(part), "{text}");
            assert!(!text.contains("Invalid") && !text.contains("UnknownIssuer"));
        }
        let other = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(describe(&other), other.to_string());
    }
}
