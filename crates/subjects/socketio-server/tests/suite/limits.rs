//! Limits: connections, times, and what waits for a client that does not read.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use socketio_server::{Count, DisconnectReason, ServerConfig};

use test_kit::wait_until;

use crate::support::{POLLING, TestServer, WEBSOCKET, config, frame, raw_websocket, stream};

#[test]
fn sessions_beyond_the_limit_are_refused_until_others_leave() {
    let server = TestServer::start(ServerConfig {
        max_connections: 2,
        ..config()
    });
    let first = server.join();
    let _second = server.poll();
    assert_eq!(server.get(POLLING).0, 503);
    let url = format!("ws://{}{WEBSOCKET}", server.address);
    let refused = tungstenite::client(&url, stream(server.address));
    assert!(refused.is_err(), "a third session opened");
    assert_eq!(server.counts.total(Count::HandshakesFull), 2);
    drop(first);
    wait_until("the first has left", || server.counts.open_sessions() == 1);
    server.join();
}

#[test]
fn handshakes_that_stop_half_way_are_closed_and_disturb_nobody() {
    let server = TestServer::start(ServerConfig {
        head_timeout: Duration::from_millis(1500),
        ..config()
    });
    let mut other = server.join();
    let request = format!("GET {WEBSOCKET} HTTP/1.1\r\nHost: test\r\nUpgra");
    let mut halves: Vec<_> = (0..300)
        .map(|index| {
            let mut half = stream(server.address);
            // Some send nothing at all.
            if index % 3 > 0 {
                half.write_all(request.as_bytes()).expect("it is sent");
            }
            half
        })
        .collect();
    other.echo("1");
    server.join();
    for half in &mut halves {
        let mut rest = Vec::new();
        half.read_to_end(&mut rest).expect("the server closes");
    }
    other.echo("2");
    wait_until("the other is left", || server.counts.open_sessions() == 1);
}

#[test]
fn a_client_that_never_reads_is_disconnected_and_counted() {
    let server = TestServer::start(ServerConfig {
        outbound_limit: 100_000,
        ..config()
    });
    let mut other = server.join();
    let mut silent = raw_websocket(server.address, WEBSOCKET);
    silent.write_all(&frame(0x81, b"40")).unwrap();
    let event = format!(r#"42["message","{}"]"#, "x".repeat(50_000));
    let event = frame(0x81, event.as_bytes());
    let mut sent = 0;
    // The buffers of the kernel come first.
    while silent.write_all(&event).is_ok() {
        sent += event.len();
        assert!(sent < 100_000_000, "it is still connected");
    }
    wait_until("it is counted", || {
        server.counts.ended(DisconnectReason::SlowConsumer) == 1
    });
    other.echo("1");
    assert_eq!(server.counts.open_sessions(), 1);
}

#[test]
fn a_client_that_reads_late_gets_everything_in_order() {
    let server = TestServer::start(ServerConfig {
        outbound_limit: 100_000_000,
        ..config()
    });
    let mut client = server.join();
    let padding = "x".repeat(20_000);
    for number in 0..500 {
        client.send(&format!(r#"42["message",{number},"{padding}"]"#));
    }
    for number in 0..500 {
        let expected = format!(r#"42["message-back",{number},"{padding}"]"#);
        assert!(client.text() == expected, "message {number} is another");
    }
    assert!(server.counts.total(Count::WritesBlocked) > 0);
}

#[test]
fn an_answer_is_delivered_whatever_its_length_and_with_the_events_around_it() {
    let server = TestServer::start(ServerConfig {
        outbound_limit: 100_000,
        ..config()
    });
    let padding = "x".repeat(900_000);
    let asked = [
        r#"42["message",1]"#,
        &format!(r#"427["message-with-ack","{padding}"]"#),
        r#"42["message",2]"#,
    ];
    let answered = [
        r#"42["message-back",1]"#,
        &format!(r#"437["{padding}"]"#),
        r#"42["message-back",2]"#,
    ];
    let session = server.poll();
    session.join();
    session.send(&asked.join("\x1e"));
    assert!(session.get() == (200, answered.join("\x1e")));
    let mut client = server.join();
    asked.into_iter().for_each(|packet| client.send(packet));
    for packet in answered {
        assert!(client.text() == packet);
    }
}
