//! Long-polling against responses by hand.

use presence_load::protocol::ProtocolError;
use presence_load::protocol::transport::{
    Access, Closed, Event, Kind, Side, Transport, TransportContext,
};

use super::{OPEN, context, message, read, read_all, response, send, take_opened, take_output};

const POLL: &str = "GET /socket.io/?EIO=4&transport=polling&sid=abc HTTP/1.1\r\n";
const POST: &str = "POST /socket.io/?EIO=4&transport=polling&sid=abc HTTP/1.1\r\n";

/// Returns a client whose session is open, and which polls.
fn open() -> (Transport, TransportContext) {
    let (mut transport, mut cx) = (Transport::new(Kind::Polling), context());
    transport.connected(Side::Main, &mut cx);
    let request = take_output(Side::Main, &mut cx);
    let target = "GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: 127.0.0.1:3000\r\n";
    assert!(request.starts_with(target), "{request}");
    let read = read(
        &mut transport,
        Side::Main,
        &response(&format!("0{OPEN}")),
        &mut cx,
    );
    assert_eq!(read, [Event::Opened]);
    assert!(take_output(Side::Main, &mut cx).starts_with(POLL));
    (transport, cx)
}

/// Takes the payload of a request on the side that sends.
fn take_payload(cx: &mut TransportContext) -> String {
    let request = take_output(Side::Post, cx);
    assert!(request.starts_with(POST), "{request}");
    let (head, payload) = request.split_once("\r\n\r\n").unwrap();
    let length = format!("\r\nContent-Length: {}\r\n", payload.len());
    assert!(head.contains(&length), "{head}");
    payload.to_owned()
}

#[test]
fn a_payload_has_several_messages_wherever_it_is_split() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n42[\"\r\n3\r\na\"]\r\n7\r\n\x1e6\x1ebAQI\r\n2\r\n=\x1e\r\n7\r\n42[\"b\"]\r\n0\r\n\r\n".to_vec();
    let whole = response("42[\"a\"]\x1e6\x1ebAQI=\x1e42[\"b\"]");
    let expected = [
        message("2[\"a\"]"),
        Event::Binary([1, 2][..].into()),
        message("2[\"b\"]"),
    ];
    for data in [chunked, whole] {
        for at in 0..=data.len() {
            let (mut transport, mut cx) = open();
            let (first, second) = data.split_at(at);
            let events = read_all(&mut transport, Side::Main, &[first, second], &mut cx);
            assert_eq!(events.as_deref(), Ok(&expected[..]), "at {at}");
            assert!(
                take_output(Side::Main, &mut cx).starts_with(POLL),
                "it polls again"
            );
            assert!(cx.actions.is_main_output_only());
        }
    }
}

#[test]
fn messages_that_wait_for_a_response_are_sent_together() {
    let (mut transport, mut cx) = open();
    send(&mut transport, "0", &mut cx);
    send(&mut transport, "2[\"a\"]", &mut cx);
    assert_eq!(take_opened(&mut cx), [Side::Post]);
    transport.connected(Side::Post, &mut cx);
    assert_eq!(take_payload(&mut cx), "40\x1e42[\"a\"]");
    send(&mut transport, "2[\"b\"]", &mut cx);
    assert_eq!(
        read(&mut transport, Side::Main, &response("2"), &mut cx),
        [Event::Ping]
    );
    assert!(take_output(Side::Post, &mut cx).is_empty());
    assert_eq!(
        read(&mut transport, Side::Post, &response("ok"), &mut cx),
        []
    );
    assert_eq!(take_payload(&mut cx), "42[\"b\"]\x1e3");
    assert_eq!(take_opened(&mut cx), []);
}

#[test]
fn a_payload_is_not_larger_than_the_server_takes() {
    let (mut transport, mut cx) = open();
    let long = "x".repeat(60);
    for text in ["a", &long, &long, &"y".repeat(200), "b"] {
        send(&mut transport, text, &mut cx);
    }
    transport.connected(Side::Post, &mut cx);
    let mut sizes = Vec::new();
    for _ in 0..4 {
        sizes.push(
            take_payload(&mut cx)
                .split('\x1e')
                .map(str::len)
                .collect::<Vec<_>>(),
        );
        read(&mut transport, Side::Post, &response("ok"), &mut cx);
    }
    assert_eq!(sizes, [vec![2, 61], vec![61], vec![201], vec![2]]);
    assert!(take_output(Side::Post, &mut cx).is_empty());
}

