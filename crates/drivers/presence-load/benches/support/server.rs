//! A server as the driver hears it.

use presence_load::protocol::transport::{
    Access, Endpoint, Event, Kind, Side, Transport, TransportContext,
};
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};

/// Returns a frame of the server.
pub(crate) fn frame(text: &str) -> Vec<u8> {
    let frame = Frame::message(text.to_owned(), OpCode::Data(Data::Text), true);
    let mut bytes = Vec::new();
    frame.format(&mut bytes).expect("memory takes it");
    bytes
}

pub(crate) fn event_packet(event: &str) -> String {
    format!(r#"42["presence:event",{event}]"#)
}

/// Returns a transport whose session is open.
pub(crate) fn open_transport() -> (Transport, TransportContext) {
    let endpoint = Endpoint {
        host: "127.0.0.1:3000".to_owned(),
        path: "/socket.io/".to_owned(),
        query: String::new(),
        max_message: 1 << 20,
        access: Access::default(),
    };
    let mut cx = TransportContext::new(endpoint, 1);
    let mut transport = Transport::new(Kind::WebSocket);
    transport.connected(Side::Main, &mut cx);
    let request = String::from_utf8_lossy(&cx.actions.output[0]).into_owned();
    let key = request
        .lines()
        .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
    let accept = tungstenite::handshake::derive_accept_key(key.expect("it has a key").as_bytes());
    let mut input = format!("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes();
    input.extend(frame(r#"0{"sid":"a","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}"#));
    let opened = transport.next(Side::Main, &input, &mut 0, &mut cx);
    assert!(matches!(opened, Ok(Some(Event::Opened))), "{opened:?}");
    cx.actions.clear();
    (transport, cx)
}
