//! Tests of faulty responses.

use std::io::{ErrorKind, Read as _};
use std::time::Duration;

use crate::support::{Client, Daemon};

use test_kit::assert_contains;

fn asked(daemon: &Daemon, path: &str) -> Client {
    let mut client = daemon.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
    client
}

#[test]
fn every_fault_is_the_one_that_was_asked_for() {
    let daemon = Daemon::start("--workers 1");
    assert_eq!(daemon.get("/fault/status/503").status(), 503);
    assert_eq!(daemon.get("/fault/delay?ms=1").status(), 200);
    assert_eq!(daemon.get("/fault/slow?ms=1").body.len(), 1024);
    assert_eq!(daemon.get("/fault/nothing").status(), 400);
    let mut path = "/fault/redirect/2".to_owned();
    for location in ["1", "/1kb.txt"] {
        let answer = daemon.get(&path);
        assert_eq!(
            (answer.status(), answer.field("location")),
            (302, Some(location))
        );
        path = format!("/fault/redirect/{location}");
    }
    assert!(asked(&daemon, "/fault/close").rest().is_empty());
    assert!(
        asked(&daemon, "/fault/garbage")
            .rest()
            .starts_with(b"I AM NO")
    );
    let mut chunked = asked(&daemon, "/fault/chunked?chunks=2&size=3");
    assert_eq!(chunked.head().field("transfer-encoding"), Some("chunked"));
    let mut body = [0; 21];
    chunked.0.read_exact(&mut body).unwrap();
    assert_eq!(&body, b"3\r\n\0\0\0\r\n3\r\n\0\0\0\r\n0\r\n\r\n");
    let mut truncated = asked(&daemon, "/fault/truncated?bytes=100");
    assert_eq!(truncated.head().field("content-length"), Some("100"));
    assert_eq!(truncated.rest().len(), 50);
    let reset = asked(&daemon, "/fault/reset").0.read(&mut [0]).unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    let mut stalled = asked(&daemon, "/fault/stall");
    daemon.await_metric("http_unanswered_total", |count| count == 5);
    // The absence of a response can't be awaited, so a short wait has to do.
    stalled
        .0
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    assert_eq!(
        stalled.0.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    assert_eq!(daemon.metric("http_requests_total{class=\"5xx\"}"), 1);
}

#[test]
fn an_echo_tells_what_was_sent() {
    let daemon = Daemon::start("--workers 1");
    let mut client = daemon.connect();
    client.send(b"POST /echo?a=1 HTTP/1.1\r\nHost: test\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 5\r\n\r\nhello");
    let echo = client.answer().text();
    assert_contains(
        &echo,
        &[
            r#""body_bytes":5"#,
            r#""method":"POST""#,
            r#""target":"/echo?a=1""#,
            r#""x-one":"1, 2""#,
        ],
    );
}

#[test]
fn malformed_requests_are_answered_with_400_and_other_methods_with_405() {
    let daemon = Daemon::start("--workers 1");
    for nonsense in [
        &b"\x16\x03\x01\x02\0\x01\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    ] {
        let mut client = daemon.connect();
        assert_eq!(client.send(nonsense).answer().status(), 400, "{nonsense:?}");
        assert!(client.rest().is_empty());
    }
    for hosts in [
        "",
        "Host: a\r\nHost: a\r\n",
        "Host: a b\r\n",
        "Host: a@b\r\n",
    ] {
        let mut client = daemon.connect();
        client.send(format!("GET /1kb.txt HTTP/1.1\r\n{hosts}\r\n").as_bytes());
        assert_eq!(client.answer().status(), 400, "{hosts:?}");
        assert!(client.rest().is_empty());
    }
    for (version, hosts) in [("1.0", ""), ("1.0", "Host: a\r\n"), ("1.1", "Host:\r\n")] {
        let mut client = daemon.connect();
        client.send(format!("GET /1kb.txt HTTP/{version}\r\n{hosts}\r\n").as_bytes());
        assert_eq!(client.answer().status(), 200, "{version} {hosts:?}");
    }
    let mut client = daemon.connect();
    let answer = client
        .send(b"DELETE /1kb.txt HTTP/1.1\r\nHost: test\r\n\r\n")
        .answer();
    assert_eq!(
        (answer.status(), answer.field("allow")),
        (405, Some("GET, HEAD"))
    );
    assert_eq!(client.get("/1kb.txt").status(), 200);
}
