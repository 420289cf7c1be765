//! Tests of TLS and HTTP/2, with an independent client.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::support::Daemon;

fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "30"])
        .args(arguments)
        .output();
    let output = output.expect("curl is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

const FACTS: [&str; 4] = [
    "--output",
    "/dev/null",
    "--write-out",
    "%{http_version} %{http_code} %{size_download}",
];

#[test]
fn https_offers_http_2_and_http_1() {
    let daemon = Daemon::start("--workers 1 --https-port 0");
    let url = format!(
        "https://localhost:{}/100kb.txt",
        daemon.https.unwrap().port()
    );
    for (version, wanted) in [("--http2", "2 200 102400"), ("--http1.1", "1.1 200 102400")] {
        assert_eq!(
            curl(&[&["--insecure", version, &url], &FACTS[..]].concat()),
            wanted
        );
    }
}

#[test]
fn the_plain_port_speaks_http_2_with_prior_knowledge() {
    let daemon = Daemon::start("--workers 1");
    let url = format!("http://{}/100kb.txt", daemon.http);
    for (version, wanted) in [
        ("--http2-prior-knowledge", "2 200 102400"),
        ("--http1.1", "1.1 200 102400"),
    ] {
        assert_eq!(curl(&[&[version, &url], &FACTS[..]].concat()), wanted);
    }
    // HEAD returns the length and no body.
    let head = curl(&["--head", "--http2-prior-knowledge", &url]);
    assert!(head.contains("content-length: 102400"), "{head}");
    // Faults of the socket are refused if TLS or HTTP/2 is above it.
    let url = format!("http://{}/fault/garbage", daemon.http);
    assert_eq!(
        curl(&[&["--http2-prior-knowledge", &url], &FACTS[..]].concat())[..5],
        *"2 501"
    );
}

#[test]
fn a_preface_that_comes_in_pieces_is_one() {
    let daemon = Daemon::start("--workers 1");
    let mut client = daemon.connect();
    client.send(b"PRI * HT");
    // The response shows that the daemon has seen the incomplete preface.
    assert_eq!(daemon.get("/healthz").status(), 200);
    client.send(b"TP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let mut settings = [0; 9];
    std::io::Read::read_exact(&mut client.0, &mut settings).unwrap();
    assert_eq!(settings[3], 4, "a SETTINGS frame (RFC 9113, 6.5)");
    // Data that only begins like the preface is HTTP/1.1, and invalid.
    let mut client = daemon.connect();
    assert_eq!(
        client
            .send(b"PRI / HTTP/1.1\r\nHost: test\r\n\r\n")
            .answer()
            .status(),
        405
    );
}

#[test]
fn every_protocol_has_ranges_and_heads_without_bodies() {
    let daemon = Daemon::start("--workers 1 --https-port 0");
    let http = format!("http://{}", daemon.http);
    let https = format!("https://localhost:{}", daemon.https.unwrap().port());
    for (version, base) in [
        ("--http1.1", &http),
        ("--http2-prior-knowledge", &http),
        ("--http1.1", &https),
        ("--http2", &https),
    ] {
        let facts = [
            "--insecure",
            "--output",
            "/dev/null",
            version,
            "--write-out",
        ];
        let written = "%{http_code} %{size_download} %header{content-range}";
        for (option, path, wanted) in [
            (
                "--range=5-99999",
                "100kb.txt",
                "206 99995 bytes 5-99999/102400",
            ),
            ("--head", "fault/chunked", "200 0 "),
            ("--head", "fault/status/404", "404 0 "),
            ("--head", "echo", "200 0 "),
        ] {
            let url = format!("{base}/{path}");
            let option = option.split('=').collect::<Vec<_>>();
            let found = curl(&[&facts[..], &[written], &option, &[&url]].concat());
            assert_eq!(found, wanted, "{version} {url}");
        }
    }
}

/// Opens connections over TLS, requests a file over each, and keeps them until its input ends.
const IDLE: &str = r#"
import socket, ssl, sys
tls = ssl.create_default_context()
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
kept = []
for _ in range(int(sys.argv[2])):
    kept.append(tls.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])))))
    kept[-1].sendall(b"GET /1kb.txt HTTP/1.1\r\nHost: a\r\n\r\n")
    received = b""
    while not received.endswith(b"\0" * 1024):
        received += kept[-1].recv(4096)
print("idle", flush=True)
sys.stdin.read()
"#;

#[test]
fn an_idle_connection_over_tls_takes_at_most_14_kib() {
    const COUNT: u64 = 300;
    let daemon = Daemon::start("--workers 1 --https-port 0");
    let port = daemon.https.unwrap().port().to_string();
    let idle = |count: u64| {
        let mut command = Command::new("python3");
        command.args(["-c", IDLE, &port, &count.to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "idle\n");
        child
    };
    // Tables and buffers of the worker have their size then.
    let (first, before) = (idle(100), daemon.memory());
    let second = idle(COUNT);
    let each = (daemon.memory() - before) / COUNT;
    for mut child in [first, second] {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    assert!(each <= 14 << 10, "{each} bytes");
}
