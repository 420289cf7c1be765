//! The TLS configuration of HTTPS, with a given or a generated certificate.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::options::Server;

/// Creates a TLS acceptor that offers HTTP/2 and HTTP/1.1. Without files the certificate is self-signed (EC P-256), for
/// localhost and the address of the server.
pub(crate) fn acceptor(server: &Server) -> anyhow::Result<TlsAcceptor> {
    let (chain, key) = match (&server.tls_cert, &server.tls_key) {
        (Some(chain), Some(key)) => read(chain, key)?,
        _ => make(server.bind)?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("cannot configure the TLS versions")?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("cannot use the certificate (does --tls-key belong to --tls-cert?)")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read(chain: &Path, key: &Path) -> anyhow::Result<Pair> {
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect)
        .with_context(|| {
            let chain = chain.display();
            format!("cannot read certificates from {chain} (--tls-cert)")
        })?;
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("cannot read a key from {} (--tls-key)", key.display()))?;
    Ok((certificates, key))
}

fn make(bind: IpAddr) -> anyhow::Result<Pair> {
    let names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        bind.to_string(),
    ];
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(names).context("cannot generate a certificate")?;
    let key = PrivateKeyDer::try_from(signing_key.serialize_der());
    let key = key.map_err(|error| anyhow::anyhow!("cannot use the generated key: {error}"))?;
    Ok((vec![cert.der().clone()], key))
}
