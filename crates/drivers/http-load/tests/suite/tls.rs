//! Tests of TLS and HTTP/2: accepted certificates, counts, and error messages.

use std::io::{self, Write as _};
use std::process::{Command, Output};

use harness_testing::peer;
use http_load::Settings;
use load::recorder::OK;
use serde_json::Value;

use crate::program::PROGRAM;
use crate::scenarios::{ENGINES, adds_up, errors, failed, put, rate, users};
use crate::scripted::{Scripted, Step};
use crate::secure::{self, Secure, Spoken};
use crate::servers::{send, url};

fn http_load(words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    Command::new(PROGRAM)
        .args(words)
        .args(["-q", "-c", "2", "-d", "1s", "--warmup", "50ms", "-t", "1"])
        .args(["--output", "result.json"])
        .current_dir(&folder)
        .output()
        .inspect(|output| {
            if matches!(output.status.code(), Some(0 | 3)) {
                let text = std::fs::read(folder.path().join("result.json")).unwrap();
                let result: Value = serde_json::from_slice(&text).unwrap();
                let engine = &result["results"][0]["plan"]["driver"]["engine"];
                assert_eq!(engine, "wire", "the engine that was taken");
                let operations = &result["results"][0]["operations"];
                assert!(operations["ok"].as_u64() > Some(0), "{operations}");
            }
        })
        .unwrap()
}

