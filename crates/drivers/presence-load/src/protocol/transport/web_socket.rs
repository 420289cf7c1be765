//! A session over WebSocket, on one side.

use std::borrow::Cow;
use std::rc::Rc;

use super::context::{Endpoint, TransportContext};
use super::event::{Closed, Event};
use super::side::Side;
use crate::protocol::ProtocolError;
use crate::protocol::packet::{EnginePacket, Open};
use crate::protocol::websocket::{Handshake, Message, Opcode, Reader, append_close, append_frame};

/// A WebSocket, of a session of its own or of one that is being upgraded.
#[derive(Debug)]
pub(super) struct WebSocket {
    pub(super) side: Side,
    /// True without Engine.IO: messages are passed on as they are.
    is_plain: bool,
    phase: WebSocketPhase,
    reader: Reader,
}

/// The progress of a WebSocket.
#[derive(Debug)]
enum WebSocketPhase {
    /// The TCP connection is not established. The client has an endpoint of its own, or the context's.
    New(Option<Rc<Endpoint>>),
    /// The response to the handshake is awaited.
    Handshake(Box<Handshake>),
    /// The first packet is awaited: `open`, or the answer to the probe.
    Greeting,
    Open,
    /// A close frame was sent, and the server's is awaited.
    Closing,
    Closed,
}

/// Something that a WebSocket has received.
pub(super) enum Received<'a> {
    Event(Event<'a>),
    /// The handshake of an upgrade is complete: the probe can be sent.
    Connected,
    /// The probe was answered.
    Probed,
}

