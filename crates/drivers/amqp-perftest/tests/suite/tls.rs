//! TLS against the null broker, behind a proxy with a certificate made for the test.

use std::net::SocketAddr;
use std::sync::Arc;

use harness_testing::certificate::Certificate;
use harness_testing::program::Program;
use null_broker::{NullBroker, Script};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::support::PROGRAM;

/// A TLS proxy for a null broker, on a runtime that ends with it.
struct Front {
    broker: NullBroker,
    address: SocketAddr,
    /// The self-signed certificate.
    pem: String,
    _runtime: Runtime,
}

impl Front {
    /// Starts the proxy with a self-signed certificate, which may be one of a CA.
    fn start(is_ca: bool) -> Self {
        let broker = NullBroker::start(Script::default()).unwrap();
        let behind = broker.uri();
        let behind = behind.split_once('@').unwrap().1.trim_end_matches('/');
        let behind: SocketAddr = behind.parse().unwrap();
        let certificate = Certificate::new("localhost", is_ca);
        let acceptor = TlsAcceptor::from(Arc::new(certificate.server(None)));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A refused client disconnects.
                    let Ok(mut front) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut back = TcpStream::connect(behind).await.unwrap();
                    let _ = copy_bidirectional(&mut front, &mut back).await;
                });
            }
        });
        Self {
            broker,
            address,
            pem: certificate.pem,
            _runtime: runtime,
        }
    }

    fn program(&self, arguments: &str) -> Program {
        let uri = format!("amqps://guest:guest@localhost:{}/", self.address.port());
        program(&uri, arguments)
    }
}

fn program(uri: &str, arguments: &str) -> Program {
    let program = Program::new(PROGRAM).call(&format!("--uri {uri} --quiet"));
    program.call(arguments)
}

#[test]
fn every_message_comes_through_tls() {
    let (front, folder) = (Front::start(false), tempfile::tempdir().unwrap());
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, &front.pem).unwrap();
    let trusts = format!("--tls-ca {}", ca.to_str().unwrap());
    // Messages of 100 KB as fast as possible: more than the kernel and TLS take at once.
    for (engine, trusts, size, messages) in [
        ("wire", &*trusts, "100000", 300),
        ("lapin", &trusts, "100000", 300),
        ("wire", "--tls-insecure", "1024", 3_000),
    ] {
        let load = format!("--pmessages {messages} --size {size} --confirm 200");
        let more = format!("--producers 2 --consumers 2 --engine {engine}");
        let words = format!("{trusts} {load} {more} --prefetch 100");
        let run = front.program(&words).run();
        assert!(matches!(run.code, 0 | 3), "{}", run.stderr);
        let result = run.result;
        for name in ["published", "confirmed", "consumed"] {
            assert_eq!(result["counts"][name], 2 * messages, "{engine} {name}");
        }
        let insecure = result["plan_sentence"].as_str().unwrap();
        let says = insecure.contains("certificates are not verified");
        assert_eq!(says, trusts == "--tls-insecure", "{insecure}");
    }
    assert!(front.broker.taken() >= 7_200);
}

#[test]
fn a_certificate_that_nobody_trusts_is_refused_with_the_remedy() {
    let (front, folder) = (Front::start(false), tempfile::tempdir().unwrap());
    let other = Certificate::new("localhost", false);
    let ca = folder.path().join("other.pem");
    std::fs::write(&ca, other.pem).unwrap();
    let (ca, none) = (ca.to_str().unwrap(), "/nowhere/ca.pem");
    for (arguments, names) in [
        (
            &*format!("--tls-ca {ca}"),
            &["--tls-ca", "--tls-insecure"][..],
        ),
        ("", &["--tls-ca", "--tls-insecure"]),
        (&format!("--tls-ca {none}"), &["--tls-ca", none, "PEM"]),
        (
            &format!("--tls-ca {ca} --tls-insecure"),
            &["--tls-insecure"],
        ),
        (
            "--tls-insecure --engine lapin",
            &["--tls-insecure", "--engine wire"],
        ),
    ] {
        front.program(arguments).refused(2, names);
    }
    assert_eq!(front.broker.taken(), 0);
}

/// `openssl req -x509` makes such a certificate. The library of lapin takes none of a CA as a server's own.
#[test]
fn a_server_with_its_own_certificate_of_a_ca_is_trusted_or_refused_with_the_engine_to_use() {
    let (front, folder) = (Front::start(true), tempfile::tempdir().unwrap());
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, &front.pem).unwrap();
    let trusts = format!("--tls-ca {} --pmessages 10", ca.to_str().unwrap());
    let run = front.program(&trusts).run();
    assert!(matches!(run.code, 0 | 3), "{}", run.stderr);
    assert_eq!(run.result["counts"]["consumed"], 10);
    let words = format!("{trusts} --engine lapin");
    let host = format!("localhost:{}", front.address.port());
    let names = [&host, "certificate", "of a CA", "--engine wire"];
    let error = front.program(&words).refused(2, &names);
    assert!(!error.contains("CaUsedAsEndEntity"), "{error}");
}

#[test]
fn options_of_tls_need_a_uri_with_tls() {
    let program = program("amqp://localhost:1/", "--tls-insecure");
    program.refused(2, &["--tls-insecure", "amqps://"]);
}