#[track_caller]
fn refuses(words: &[&str], parts: &[&str]) {
    let output = http_load(words);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn an_untrusted_server_is_not_measured_and_the_error_has_a_remedy() {
    let server = Secure::start(Spoken::Https);
    let other = Secure::start(Spoken::Https);
    let file = other.certificate();
    let (localhost, address) = (server.url("localhost"), server.url("127.0.0.1"));
    let other = ["--tls-ca", file.path().to_str().unwrap()];
    for trusts in [&[][..], &other] {
        refuses(
            &[&[localhost.as_str()][..], trusts].concat(),
            &["is not trusted here", "--tls-ca FILE", "--tls-insecure"],
        );
    }
    let file = server.certificate();
    refuses(
        &[&address, "--tls-ca", file.path().to_str().unwrap()],
        &["not valid for name", "a name that its certificate has"],
    );
}

#[test]
fn a_certificate_that_is_trusted_or_any_will_do() {
    let server = Secure::start(Spoken::Https);
    let file = server.certificate();
    let file = file.path().to_str().unwrap();
    for words in [
        &["--tls-ca", file][..],
        &["--tls-insecure"],
        &["--http2", "--tls-insecure"],
    ] {
        let url = server.url("localhost");
        let output = http_load(&[&[url.as_str()][..], words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // 3: suspect results on a busy machine.
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{words:?}: {said}"
        );
    }
}

#[test]
fn a_certificate_that_signs_others_is_taken_from_the_server_that_it_was_given_for() {
    let (server, other) = (
        Secure::showing_a_ca(Spoken::Https),
        Secure::showing_a_ca(Spoken::Https),
    );
    let (own, foreign) = (server.certificate(), other.certificate());
    let (own, foreign) = (
        own.path().to_str().unwrap(),
        foreign.path().to_str().unwrap(),
    );
    let (localhost, address) = (server.url("localhost"), server.url("127.0.0.1"));
    let output = http_load(&[&localhost, "--tls-ca", own]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let name = ["not valid for name", "a name that its certificate has"];
    refuses(&[&address, "--tls-ca", own], &name);
    let remedies = ["--tls-ca FILE", "--tls-insecure"];
    refuses(&[&localhost, "--tls-ca", foreign], &remedies);
    refuses(&[&localhost], &remedies);
}

#[test]
fn a_handshake_that_fails_in_the_load_is_an_error_of_its_own() {
    // A certificate that is not trusted, and a server that does not choose HTTP/2.
    for (spoken, http2) in [(Spoken::Https, false), (Spoken::Https1, true)] {
        let server = Secure::start(spoken);
        for engine in ENGINES {
            let settings = Settings {
                engine,
                http2,
                tls_insecure: http2,
                ..Settings::default()
            };
            let tally = put(settings, users(2, 3), &server.url("localhost"));
            assert_eq!(errors(&tally), failed("tls", 6), "{engine:?} {http2}");
            assert!(adds_up(&tally));
        }
    }
}

#[test]
fn options_that_an_engine_lacks_are_refused_before_the_start() {
    let url = "http://127.0.0.1:1/";
    let secure = "https://127.0.0.1:1/";
    for (words, parts) in [
        (&[url, "--streams", "5"][..], ["--streams", "add --http2"]),
        (
            &[url, "--http2", "--pipeline", "2"],
            ["--pipeline", "--streams"],
        ),
        (
            &[secure, "--engine", "hyper", "--pipeline", "2"],
            ["--pipeline", "--engine wire"],
        ),
        (
            &[secure, "--tls-ca", "/no/such.pem"],
            ["--tls-ca", "in PEM"],
        ),
        (
            &[secure, "--tls-ca", "x", "--tls-insecure"],
            ["--tls-ca", "leave out one"],
        ),
        (
            &[url, "--http2", "--streams", "2", "--no-keep-alive"],
            ["--streams", "--no-keep-alive"],
        ),
    ] {
        refuses(words, &parts);
    }
}

#[test]
fn a_server_without_http2_is_told_apart() {
    let server = Secure::start(Spoken::Https1);
    refuses(
        &[&server.url("localhost"), "--http2", "--tls-insecure"],
        &["--http2"],
    );
}

#[test]
fn a_scheme_that_does_not_fit_the_port_is_answered_with_the_other() {
    let server = Secure::start(Spoken::Https);
    let plain = server.url("localhost").replace("https:", "http:");
    refuses(&[&plain], &["of 127.0.0.1:", "https://"]);
    let address = peer::serve(|mut stream| {
        // The client may have left.
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
    });
    let secure = format!("https://{address}/");
    refuses(&[&secure], &["does not answer in TLS", "write http://"]);
}

/// The server answers the handshake with an alert (RFC 8446 §6.2): 40 and 70 are `handshake_failure` and
/// `protocol_version`.
#[test]
fn a_server_that_shares_no_version_or_cipher_suite_is_told_what_is_offered() {
    for alert in [40, 70] {
        let address = peer::serve(move |mut stream| {
            stream.write_all(&[21, 3, 3, 0, 2, 2, alert]).unwrap();
            // Unread data would turn the end into a reset.
            io::copy(&mut stream, &mut io::sink())
        });
        let url = format!("https://{address}/");
        refuses(&[&url], &["in common", "TLS 1.2 or 1.3", "P-256"]);
    }
}

#[test]
fn a_server_of_http1_alone_is_told_apart_from_one_of_http2() {
    let answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let server = Scripted::start(vec![Step::Expect, send(answer), Step::Close]);
    refuses(&[&url(&server), "--http2"], &["leave out --http2"]);
    let settings = "\0\0\0\x04\0\0\0\0\0";
    let server = Scripted::start(vec![Step::Expect, send(settings), Step::Close]);
    refuses(&[&url(&server)], &["answers in HTTP/2: add --http2"]);
}

#[test]
fn streams_are_counted_each() {
    let both = [Spoken::Https, Spoken::Http2];
    for (spoken, engine) in both
        .iter()
        .flat_map(|spoken| ENGINES.map(|engine| (*spoken, engine)))
    {
        let server = Secure::start(spoken);
        let settings = Settings {
            engine,
            http2: true,
            streams: 5,
            tls_insecure: true,
            connections: 2,
            phases: true,
            ..Settings::default()
        };
        let tally = put(settings.clone(), users(2, 50), &server.url("localhost"));
        assert!(adds_up(&tally));
        assert_eq!(
            (tally.counted(OK), tally.counted("opened")),
            (100, 2),
            "{:?}",
            tally.errors
        );
        assert_eq!(
            tally.counted("body_bytes"),
            100 * secure::CONTENT.len() as u64
        );
        assert_eq!(server.requests(), 100);
        // More than one on each connection.
        assert!(server.most_at_once() > 2, "{}", server.most_at_once());
        let tally = put(settings, rate(500.0, 60), &server.url("localhost"));
        assert!(adds_up(&tally));
        assert_eq!(
            (tally.counted(OK), tally.counted("opened")),
            (60, 2),
            "{:?}",
            tally.errors
        );
    }
}

/// The server takes 1 MiB of a stream at once, so the rest of each body waits for its window.
#[test]
fn request_bodies_over_http2_are_sent_whole() {
    const BODY: usize = 3_000_000;
    for spoken in [Spoken::Https, Spoken::Http2] {
        let server = Secure::start(spoken);
        let settings = Settings {
            http2: true,
            streams: 4,
            tls_insecure: true,
            method: "POST".to_owned(),
            path: Some("/length".to_owned()),
            body: vec!["x".repeat(BODY)],
            expect_body: Some(BODY.to_string()),
            ..Settings::default()
        };
        let tally = put(settings, users(2, 8), &server.url("localhost"));
        assert_eq!(tally.counted(OK), 16, "{spoken:?}: {:?}", tally.errors);
        assert!(tally.counted("bytes_sent") > 16 * BODY as u64);
    }
}
