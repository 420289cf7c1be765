//! The protocol against independent implementations of it.

mod packets;
mod polling;
mod presence;
mod socket;
mod upgrade;
mod web_socket;
mod web_socket_session;

use presence_load::protocol::ProtocolError;
use presence_load::protocol::transport::{
    Access, Endpoint, Event, Side, Transport, TransportContext,
};
use tungstenite::handshake::derive_accept_key;

/// The content of an Engine.IO handshake.
const OPEN: &str = r#"{"sid":"abc","upgrades":["websocket"],"pingInterval":25000,"pingTimeout":20000,"maxPayload":100}"#;

fn context() -> TransportContext {
    let endpoint = Endpoint {
        host: "127.0.0.1:3000".to_owned(),
        path: "/socket.io/".to_owned(),
        query: String::new(),
        max_message: 100_000,
        access: Access::default(),
    };
    TransportContext::new(endpoint, 7)
}

/// Reads all events of a side from pieces of its data, as a caller does.
fn read_all(
    transport: &mut Transport,
    side: Side,
    pieces: &[&[u8]],
    cx: &mut TransportContext,
) -> Result<Vec<Event<'static>>, ProtocolError> {
    let mut events = Vec::new();
    let mut buffer = vec![0; 100].into_boxed_slice();
    for piece in pieces {
        let restored = transport.restore(side, &mut buffer);
        let end = restored + piece.len();
        buffer[restored..end].copy_from_slice(piece);
        let mut taken = 0;
        while let Some(event) = transport.next(side, &buffer[..end], &mut taken, cx)? {
            events.push(to_owned(event));
        }
        transport.keep(side, &buffer[taken..end]);
    }
    Ok(events)
}

fn read(
    transport: &mut Transport,
    side: Side,
    data: &[u8],
    cx: &mut TransportContext,
) -> Vec<Event<'static>> {
    read_all(transport, side, &[data], cx).unwrap()
}

fn send(transport: &mut Transport, text: &str, cx: &mut TransportContext) {
    transport.send(cx, |out| out.extend_from_slice(text.as_bytes()));
}

fn to_owned(event: Event<'_>) -> Event<'static> {
    match event {
        Event::Opened => Event::Opened,
        Event::Message(text) => Event::Message(text.into_owned().into()),
        Event::Binary(bytes) => Event::Binary(bytes.into_owned().into()),
        Event::Ping => Event::Ping,
        Event::Upgraded => Event::Upgraded,
        Event::Closed(how) => Event::Closed(how),
    }
}

fn message(text: &'static str) -> Event<'static> {
    Event::Message(text.into())
}

/// Takes what is to be written to a side.
fn take_output(side: Side, cx: &mut TransportContext) -> String {
    let output = std::mem::take(&mut cx.actions.output[side as usize]);
    String::from_utf8(output).expect("requests are text")
}

/// Takes the sides that are to be opened.
fn take_opened(cx: &mut TransportContext) -> Vec<Side> {
    let open = std::mem::take(&mut cx.actions.open);
    let sides = Side::ALL.into_iter();
    sides.filter(|side| open[*side as usize]).collect()
}

/// Returns a response with this body.
fn response(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// Returns a short frame of the server.
fn frame(text: &str) -> Vec<u8> {
    [&[0x81, text.len() as u8], text.as_bytes()].concat()
}

/// Returns the response that accepts a request to open a WebSocket.
fn accept(request: &str) -> Vec<u8> {
    let mut lines = request.lines();
    let key = lines.find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
    let accept = derive_accept_key(key.unwrap().as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    )
    .into_bytes()
}
