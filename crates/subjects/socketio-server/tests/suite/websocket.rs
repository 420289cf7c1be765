//! Sessions over WebSocket.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use socketio_server::{App, DisconnectReason, Event, ServerConfig, Socket};

use test_kit::wait_until;
use tungstenite::Message;

use crate::support::{Client, TestServer, WEBSOCKET, config, websocket_handshake};

#[test]
fn a_session_opens_with_the_settings_of_the_server() {
    let server = TestServer::start(config());
    let open = server.connect().text();
    let open: Value = serde_json::from_str(open.strip_prefix('0').unwrap()).unwrap();
    assert_eq!(open["sid"].as_str().unwrap().len(), 20);
    assert_eq!(open["upgrades"], Value::Array(Vec::new()));
    assert_eq!(open["pingInterval"], 25_000);
    assert_eq!(open["pingTimeout"], 20_000);
    assert_eq!(open["maxPayload"], 1_000_000);
}

#[test]
fn the_close_of_a_client_is_answered() {
    let server = TestServer::start(config());
    let mut client = server.join();
    client.0.close(None).unwrap();
    client.close_code();
    let mut client = server.join();
    client.send("1");
    assert_eq!(client.close_code(), Some(1000));
    wait_until("both have left", || {
        server.counts.ended(DisconnectReason::Client) == 2
    });
    assert_eq!(server.counts.open_sessions(), 0);
}

#[test]
fn a_client_that_connects_to_no_namespace_in_time_is_disconnected() {
    let server = TestServer::start(ServerConfig {
        connect_timeout: Duration::from_millis(1_500),
        ..config()
    });
    let mut connected = server.join();
    let mut echo = Client::open(server.address, "/engine.io/?EIO=4&transport=websocket");
    echo.text();
    let polled = server.poll();
    let mut silent = server.connect();
    silent.text();
    silent.close_code();
    wait_until("both are gone", || {
        server.counts.ended(DisconnectReason::ProtocolError) == 2
    });
    assert_eq!(polled.get().0, 400);
    connected.echo("1");
    echo.send("4a");
    assert_eq!(echo.text(), "4a");
}

/// An application that panics on demand.
struct Fragile;

impl App for Fragile {
    fn event(&self, socket: &Arc<Socket>, event: Event<'_>) {
        assert_ne!(event.name, "panic", "this message is expected");
        socket.ack(event.ack.unwrap_or_default(), &event.name);
    }
}

#[test]
fn a_panic_of_the_application_costs_one_connection() {
    let server = TestServer::start_app(config(), Arc::new(Fragile));
    let mut other = server.connect();
    let mut client = server.connect();
    for client in [&mut other, &mut client] {
        client.text();
        client.send("40");
        client.text();
    }
    client.send(r#"42["panic"]"#);
    client.close_code();
    other.send(r#"427["a"]"#);
    assert_eq!(other.text(), r#"437["a"]"#);
    wait_until("its session has ended", || {
        server.counts.open_sessions() == 1
    });
}

/// Requests a WebSocket with further headers, and returns the head of the response in lower case.
fn handshake(server: &TestServer, headers: &str) -> String {
    let (_, head) = websocket_handshake(server.address, WEBSOCKET, headers);
    head.to_lowercase()
}

#[test]
fn pages_of_other_origins_open_a_websocket_only_if_they_are_allowed() {
    let foreign = "Origin: http://other.example\r\n";
    let server = TestServer::start(config());
    let refused = handshake(&server, foreign);
    assert!(refused.starts_with("http/1.1 403"), "{refused}");
    for own in ["", "Origin: http://test\r\n", "Origin: https://test\r\n"] {
        let response = handshake(&server, own);
        assert!(response.starts_with("http/1.1 101"), "{own}: {response}");
    }
    let refused = handshake(&server, "Origin: null\r\n");
    assert!(refused.starts_with("http/1.1 403"), "{refused}");
    for (allowed, status) in [
        ("*", "http/1.1 101"),
        ("http://other.example", "http/1.1 101"),
        ("http://app.example", "http/1.1 403"),
    ] {
        let server = TestServer::start(ServerConfig {
            cors_origin: Some(allowed.to_owned()),
            ..config()
        });
        let response = handshake(&server, foreign);
        assert!(response.starts_with(status), "{allowed}: {response}");
    }
}

#[test]
fn the_first_subprotocol_that_a_client_offers_is_selected() {
    let server = TestServer::start(config());
    for offered in ["a", "a, b", "a\r\nSec-WebSocket-Protocol: b"] {
        let response = handshake(&server, &format!("Sec-WebSocket-Protocol: {offered}\r\n"));
        assert!(
            response.contains("sec-websocket-protocol: a\r\n"),
            "{response}"
        );
    }
    let response = handshake(&server, "");
    assert!(!response.contains("sec-websocket-protocol"), "{response}");
}

#[test]
fn an_event_whose_name_is_a_number_is_ignored() {
    let server = TestServer::start(config());
    let mut client = server.join();
    for packet in ["42[2,{}]", "42[-1.5]", "4217[ 0 , 1 ]"] {
        client.send(packet);
    }
    client.echo("1");
}

#[test]
fn a_binary_packet_may_come_as_base64() {
    let server = TestServer::start(config());
    let mut client = server.join();
    client.send(r#"451-["message",{"_placeholder":true,"num":0}]"#);
    client.send("b+//7/w==");
    let answer = r#"451-["message-back",{"_placeholder":true,"num":0}]"#;
    assert_eq!(client.text(), answer);
    assert_eq!(client.read(), Message::binary(vec![0xfb, 0xff, 0xfb, 0xff]));
}

#[test]
fn pings_come_at_their_interval_however_long_an_answer_may_take() {
    let server = TestServer::start(ServerConfig {
        ping_interval: Duration::from_millis(50),
        ping_timeout: Duration::from_secs(3600),
        ..config()
    });
    let mut client = server.connect();
    client.text();
    for _ in 0..3 {
        // A read fails after 20 s.
        assert_eq!(client.text(), "2");
        client.send("3");
    }
}

#[test]
fn each_ping_has_the_whole_timeout_though_others_follow() {
    let server = TestServer::start(ServerConfig {
        ping_interval: Duration::from_millis(300),
        ping_timeout: Duration::from_millis(1_000),
        ..config()
    });
    let mut client = server.join();
    for _ in 0..5 {
        assert_eq!(client.text(), "2");
        client.send("3");
    }
    assert_eq!(client.text(), "2");
    client.close_code();
    wait_until("it is counted", || {
        server.counts.ended(DisconnectReason::PingTimeout) == 1
    });
}
