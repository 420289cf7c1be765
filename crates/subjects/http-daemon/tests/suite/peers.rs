//! Tests of what clients do in the life of a connection, without any fault of theirs.

use std::net::Shutdown;

use crate::support::{Client, Daemon};

#[test]
fn a_client_that_half_closes_gets_its_answers_and_then_the_end() {
    let daemon = Daemon::start("--workers 1");
    for path in ["/1kb.txt", "/fault/delay?ms=20", "/fault/slow?ms=1"] {
        let mut client = daemon.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
        client.send(request.repeat(2).as_bytes());
        client.0.shutdown(Shutdown::Write).unwrap();
        let statuses = [(); 2].map(|()| client.answer().status());
        assert_eq!(statuses, [200, 200], "{path}");
        assert!(client.rest().is_empty(), "{path}");
    }
    daemon.await_metric("http_connections_open", |open| open == 0);
}

#[test]
fn a_client_that_half_closes_while_it_gets_no_answer_is_closed() {
    let daemon = Daemon::start("--workers 1");
    let mut client = daemon.connect();
    client.send(b"GET /fault/stall HTTP/1.1\r\nHost: test\r\n\r\nGET");
    client.0.shutdown(Shutdown::Write).unwrap();
    assert!(client.rest().is_empty());
    daemon.await_metric("http_connections_open", |open| open == 0);
}

#[test]
fn requests_in_one_piece_are_answered_in_their_order() {
    let daemon = Daemon::start("--workers 1");
    let mut client = daemon.connect();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    let paths = ["/10kb.txt", "/no-such-file.txt", "/1kb.txt"];
    client.send(paths.map(get).concat().as_bytes());
    let statuses = paths.map(|_| client.answer().status());
    assert_eq!(statuses, [200, 404, 200]);
}

#[test]
fn a_client_that_asks_for_the_end_gets_it_after_its_answer() {
    let daemon = Daemon::start("--workers 1");
    for request in [
        "GET /1kb.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n",
        "GET /1kb.txt HTTP/1.0\r\n\r\n",
    ] {
        let mut client = daemon.connect();
        let answer = client.send(request.as_bytes()).answer();
        assert_eq!(
            (answer.status(), answer.body.len()),
            (200, 1024),
            "{request}"
        );
        assert!(client.rest().is_empty(), "{request}");
    }
    let mut client = daemon.connect();
    for _ in 0..2 {
        client.send(b"GET /1kb.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(client.answer().status(), 200);
    }
}

#[test]
fn an_answer_is_whole_although_the_client_goes_on_behind_its_last_request() {
    let daemon = Daemon::start("--workers 1");
    // More than the kernel takes for a client that does not read, and less than it takes from a daemon.
    let length = 500_000;
    std::fs::write(daemon.www().join("large"), vec![0; length]).unwrap();
    let mut clients = [
        "GET /large HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n",
        "GET /large HTTP/1.0\r\n\r\n",
        // The answer to a request without Host ends the connection.
        "GET /large HTTP/1.1\r\nHost: test\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    ]
    .map(|requests| {
        let mut bytes = requests.as_bytes().to_vec();
        bytes.resize(1 << 16, b'x');
        let mut client = daemon.connect();
        client.send(&bytes);
        client
    });
    // They read when the daemon has closed.
    daemon.await_metric("http_connections_accepted_total", |count| count == 3);
    daemon.await_metric("http_connections_open", |open| open == 0);
    for client in &mut clients {
        assert_eq!(client.answer().body.len(), length);
    }
}

#[test]
fn a_client_that_waits_for_100_before_its_body_is_told_to_go_on() {
    let daemon = Daemon::start("--workers 1");
    let mut client = daemon.connect();
    client.send(
        b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.head().status(), 100);
    assert!(
        client
            .send(b"hello")
            .answer()
            .text()
            .contains(r#""body_bytes":5"#)
    );
}

#[test]
fn a_chunked_body_with_a_trailer_is_read_to_its_end() {
    let daemon = Daemon::start("--workers 1");
    let mut client = daemon.connect();
    client.send(b"POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n");
    assert!(client.answer().text().contains(r#""body_bytes":5"#));
    assert_eq!(client.get("/1kb.txt").status(), 200);
}

#[test]
fn a_client_that_comes_and_leaves_without_a_word_costs_nothing() {
    let daemon = Daemon::start("--workers 1");
    let clients: Vec<Client> = (0..20).map(|_| daemon.connect()).collect();
    daemon.await_metric("http_connections_accepted_total", |count| count == 20);
    drop(clients);
    daemon.await_metric("http_connections_open", |open| open == 0);
    assert_eq!(daemon.get("/1kb.txt").status(), 200);
}
