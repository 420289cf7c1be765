//! A session over WebSocket against tungstenite, on a TCP connection.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use presence_load::protocol::ProtocolError;
use presence_load::protocol::transport::{Closed, Event, Kind, Side, Transport, TransportContext};
use tungstenite::{Message, WebSocket};

use super::{OPEN, accept, context, frame, message, read_all, take_output};

/// Runs a server on its own thread, for one connection.
fn serve(serve: impl FnOnce(WebSocket<TcpStream>) + Send + 'static) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        serve(tungstenite::accept(stream).unwrap());
    });
    TcpStream::connect(address).unwrap()
}

/// Does what the transport asks for, and returns the events of one read.
fn exchange(
    transport: &mut Transport,
    stream: &mut TcpStream,
    cx: &mut TransportContext,
) -> Vec<Event<'static>> {
    assert!(cx.actions.is_main_output_only());
    stream.write_all(&cx.actions.output[0]).unwrap();
    cx.actions.clear();
    let mut buffer = [0; 4096];
    match stream.read(&mut buffer).unwrap() {
        0 => transport.ended(Side::Main, cx).into_iter().collect(),
        length => read_all(transport, Side::Main, &[&buffer[..length]], cx).unwrap(),
    }
}

/// Exchanges until there are `count` events.
fn events(
    count: usize,
    transport: &mut Transport,
    stream: &mut TcpStream,
    cx: &mut TransportContext,
) -> Vec<Event<'static>> {
    let mut events = Vec::new();
    while events.len() < count {
        events.extend(exchange(transport, stream, cx));
    }
    events
}

#[test]
fn a_session_opens_answers_pings_sends_receives_and_closes() {
    let mut stream = serve(|mut server| {
        server.send(Message::text(format!("0{OPEN}"))).unwrap();
        assert_eq!(server.read().unwrap(), Message::text("40"));
        server.send(Message::Ping("p".into())).unwrap();
        server.send(Message::text("2")).unwrap();
        assert_eq!(server.read().unwrap(), Message::Pong("p".into()));
        assert_eq!(server.read().unwrap(), Message::text("3"));
        server.send(Message::text("6")).unwrap();
        server.send(Message::text("42[\"a\"]")).unwrap();
        server.send(Message::binary("bytes")).unwrap();
        let closed = server.read().unwrap();
        assert!(matches!(closed, Message::Close(Some(frame)) if u16::from(frame.code) == 1000));
        while server.read().is_ok() {}
    });
    let (mut transport, mut cx) = (Transport::new(Kind::WebSocket), context());
    transport.connected(Side::Main, &mut cx);
    let first = events(1, &mut transport, &mut stream, &mut cx);
    assert_eq!(first, [Event::Opened]);
    transport.send(&mut cx, |out| out.push(b'0'));
    let rest = events(3, &mut transport, &mut stream, &mut cx);
    let expected = [
        Event::Ping,
        message("2[\"a\"]"),
        Event::Binary(b"bytes".into()),
    ];
    assert_eq!(rest, expected);
    transport.close(&mut cx);
    let closed = events(1, &mut transport, &mut stream, &mut cx);
    assert_eq!(closed, [Event::Closed(Closed::Frame(Some(1000)))]);
    assert!(
        cx.actions.output[0].is_empty(),
        "it answers no close frame twice"
    );
    assert_eq!(transport.ended(Side::Main, &mut cx), None);
}

#[test]
fn the_servers_close_frame_is_answered() {
    let mut stream = serve(|mut server| {
        server.send(Message::text(format!("0{OPEN}"))).unwrap();
        server.close(None).unwrap();
        assert_eq!(server.read().unwrap(), Message::Close(None));
    });
    let (mut transport, mut cx) = (Transport::new(Kind::WebSocket), context());
    transport.connected(Side::Main, &mut cx);
    let received = events(2, &mut transport, &mut stream, &mut cx);
    assert_eq!(
        received,
        [Event::Opened, Event::Closed(Closed::Frame(None))]
    );
    assert!(!cx.actions.output[0].is_empty());
}

/// Returns a transport that awaits its handshake, and the response that fits it.
fn begun() -> (Transport, TransportContext, Vec<u8>) {
    let (mut transport, mut cx) = (Transport::new(Kind::WebSocket), context());
    transport.connected(Side::Main, &mut cx);
    let request = take_output(Side::Main, &mut cx);
    let target = "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n";
    assert!(request.starts_with(target), "{request}");
    (transport, cx, accept(&request))
}

#[test]
fn a_session_reads_the_same_wherever_its_stream_is_split() {
    let frames = [
        "0{\"sid\":\"a\",\"pingInterval\":1,\"pingTimeout\":2}",
        "42[\"one\"]",
        "2",
        "42[\"two\"]",
    ];
    let length = begun().2.len() + frames.map(frame).concat().len();
    for at in 0..=length {
        let (mut transport, mut cx, mut stream) = begun();
        stream.extend(frames.map(frame).concat());
        let (first, second) = stream.split_at(at);
        let read = read_all(&mut transport, Side::Main, &[first, second], &mut cx).unwrap();
        assert_eq!(
            read[1..],
            [message("2[\"one\"]"), Event::Ping, message("2[\"two\"]")],
            "at {at}"
        );
    }
}

#[test]
fn a_transport_that_ignores_pings_reports_them_and_stays_silent() {
    let (mut transport, mut cx, mut stream) = begun();
    transport.ignore_pings();
    stream.extend(
        [format!("0{OPEN}"), "2".to_owned()]
            .map(|text| frame(&text))
            .concat(),
    );
    let read = read_all(&mut transport, Side::Main, &[&stream], &mut cx).unwrap();
    assert_eq!(read, [Event::Opened, Event::Ping]);
    assert!(cx.actions.output[0].is_empty());
}

#[test]
fn a_refused_handshake_a_wrong_greeting_and_a_lost_connection_are_told_apart() {
    let (mut transport, mut cx, _) = begun();
    let refusal = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}";
    let read = read_all(&mut transport, Side::Main, &[refusal], &mut cx);
    assert_eq!(read, Ok(vec![Event::Closed(Closed::Status(400))]));
    for (greeting, error) in [
        ("42[\"a\"]", ProtocolError::Open),
        ("3probe", ProtocolError::Open),
        ("0{\"sid\":1}", ProtocolError::Open),
        ("x", ProtocolError::EnginePacket),
    ] {
        let (mut transport, mut cx, mut stream) = begun();
        stream.extend(frame(greeting));
        let read = read_all(&mut transport, Side::Main, &[&stream], &mut cx);
        assert_eq!(read, Err(error), "{greeting}");
    }
    let (mut transport, mut cx, stream) = begun();
    read_all(&mut transport, Side::Main, &[&stream], &mut cx).unwrap();
    let ended = transport.ended(Side::Main, &mut cx);
    assert_eq!(ended, Some(Event::Closed(Closed::End)));
}

#[test]
fn a_web_socket_transport_needs_72_bytes() {
    assert!(size_of::<Transport>() <= 72, "{}", size_of::<Transport>());
}
