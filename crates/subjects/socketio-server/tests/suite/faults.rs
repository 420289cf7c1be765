//! Clients that break the rules: each loses its own connection, and nobody else's.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use socketio_server::{DisconnectReason, ServerConfig};

use test_kit::wait_until;

use crate::support::{TestServer, WEBSOCKET, config, frame, raw_websocket};

/// Reads frames until the server has closed, and returns the code of its close frame.
fn close_code(stream: &mut TcpStream) -> Option<u16> {
    let mut code = None;
    loop {
        let mut head = [0; 2];
        if stream.read_exact(&mut head).is_err() {
            return code;
        }
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("a length");
                u16::from_be_bytes(length).into()
            }
            length => usize::from(length),
        };
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).expect("a payload");
        if head[0] == 0x88 {
            code = Some(u16::from_be_bytes([payload[0], payload[1]]));
        }
    }
}

#[test]
fn malformed_frames_close_their_own_connection_with_the_code_of_the_standard() {
    let server = TestServer::start(config());
    let mut other = server.join();
    let mut long = vec![0x82, 0xff];
    long.extend(1_000_001_u64.to_be_bytes());
    let faults = [
        ("an unmasked frame", vec![0x81, 2, b'4', b'0'], 1002),
        ("invalid UTF-8", frame(0x81, b"4\xff"), 1007),
        ("an oversized message", long, 1009),
    ];
    let count = faults.len() as u64;
    for (name, bytes, code) in faults {
        let mut stream = raw_websocket(server.address, WEBSOCKET);
        // The server may close before it has read everything.
        let _ = stream.write_all(&bytes);
        assert_eq!(close_code(&mut stream), Some(code), "{name}");
        other.echo("1");
    }
    assert_eq!(server.counts.ended(DisconnectReason::ProtocolError), count);
    assert_eq!(server.counts.open_sessions(), 1);
}

#[test]
fn malformed_packets_close_their_own_connection() {
    let server = TestServer::start(config());
    let mut other = server.join();
    for packet in [
        "",
        "abc",
        "2",
        "0{}",
        "4",
        "4abc",
        "4/",
        "47",
        "40[]",
        "40{",
        "40\"a\"",
        "401{}",
        "42",
        "42[]",
        "42{}",
        "42[null]",
        r#"42["message""#,
        r#"42["message",]"#,
        r#"42["message"]]"#,
        r#"42/never-joined,["message"]"#,
        "41/never-joined,",
        "43[]",
        r#"4299999999999999999999["message"]"#,
        r#"45["message"]"#,
        r#"4565-["message"]"#,
    ] {
        let mut client = server.join();
        client.send(packet);
        assert_eq!(client.close_code(), Some(1002), "{packet:?}");
    }
    for namespace in ["/", "/custom"] {
        let mut client = server.connect();
        client.text();
        client.send(&format!("42{namespace},[\"message\",1]"));
        assert_eq!(
            client.close_code(),
            Some(1002),
            "an event before {namespace}"
        );
    }
    other.echo("1");
    assert_eq!(server.counts.open_sessions(), 1);
}

#[test]
fn attachments_come_as_announced_or_the_connection_ends() {
    let server = TestServer::start(ServerConfig {
        max_payload: 1000,
        ..config()
    });
    let announce = r#"452-["message",{"_placeholder":true,"num":0}]"#;
    let mut unannounced = server.join();
    unannounced.send_binary(&[1]);
    assert_eq!(unannounced.close_code(), Some(1002));
    let mut interrupted = server.join();
    interrupted.send(announce);
    interrupted.send("42[\"message\"]");
    assert_eq!(interrupted.close_code(), Some(1002));
    let mut large = server.join();
    large.send(announce);
    large.send_binary(&[0; 600]);
    large.send_binary(&[0; 600]);
    assert_eq!(large.close_code(), Some(1009));
}

#[test]
fn deep_json_is_carried_without_recursion() {
    let server = TestServer::start(config());
    let mut client = server.join();
    let deep = format!("{}{}", "[".repeat(400_000), "]".repeat(400_000));
    client.echo(&deep);
    let objects = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    client.echo(&objects);
    let mut client = server.connect();
    client.text();
    client.send(&format!("40{objects}"));
    assert!(client.text().starts_with("40{"));
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let server = TestServer::start(config());
    let mut other = server.join();
    for _ in 0..10 {
        let clients: Vec<_> = (0..50).map(|_| server.join()).collect();
        drop(clients);
        other.echo("1");
    }
    wait_until("all have ended", || {
        server.counts.ended(DisconnectReason::ConnectionLost) == 500
    });
    assert_eq!(server.counts.open_sessions(), 1);
}
