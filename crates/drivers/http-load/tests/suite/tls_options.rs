//! The options of a connection: the client's own certificate, versions of TLS, full handshakes, other addresses.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use harness_testing::certificate::Certificate;
use harness_testing::program::Program;
use rustls::{HandshakeKind, ProtocolVersion};

use crate::program::PROGRAM;
use crate::secure::{request, serve_with};
use crate::servers::OK;

/// A connection of a client, as the server saw it.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    version: ProtocolVersion,
    is_resumed: bool,
    has_certificate: bool,
    name: Option<String>,
    host: String,
}

/// A server that writes down the connections on which a request came.
struct Server {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Starts it with a certificate for this name. With `client`, it requires that certificate of clients.
    fn start(name: &str, client: Option<&Certificate>) -> Self {
        let seen = Arc::default();
        let all = Arc::clone(&seen);
        let config = Certificate::new(name, false).server(client);
        let url = serve_with(config, move |connection| {
            let mut begun = false;
            loop {
                let request = request(connection)?;
                let tls = &connection.conn;
                let host = request.lines().find_map(|line| line.strip_prefix("Host: "));
                if !std::mem::replace(&mut begun, true) {
                    let all: &Mutex<Vec<Seen>> = &all;
                    all.lock().unwrap().push(Seen {
                        version: tls.protocol_version().unwrap(),
                        is_resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
                        has_certificate: tls.peer_certificates().is_some(),
                        name: tls.server_name().map(str::to_owned),
                        host: host.unwrap_or_default().to_owned(),
                    });
                }
                connection.write_all(OK.as_bytes())?;
                connection.flush()?;
            }
        });
        Self { url, seen }
    }

    fn port(&self) -> &str {
        self.url.trim_end_matches('/').rsplit(':').next().unwrap()
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn program(url: &str, options: &[&str]) -> Program {
    let load = ["--tls-insecure", "-c", "2", "-n", "20", "-q", url];
    Program::new(PROGRAM).args(load).args(options)
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_server_that_requires_a_certificate_of_its_clients_gets_it() {
    let own = Certificate::new("client", false);
    let folder = tempfile::tempdir().unwrap();
    let certificate = file(folder.path(), "own.pem", &own.pem);
    let key = file(folder.path(), "own.key", &own.key_pem());
    let both = file(
        folder.path(),
        "both.pem",
        &(own.pem.clone() + &own.key_pem()),
    );
    let other_key = Certificate::new("client", false).key_pem();
    let other_key = file(folder.path(), "other.key", &other_key);
    let server = Server::start("localhost", Some(&own));
    for options in [
        &["--tls-cert", &certificate, "--tls-key", &key][..],
        &["--cert", &both],
        &["--tls-cert", &both, "--engine", "hyper"],
    ] {
        let run = program(&server.url, options).run();
        assert_eq!(run.result["operations"]["ok"], 20, "{}", run.stderr);
    }
    assert!(server.seen().iter().all(|seen| seen.has_certificate));
    let count = server.seen().len();
    for (options, problem) in [
        (
            &[][..],
            &["asks for a certificate of the client", "--tls-cert FILE"][..],
        ),
        (
            &["--tls-cert", &certificate],
            &["--tls-key", &certificate, "in PEM"],
        ),
        (
            &["--tls-cert", &certificate, "--tls-key", &other_key],
            &["--tls-key", &other_key, "private key of the certificate"],
        ),
        (
            &["--tls-key", &key],
            &["--tls-key", "name its file with --tls-cert"],
        ),
        (
            &["--tls-cert", "/no/such.pem"],
            &["--tls-cert /no/such.pem", "in PEM"],
        ),
    ] {
        program(&server.url, options).refused(2, problem);
    }
    assert_eq!(
        server.seen().len(),
        count,
        "a refused client sends no request"
    );
}

#[test]
fn versions_of_tls_and_resumption_are_as_the_options_say() {
    let server = Server::start("localhost", None);
    let connections = |options: &[&str]| {
        let before = server.seen().len();
        let run = program(&server.url, &[&["--no-keep-alive"], options].concat()).run();
        assert_eq!(run.result["operations"]["ok"], 20, "{}", run.stderr);
        server.seen().split_off(before)
    };
    let [newest, old] = [ProtocolVersion::TLSv1_3, ProtocolVersion::TLSv1_2];
    let all = |seen: &[Seen], version| seen.iter().all(|one| one.version == version);
    let usual = connections(&[]);
    assert!(usual.len() >= 20 && all(&usual, newest), "{usual:?}");
    assert!(usual.iter().any(|one| one.is_resumed), "{usual:?}");
    for (named, version) in [("1.2", old), ("1.3", newest)] {
        let full = connections(&["--tls-version", named, "--tls-full-handshakes"]);
        assert!(full.len() >= 20 && all(&full, version), "{full:?}");
        assert!(!full.iter().any(|one| one.is_resumed), "{full:?}");
    }
    program(&server.url, &["--tls-version", "1.1"]).refused(2, &["1.1", "1.2, 1.3"]);
}

#[test]
fn a_name_that_points_nowhere_is_requested_from_the_addresses_that_are_given() {
    let server = Server::start("shop.invalid", None);
    let port = server.port();
    let url = format!("https://shop.invalid:{port}/");
    let elsewhere = format!("localhost:{port}");
    for to in ["127.0.0.1", &elsewhere, &format!("127.0.0.1,{elsewhere}")] {
        let before = server.seen().len();
        let run = program(&url, &["--connect-to", to]).run();
        assert_eq!(run.result["operations"]["ok"], 20, "{}", run.stderr);
        for seen in &server.seen()[before..] {
            let name = seen.name.as_deref();
            assert_eq!(
                (name, seen.host.as_str()),
                (Some("shop.invalid"), &url[8..url.len() - 1])
            );
        }
    }
    let through = |variable: &str| {
        let mut program = program(&url, &["--connect-to", "127.0.0.1"]);
        program.command().env(variable, "http://127.0.0.1:1");
        program.run().stderr
    };
    let note = "https_proxy is set and not used";
    assert!(through("https_proxy").contains(note));
    assert!(!through("http_proxy").contains("not used"));
    let count = server.seen().len();
    for (to, problem) in [
        (
            "nowhere.invalid",
            &["--connect-to nowhere.invalid", "can't be resolved"][..],
        ),
        ("::1", &["--connect-to ::1", "in brackets"]),
        ("127.0.0.1:1", &["127.0.0.1:1", "refused"]),
    ] {
        program(&url, &["--connect-to", to]).refused(2, problem);
    }
    program(&url, &[]).refused(2, &["shop.invalid can't be resolved"]);
    assert_eq!(server.seen().len(), count);
}
