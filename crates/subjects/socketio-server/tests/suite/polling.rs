//! Sessions over long-polling, and their upgrade to WebSocket.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, send};
use socketio_server::{Count, DisconnectReason, ServerConfig};
use tungstenite::Message;

use test_kit::wait_until;

use crate::support::{
    Client, POLLING, Polled, TestServer, WEBSOCKET, config, http, http_with, stream,
};

#[test]
fn a_session_offers_the_upgrade() {
    let server = TestServer::start(config());
    let (status, body) = server.get(POLLING);
    assert_eq!(status, 200);
    assert!(body.starts_with("0{"), "{body}");
    assert!(body.contains(r#""upgrades":["websocket"]"#), "{body}");
    // The slash at the end of the path may be missing.
    assert_eq!(server.get("/socket.io?EIO=4&transport=polling").0, 200);
}

#[test]
fn bad_handshakes_get_the_code_of_the_protocol() {
    let server = TestServer::start(config());
    for (method, query, code) in [
        ("GET", "EIO=4", 0),
        ("GET", "EIO=4&transport=abc", 0),
        ("GET", "EIO=4&transport=polling&sid=abc", 1),
        ("GET", "EIO=4&transport=polling&sid=aaaaaaaaaaaaaaaaaaaa", 1),
        (
            "POST",
            "EIO=4&transport=polling&sid=aaaaaaaaaaaaaaaaaaaa",
            1,
        ),
        (
            "GET",
            "EIO=4&transport=websocket&sid=aaaaaaaaaaaaaaaaaaaa",
            1,
        ),
        ("POST", "EIO=4&transport=polling", 2),
        ("PUT", "EIO=4&transport=polling", 2),
        ("GET", "EIO=4&transport=websocket", 3),
        ("GET", "transport=polling", 5),
        ("GET", "EIO=abc&transport=polling", 5),
        ("GET", "EIO=3&transport=polling", 5),
    ] {
        let (status, body) = http(server.address, method, &format!("/socket.io/?{query}"), b"");
        assert_eq!(status, 400, "{method} {query}");
        let start = format!("{{\"code\":{code},\"message\":\"");
        assert!(body.starts_with(&start), "{method} {query}: {body}");
    }
    assert_eq!(server.counts.total(Count::HandshakesRefused), 12);
}

#[test]
fn a_polling_request_that_asks_for_a_websocket_is_refused() {
    let server = TestServer::start(config());
    let session = server.poll();
    for path in [POLLING.to_owned(), session.path()] {
        for protocols in ["websocket", "WebSocket", "h2c, websocket"] {
            for method in ["GET", "POST"] {
                let headers = format!("Connection: Upgrade\r\nUpgrade: {protocols}\r\n");
                let (head, body) = http_with(server.address, method, &path, &headers, b"3");
                assert!(head.starts_with("HTTP/1.1 400 "), "{protocols}: {head}");
                assert_eq!(body, r#"{"code":3,"message":"Bad request"}"#);
            }
        }
    }
    // The session goes on.
    session.join();
}

/// A server may ignore the header `Upgrade` (RFC 9110 §7.8), and some clients offer HTTP/2 to every server.
#[test]
fn a_polling_request_that_offers_another_protocol_is_served() {
    let server = TestServer::start(config());
    let offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    let session = server.poll();
    let ask = |method, path: &str, body: &str| {
        let (head, body) = http_with(server.address, method, path, offer, body.as_bytes());
        assert!(head.starts_with("HTTP/1.1 200 "), "{method} {path}: {head}");
        body
    };
    assert!(ask("GET", POLLING, "").starts_with("0{"));
    assert_eq!(ask("POST", &session.path(), "40"), "ok");
    assert!(ask("GET", &session.path(), "").starts_with("40{"));
}

/// Sends the head of a POST request and two of its 20 bytes.
fn half_a_post(session: &Polled<'_>) -> TcpStream {
    let mut post = stream(session.server.address);
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: test\r\nContent-Length: 20\r\n\r\n42",
        session.path()
    );
    post.write_all(request.as_bytes()).expect("it is sent");
    post
}

#[test]
fn a_cancelled_post_closes_the_session() {
    let server = TestServer::start(config());
    drop(half_a_post(&server.poll()));
    wait_until("the session has ended", || {
        server.counts.ended(DisconnectReason::ConnectionLost) == 1
    });
}

#[test]
fn a_post_that_stops_half_way_is_closed() {
    let server = TestServer::start(ServerConfig {
        ping_interval: Duration::from_millis(200),
        ping_timeout: Duration::from_millis(200),
        ..config()
    });
    let mut post = half_a_post(&server.poll());
    let mut response = String::new();
    post.read_to_string(&mut response)
        .expect("the server closes");
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
}

#[test]
fn a_connection_whose_answer_nobody_reads_is_closed() {
    let server = TestServer::start(ServerConfig {
        ping_interval: Duration::from_secs(2),
        ping_timeout: Duration::from_secs(1),
        ..config()
    });
    let session = server.poll();
    session.join();
    // More than the buffers of both sides take.
    session.send(&format!("42[\"message\",\"{}\"]", "x".repeat(900_000)));
    let mut client = stream(server.address);
    let request = format!("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", session.path());
    client.write_all(request.as_bytes()).unwrap();
    wait_until("no connection is left", || {
        let ended = server.counts.total(Count::HttpEnded);
        server.counts.total(Count::Accepted) == ended
    });
}

#[test]
fn a_client_that_ends_its_side_gets_the_answers_that_need_not_wait() {
    let server = TestServer::start(config());
    let session = server.poll();
    session.join();
    let post = "POST PATH HTTP/1.1\r\nHost: test\r\nContent-Length: 15\r\n\r\n42[\"message\",1]";
    let get = "GET PATH HTTP/1.1\r\nHost: test\r\n\r\n";
    for (request, answer) in [
        (post, "ok"),
        (get, r#"42["message-back",1]"#),
        ("GET /healthz HTTP/1.0\r\n\r\n", "ok\n"),
    ] {
        let request = request.replace("PATH", &session.path());
        let mut client = stream(server.address);
        // After an answer, the server waits for data: it finds the request together with the end.
        client
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
            .unwrap();
        let mut first = [0; 1024];
        assert_ne!(client.read(&mut first).unwrap(), 0);
        let held_back = MsgFlags::from_bits_retain(libc::MSG_MORE);
        let sent = send(client.as_raw_fd(), request.as_bytes(), held_back);
        assert_eq!(sent, Ok(request.len()));
        client.shutdown(Shutdown::Write).unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap_or_default();
        assert_eq!(body, answer, "{request}");
    }
}

#[test]
fn a_close_that_overtakes_the_poll_answers_it_all_the_same() {
    let server = TestServer::start(config());
    let session = server.poll();
    session.send("1");
    assert_eq!(session.post("3").0, 400);
    assert_eq!(session.get(), (200, "6".to_owned()));
    assert_eq!(session.get().0, 400);
    assert_eq!(server.counts.open_sessions(), 0);
}

#[test]
fn binary_packets_may_be_of_any_kind_of_base64() {
    let server = TestServer::start(config());
    let session = server.poll();
    session.join();
    let packet = "451-[\"message\",{\"_placeholder\":true,\"num\":0}]";
    let answer = "451-[\"message-back\",{\"_placeholder\":true,\"num\":0}]";
    for encoded in ["+//7/w==", "+//7/w", "-__7_w", "+//7\r\n/w==", "+//7/w==\n"] {
        session.send(&format!("{packet}\x1eb{encoded}"));
        let (status, body) = session.get();
        assert_eq!(
            (status, body),
            (200, format!("{answer}\x1eb+//7/w==")),
            "{encoded:?}"
        );
    }
}

#[test]
fn broken_payloads_close_the_session() {
    let server = TestServer::start(config());
    for body in ["abc", "", "4", "2", "b!", "42[\"message\"]", "40\x1e40[]"] {
        let session = server.poll();
        let (status, _) = session.post(body);
        assert_eq!(status, 400, "{body:?}");
        assert_eq!(session.get().0, 400, "{body:?}");
    }
    wait_until("no connection is open", || {
        server.counts.open_sessions() == 0
    });
}

#[test]
fn a_body_beyond_the_limit_is_refused() {
    let server = TestServer::start(ServerConfig {
        max_payload: 1000,
        ..config()
    });
    let session = server.poll();
    assert_eq!(session.post(&"4".repeat(1001)).0, 413);
    session.join();
}

/// Opens a WebSocket for a session.
fn probe(server: &TestServer, session: &Polled<'_>) -> Client {
    let path = format!("{WEBSOCKET}&sid={}", session.id);
    let mut socket = Client::open(server.address, &path);
    socket.send("2probe");
    assert_eq!(socket.text(), "3probe");
    socket
}

#[test]
fn a_failed_upgrade_leaves_the_session_polled() {
    let server = TestServer::start(config());
    let session = server.poll();
    session.join();
    let mut socket = probe(&server, &session);
    socket.send("42[\"message\",1]");
    assert_eq!(socket.close_code(), Some(1002));
    session.send("42[\"message\",2]");
    assert_eq!(session.get(), (200, "42[\"message-back\",2]".to_owned()));
    // And it may try again.
    let mut socket = probe(&server, &session);
    socket.send("5");
    socket.echo("3");
    assert_eq!(server.counts.total(Count::Upgrades), 1);
}

#[test]
fn an_upgrade_that_takes_too_long_ends_and_leaves_the_session_polled() {
    let server = TestServer::start(ServerConfig {
        upgrade_timeout: Duration::from_millis(200),
        ..config()
    });
    let session = server.poll();
    session.join();
    let path = format!("{WEBSOCKET}&sid={}", session.id);
    // It neither probes nor takes over.
    assert_eq!(Client::open(server.address, &path).close_code(), None);
    session.send("42[\"message\",1]");
    assert_eq!(session.get(), (200, "42[\"message-back\",1]".to_owned()));
}

#[test]
fn an_upgraded_session_keeps_its_pings() {
    let server = TestServer::start(ServerConfig {
        ping_interval: Duration::from_millis(300),
        ping_timeout: Duration::from_millis(5000),
        ..config()
    });
    let session = server.poll();
    session.join();
    let mut socket = probe(&server, &session);
    socket.send("5");
    assert_eq!(socket.read(), Message::text("2"));
    socket.send("3");
    socket.echo("1");
}

#[test]
fn pages_of_the_allowed_origin_alone_may_read_responses() {
    let origin = "https://app.example";
    let server = TestServer::start(ServerConfig {
        cors_origin: Some(origin.to_owned()),
        ..config()
    });
    let ask = |method, origin| {
        let headers = format!("Origin: {origin}\r\nAccess-Control-Request-Headers: x-a\r\n");
        let (head, _) = http_with(server.address, method, POLLING, &headers, b"");
        head.to_lowercase()
    };
    let allowed = format!("access-control-allow-origin: {origin}");
    let response = ask("GET", origin);
    assert!(response.contains(&allowed), "{response}");
    let credentials = "access-control-allow-credentials: true";
    assert!(response.contains(credentials), "{response}");
    let preflight = ask("OPTIONS", origin);
    assert!(preflight.starts_with("http/1.1 204"), "{preflight}");
    assert!(preflight.contains("access-control-allow-headers: x-a"));
    assert!(!ask("GET", "https://other.example").contains("access-control"));
}