impl WebSocket {
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            is_plain: false,
            phase: WebSocketPhase::New(None),
            reader: Reader::default(),
        }
    }

    /// Creates a WebSocket without Engine.IO.
    pub(super) fn plain() -> Self {
        Self {
            is_plain: true,
            ..Self::new(Side::Main)
        }
    }

    /// Sets the client's own endpoint, before the TCP connection is established.
    pub(super) fn set_endpoint(&mut self, endpoint: Option<Rc<Endpoint>>) {
        self.phase = WebSocketPhase::New(endpoint);
    }

    /// Returns true if messages can be sent.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, WebSocketPhase::Open)
    }

    /// Requests the handshake. The id names the session to be upgraded, or is empty.
    pub(super) fn connected(&mut self, sid: &str, cx: &mut TransportContext) {
        let endpoint = match &self.phase {
            WebSocketPhase::New(Some(own)) => own,
            _ => &cx.endpoint,
        };
        let access = &endpoint.access;
        let handshake = Handshake::new(&mut cx.masks, &access.subprotocols);
        cx.scratch.clear();
        let transport = (!self.is_plain).then_some("websocket");
        endpoint.append_target(&mut cx.scratch, transport, sid);
        let target = String::from_utf8_lossy(&cx.scratch);
        let output = cx.actions.output(self.side);
        handshake.append_request(output, &endpoint.host, &target, &access.fields);
        self.phase = WebSocketPhase::Handshake(Box::new(handshake));
    }

    /// Sends a packet.
    pub(super) fn send(&self, packet: &[u8], cx: &mut TransportContext) {
        self.send_frame(Opcode::Text, packet, cx);
    }

    /// Sends a frame.
    pub(super) fn send_frame(&self, opcode: Opcode, payload: &[u8], cx: &mut TransportContext) {
        let output = &mut cx.actions.output[self.side as usize];
        append_frame(output, opcode, payload, &mut cx.masks);
    }

    /// Sends a close frame.
    pub(super) fn close(&mut self, cx: &mut TransportContext) {
        if matches!(self.phase, WebSocketPhase::Greeting | WebSocketPhase::Open) {
            let output = &mut cx.actions.output[self.side as usize];
            append_close(output, Some(1000), &mut cx.masks);
            self.phase = WebSocketPhase::Closing;
        }
    }

    /// Handles the end of the data. Returns true if it was not announced.
    pub(super) fn ended(&mut self) -> bool {
        !matches!(
            std::mem::replace(&mut self.phase, WebSocketPhase::Closed),
            WebSocketPhase::Closed
        )
    }

    /// Reads the next event. `is_upgrade` is true before the end of an upgrade.
    #[inline]
    pub(super) fn next<'a>(
        &mut self,
        input: &'a [u8],
        taken: &mut usize,
        (is_upgrade, answers_pings): (bool, bool),
        cx: &mut TransportContext,
    ) -> Result<Option<Received<'a>>, ProtocolError> {
        loop {
            if !matches!(self.phase, WebSocketPhase::Open) {
                match self.begin(input, taken, is_upgrade)? {
                    Begun::Go => {}
                    Begun::Wait => return Ok(None),
                    Begun::Received(received) => return Ok(Some(received)),
                }
            }
            let limit = cx.endpoint.max_message;
            let (length, message) = self.reader.next(&input[*taken..], limit)?;
            *taken += length;
            let received = match message {
                None => return Ok(None),
                Some(Message::Text(text)) => self.packet(text, answers_pings, cx)?,
                Some(message) => self.control(message, cx),
            };
            if received.is_some() {
                return Ok(received);
            }
        }
    }

    /// Reads what comes before the first message, or ignores what comes after the end.
    fn begin<'a>(
        &mut self,
        input: &[u8],
        taken: &mut usize,
        is_upgrade: bool,
    ) -> Result<Begun<'a>, ProtocolError> {
        match &self.phase {
            WebSocketPhase::Handshake(handshake) => {
                let response = handshake.read_response(&input[*taken..])?;
                let Some((length, status)) = response else {
                    return Ok(Begun::Wait);
                };
                *taken += length;
                if status != 101 {
                    self.phase = WebSocketPhase::Closed;
                    let closed = Event::Closed(Closed::Status(status));
                    return Ok(Begun::Received(Received::Event(closed)));
                }
                // A plain one stays there: what comes is not a packet.
                self.phase = WebSocketPhase::Greeting;
                Ok(if self.is_plain {
                    Begun::Received(Received::Event(Event::Opened))
                } else if is_upgrade {
                    Begun::Received(Received::Connected)
                } else {
                    Begun::Go
                })
            }
            WebSocketPhase::Greeting | WebSocketPhase::Open | WebSocketPhase::Closing => {
                Ok(Begun::Go)
            }
            WebSocketPhase::New(_) | WebSocketPhase::Closed => {
                *taken = input.len();
                Ok(Begun::Wait)
            }
        }
    }

    /// Handles a packet.
    #[inline]
    fn packet<'a>(
        &mut self,
        text: Cow<'a, str>,
        answers_pings: bool,
        cx: &mut TransportContext,
    ) -> Result<Option<Received<'a>>, ProtocolError> {
        if !self.is_open() {
            return self.greeting(text, cx);
        }
        let event = match EnginePacket::parse(&text)? {
            EnginePacket::Message(_) => Event::Message(behind_type(text)),
            EnginePacket::Ping("") => {
                if answers_pings {
                    self.send(b"3", cx);
                }
                Event::Ping
            }
            EnginePacket::Close => {
                self.phase = WebSocketPhase::Closed;
                Event::Closed(Closed::Packet)
            }
            EnginePacket::Noop => return Ok(None),
            _ => return Err(ProtocolError::EnginePacket),
        };
        Ok(Some(Received::Event(event)))
    }

    /// Handles the first packet, and those after a close frame of the client; without Engine.IO all messages.
    fn greeting<'a>(
        &mut self,
        text: Cow<'a, str>,
        cx: &mut TransportContext,
    ) -> Result<Option<Received<'a>>, ProtocolError> {
        if matches!(self.phase, WebSocketPhase::Closing) {
            return Ok(None);
        }
        if self.is_plain {
            return Ok(Some(Received::Event(Event::Message(text))));
        }
        self.phase = WebSocketPhase::Open;
        match EnginePacket::parse(&text)? {
            EnginePacket::Open(json) => {
                cx.longest_pause_ns = Open::parse(json)?.longest_pause_ns();
                Ok(Some(Received::Event(Event::Opened)))
            }
            EnginePacket::Pong("probe") => Ok(Some(Received::Probed)),
            _ => Err(ProtocolError::Open),
        }
    }

    /// Handles a frame that is not text.
    fn control<'a>(
        &mut self,
        message: Message<'a>,
        cx: &mut TransportContext,
    ) -> Option<Received<'a>> {
        let output = &mut cx.actions.output[self.side as usize];
        match message {
            Message::Binary(bytes) => Some(Received::Event(Event::Binary(bytes))),
            Message::Ping(payload) => {
                append_frame(output, Opcode::Pong, payload, &mut cx.masks);
                None
            }
            Message::Close(code) => {
                if !matches!(self.phase, WebSocketPhase::Closing) {
                    append_close(output, code, &mut cx.masks);
                }
                self.phase = WebSocketPhase::Closed;
                let closed = Event::Closed(Closed::Frame(code));
                Some(Received::Event(closed))
            }
            Message::Pong(_) | Message::Text(_) => None,
        }
    }
}

/// A step before the first message.
enum Begun<'a> {
    /// Messages follow.
    Go,
    /// More bytes are needed, or none are of use.
    Wait,
    Received(Received<'a>),
}

/// Returns a packet without its type.
#[inline]
pub(super) fn behind_type(packet: Cow<'_, str>) -> Cow<'_, str> {
    match packet {
        Cow::Borrowed(text) => Cow::Borrowed(&text[1..]),
        Cow::Owned(mut text) => {
            text.remove(0);
            Cow::Owned(text)
        }
    }
}
