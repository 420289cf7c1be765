//! Connections over TLS.

use std::sync::Arc;

use presence_sdk::{Error, Options, RealtimeClient};
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::script::soon;
use crate::server;

/// Starts a TLS proxy in front of a server. Returns its URL and a configuration that trusts it.
async fn start() -> (String, Arc<rustls::ClientConfig>) {
    let made =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key can be made");
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .expect("the key fits");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("it is a certificate");
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let plain = server::start().await.replace("http://", "");
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let port = listener.local_addr().expect("it has one").port();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    tokio::spawn(async move {
        loop {
            let (outer, _) = listener.accept().await.expect("it accepts");
            let (acceptor, plain) = (acceptor.clone(), plain.clone());
            tokio::spawn(async move {
                let Ok(mut outer) = acceptor.accept(outer).await else {
                    return;
                };
                let mut inner = tokio::net::TcpStream::connect(plain)
                    .await
                    .expect("the server listens");
                let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    (format!("https://localhost:{port}"), Arc::new(client))
}

#[tokio::test]
async fn a_configuration_of_the_user_is_used_for_tls() {
    let (url, config) = start().await;
    let options = Options::new().tls(config);
    let client = soon(RealtimeClient::connect_with(&url, options))
        .await
        .unwrap();
    let room = soon(client.join_room("r", "u")).await.unwrap();
    let answer = soon(room.update_state(&json!({"text": "x".repeat(10_000)}))).await;
    assert!(answer.unwrap().changed);
    soon(client.close()).await;
}

#[tokio::test]
async fn a_certificate_that_the_system_does_not_trust_is_refused() {
    let (url, _) = start().await;
    let error = soon(RealtimeClient::connect(&url)).await.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error}");
}