#[test]
fn a_connection_that_the_server_closes_is_opened_again() {
    let (mut transport, mut cx) = open();
    let closing = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n6";
    assert_eq!(read(&mut transport, Side::Main, closing, &mut cx), []);
    assert!(cx.actions.close[0] && take_output(Side::Main, &mut cx).is_empty());
    assert_eq!(take_opened(&mut cx), [Side::Main]);
    transport.connected(Side::Main, &mut cx);
    assert!(take_output(Side::Main, &mut cx).starts_with(POLL));
    // The server ends an idle connection, just as the client sends the next payload on it.
    send(&mut transport, "1", &mut cx);
    transport.connected(Side::Post, &mut cx);
    read(&mut transport, Side::Post, &response("ok"), &mut cx);
    cx.actions.clear();
    send(&mut transport, "2", &mut cx);
    assert_eq!(take_payload(&mut cx), "42");
    send(&mut transport, "3", &mut cx);
    assert_eq!(transport.ended(Side::Post, &mut cx), None);
    assert_eq!(take_opened(&mut cx), [Side::Post]);
    transport.connected(Side::Post, &mut cx);
    assert_eq!(take_payload(&mut cx), "42\x1e43");
}

#[test]
fn the_end_of_a_session_is_reported_with_its_cause() {
    for (data, how) in [
        (response("1"), Closed::Packet),
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
            Closed::Status(400),
        ),
        (b"HTTP/1.1 503 Busy\r\n\r\n".to_vec(), Closed::Status(503)),
    ] {
        let (mut transport, mut cx) = open();
        assert_eq!(
            read(&mut transport, Side::Main, &data, &mut cx),
            [Event::Closed(how)]
        );
        assert!(take_output(Side::Main, &mut cx).is_empty());
        assert_eq!(transport.ended(Side::Main, &mut cx), None);
    }
    let (mut transport, mut cx) = open();
    read(
        &mut transport,
        Side::Main,
        b"HTTP/1.1 200 OK\r\nContent-Le",
        &mut cx,
    );
    let ended = transport.ended(Side::Main, &mut cx);
    assert_eq!(ended, Some(Event::Closed(Closed::End)));
}

#[test]
fn a_client_that_closes_says_so_and_polls_no_more() {
    let (mut transport, mut cx) = open();
    transport.close(&mut cx);
    transport.connected(Side::Post, &mut cx);
    assert_eq!(take_payload(&mut cx), "1");
    assert_eq!(
        read(&mut transport, Side::Main, &response("6"), &mut cx),
        []
    );
    assert!(take_output(Side::Main, &mut cx).is_empty());
    let closed = read(&mut transport, Side::Post, &response("ok"), &mut cx);
    assert_eq!(closed, [Event::Closed(Closed::Packet)]);
}

#[test]
fn a_server_that_breaks_the_protocol_is_named_for_it() {
    let cases: &[(&[u8], ProtocolError)] = &[
        (b"SSH-2.0-OpenSSH\r\n", ProtocolError::Head),
        (b"HTTP/1.1 200 OK\r\n\r\n", ProtocolError::Body),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n",
            ProtocolError::TooLarge,
        ),
        (&[&response("6")[..], b"x"].concat(), ProtocolError::Head),
        (&response(""), ProtocolError::EnginePacket),
        (&response("9"), ProtocolError::EnginePacket),
        (&response("b!"), ProtocolError::EnginePacket),
        (&response("4\x1e"), ProtocolError::EnginePacket),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n4\xFF",
            ProtocolError::Utf8,
        ),
    ];
    for (data, error) in cases {
        let (mut transport, mut cx) = open();
        // The body that a head of the cases announces, piece by piece.
        let large = vec![b'4'; 100_001];
        let rest = large.chunks(10_000);
        let rest = rest.filter(|_| *error == ProtocolError::TooLarge);
        let pieces: Vec<_> = [*data].into_iter().chain(rest).collect();
        let read = read_all(&mut transport, Side::Main, &pieces, &mut cx);
        assert_eq!(read, Err(*error), "{}", String::from_utf8_lossy(data));
    }
    let (mut transport, mut cx) = open();
    transport.connected(Side::Post, &mut cx);
    let read = read_all(&mut transport, Side::Post, &[&response("ok")], &mut cx);
    assert_eq!(read, Err(ProtocolError::Unrequested));
}

#[test]
fn credentials_go_with_every_request_and_the_namespace_with_every_packet() {
    let (mut transport, mut cx) = (Transport::new(Kind::Polling), context());
    cx.endpoint.access = Access {
        fields: "X-A: 1\r\n".to_owned(),
        namespace: "/n".to_owned(),
        ..Access::default()
    };
    transport.connected(Side::Main, &mut cx);
    let poll = take_output(Side::Main, &mut cx);
    assert!(poll.ends_with("\r\nX-A: 1\r\n\r\n"), "{poll}");
    let opening = response(&format!("0{OPEN}"));
    read(&mut transport, Side::Main, &opening, &mut cx);
    send(&mut transport, "0{}", &mut cx);
    transport.connected(Side::Post, &mut cx);
    let post = take_output(Side::Post, &mut cx);
    assert!(post.ends_with("\r\nX-A: 1\r\n\r\n40/n,{}"), "{post}");
}
