//! Certificates that are made for a test, and servers of TLS that show them.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// A certificate that it has signed itself, so that nobody trusts it unless told.
#[derive(Debug)]
pub struct Certificate {
    der: CertificateDer<'static>,
    key: KeyPair,
    /// The certificate in PEM.
    pub pem: String,
}

impl Certificate {
    /// Makes one for a host name. With `is_ca`, it may sign others, like one of `openssl req -x509`.
    #[must_use]
    pub fn new(name: &str, is_ca: bool) -> Self {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            der: certificate.der().clone(),
            key,
            pem: certificate.pem(),
        }
    }

    /// Returns its private key in PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Returns the configuration of a server that shows it. With `client`, the server requires that certificate of every
    /// client.
    #[must_use]
    pub fn server(&self, client: Option<&Self>) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let mut roots = RootCertStore::empty();
                roots.add(client.der.clone()).unwrap();
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.unwrap())
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        builder
            .with_single_cert(vec![self.der.clone()], key)
            .unwrap()
    }
}
