//! Sessions over WebSocket.

use std::sync::Arc;
use std::time::Duration;

use presence_daemon::app::{App, DisconnectReason, Event};
use presence_daemon::config::ServerConfig;
use presence_daemon::socket::Socket;
use serde_json::Value;
use serde_json::value::RawValue;
use tungstenite::Message;

use test_kit::wait_until;

use crate::support::{Client, TestServer, config};

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
fn clients_connect_to_namespaces_with_what_identifies_them() {
    let server = TestServer::start(config());
    let mut client = server.connect();
    client.text();
    for (request, answer, auth) in [
        (
            r#"40{"token":"123"}"#,
            "40{\"sid\":\"",
            r#"42["auth",{"token":"123"}]"#,
        ),
        (
            "40/custom,",
            "40/custom,{\"sid\":\"",
            r#"42/custom,["auth",{}]"#,
        ),
    ] {
        client.send(request);
        assert!(client.text().starts_with(answer));
        assert_eq!(client.text(), auth);
    }
    client.send("40/random");
    let refusal = r#"44/random,{"message":"Invalid namespace"}"#;
    assert_eq!(client.text(), refusal);
    // The connection and the namespaces stay.
    client.send("41/custom,");
    client.echo("1");
}

#[test]
fn events_and_acknowledgements_keep_their_arguments() {
    let server = TestServer::start(config());
    let mut client = server.join();
    client.echo(r#"1,"2",{"3":[true]},1.50,"é\u0000""#);
    client.send(r#"42["message"]"#);
    assert_eq!(client.text(), r#"42["message-back"]"#);
    client.send(r#"42456["message-with-ack",1,"2",{"3":[false]}]"#);
    assert_eq!(client.text(), r#"43456[1,"2",{"3":[false]}]"#);
}

#[test]
fn attachments_follow_their_packet() {
    let server = TestServer::start(config());
    let mut client = server.join();
    let arguments = r#"{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}"#;
    for (request, answer) in [
        (r#"452-["message","#, r#"452-["message-back","#),
        (r#"452-789["message-with-ack","#, "462-789["),
    ] {
        client.send(&format!("{request}{arguments}]"));
        client.send_binary(&[1, 2, 3]);
        client.send_binary(&[4, 5, 6]);
        assert_eq!(client.text(), format!("{answer}{arguments}]"));
        assert_eq!(client.read(), Message::binary(vec![1, 2, 3]));
        assert_eq!(client.read(), Message::binary(vec![4, 5, 6]));
    }
}

#[test]
fn fragmented_and_large_messages_arrive_whole() {
    let server = TestServer::start(config());
    let mut client = server.join();
    client.echo(&format!("\"{}\"", "x".repeat(900_000)));
    client.echo("1");
}

#[test]
fn a_message_of_engine_io_is_sent_back() {
    let server = TestServer::start(config());
    let mut client = Client::open(server.address, "/engine.io/?EIO=4&transport=websocket");
    client.text();
    client.send("4hello");
    assert_eq!(client.text(), "4hello");
    client.send_binary(&[1, 2, 3, 4]);
    assert_eq!(client.read(), Message::binary(vec![1, 2, 3, 4]));
}

#[test]
fn a_websocket_ping_is_answered() {
    let server = TestServer::start(config());
    let mut client = server.join();
    client.0.send(Message::Ping(vec![7].into())).unwrap();
    assert_eq!(client.read(), Message::Pong(vec![7].into()));
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
    let closed = "presence_connections_closed_total{reason=\"client\"}";
    wait_until("both have left", || server.metric(closed) == 2);
    assert_eq!(server.metric("presence_connections_open"), 0);
}

fn config_with_pings() -> ServerConfig {
    ServerConfig {
        ping_interval: Duration::from_millis(300),
        ping_timeout: Duration::from_millis(200),
        ..config()
    }
}

#[test]
fn the_first_ping_comes_after_the_interval() {
    let server = TestServer::start(ServerConfig {
        // The answers must be in time on a busy machine. Each is looked for after this time.
        ping_timeout: Duration::from_secs(3),
        ..config_with_pings()
    });
    let started = tokio::time::Instant::now();
    let mut client = server.connect();
    client.text();
    for pings in 1..=2 {
        assert_eq!(client.text(), "2");
        assert!(started.elapsed() >= pings * Duration::from_millis(295));
        client.send("3");
    }
}

#[test]
fn a_client_that_does_not_answer_a_ping_is_disconnected() {
    let server = TestServer::start(config_with_pings());
    let mut client = server.join();
    assert_eq!(client.text(), "2");
    client.close_code();
    let closed = "presence_connections_closed_total{reason=\"ping_timeout\"}";
    wait_until("it is counted", || server.metric(closed) == 1);
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
        server.metric("presence_connections_closed_total{reason=\"protocol_error\"}") == 2
    });
    assert_eq!(polled.get().0, 400);
    connected.echo("1");
    echo.send("4a");
    assert_eq!(echo.text(), "4a");
}

/// An application that panics on demand.
struct Fragile;

impl App for Fragile {
    fn admit(&self, _: &str, _: Option<&RawValue>) -> Result<(), String> {
        Ok(())
    }

    fn connect(&self, _: &Arc<Socket>, _: Option<&RawValue>) {}

    fn event(&self, socket: &Arc<Socket>, event: Event<'_>) {
        assert_ne!(event.name, "panic", "this message is expected");
        socket.ack(event.ack.unwrap_or_default(), &event.name);
    }

    fn disconnect(&self, _: &Arc<Socket>, _: DisconnectReason) {}
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
        server.metric("presence_connections_open") == 1
    });
}
