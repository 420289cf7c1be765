//! A session over HTTP long-polling, and its upgrade to WebSocket.

use std::borrow::Cow;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::context::{Endpoint, TransportContext};
use super::event::{Closed, Event};
use super::exchange::{Ended, Exchange};
use super::side::Side;
use super::web_socket::{Received, WebSocket};
use crate::protocol::ProtocolError;
use crate::protocol::packet::{EnginePacket, Open};
use crate::protocol::websocket::Opcode;

/// Separates the packets of a payload.
const SEPARATOR: u8 = 0x1e;

/// A session over long-polling.
#[derive(Debug)]
pub(super) struct Polling {
    sid: String,
    phase: PollingPhase,
    wants_upgrade: bool,
    polls: Exchange,
    posts: Exchange,
    /// The payload of the last poll, and where its next packet begins.
    received: Option<(String, usize)>,
    /// Packets to be sent, with separators.
    outgoing: Vec<u8>,
    /// The payload that is being sent.
    posted: Vec<u8>,
    /// Maximum number of bytes of a payload.
    max_payload: usize,
    upgrade: Option<Upgrade>,
}

/// The progress of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PollingPhase {
    Opening,
    Open,
    /// The client has asked for the end of the session.
    Closing,
    Closed,
}

/// The upgrade of a session.
#[derive(Debug)]
pub(super) struct Upgrade {
    pub(super) web_socket: WebSocket,
    /// Bytes that the WebSocket has kept.
    pub(super) unread: Vec<u8>,
    /// True after the server's answer to the probe: the client polls no more, and sends nothing until the last poll is
    /// answered.
    is_probed: bool,
}

impl Polling {
    pub(super) fn new(wants_upgrade: bool) -> Self {
        Self {
            sid: String::new(),
            phase: PollingPhase::Opening,
            wants_upgrade,
            polls: Exchange::new(Side::Main),
            posts: Exchange::new(Side::Post),
            received: None,
            outgoing: Vec::new(),
            posted: Vec::new(),
            max_payload: usize::MAX,
            upgrade: None,
        }
    }

    /// Sets the client's own endpoint.
    pub(super) fn set_endpoint(&mut self, endpoint: Option<Rc<Endpoint>>) {
        self.polls.endpoint.clone_from(&endpoint);
        self.posts.endpoint = endpoint;
    }

    /// Returns what a side has kept: the WebSocket of an upgrade, since polls keep nothing.
    pub(super) fn unread(&mut self, side: Side) -> Option<&mut Vec<u8>> {
        let upgrade = self.upgrade.as_mut().filter(|_| side == Side::Probe);
        upgrade.map(|upgrade| &mut upgrade.unread)
    }

    /// Takes the WebSocket after [`Event::Upgraded`].
    pub(super) fn take_upgrade(&mut self) -> Option<Upgrade> {
        self.upgrade.take()
    }

    pub(super) fn connected(&mut self, side: Side, cx: &mut TransportContext) {
        match (side, &mut self.upgrade) {
            (Side::Main, _) => {
                self.polls.connected();
                self.poll(cx);
            }
            (Side::Post, _) => {
                self.posts.connected();
                self.flush(cx);
            }
            (Side::Probe, Some(upgrade)) => upgrade.web_socket.connected(&self.sid, cx),
            (Side::Probe, None) => {}
        }
    }

    /// Sends a packet with the next payload.
    pub(super) fn send(&mut self, packet: &[u8], cx: &mut TransportContext) {
        if !self.outgoing.is_empty() {
            self.outgoing.push(SEPARATOR);
        }
        self.outgoing.extend_from_slice(packet);
        self.flush(cx);
    }

    /// Sends an attachment with the next payload.
    pub(super) fn send_binary(&mut self, bytes: &[u8], cx: &mut TransportContext) {
        self.send(format!("b{}", STANDARD.encode(bytes)).as_bytes(), cx);
    }

    pub(super) fn close(&mut self, cx: &mut TransportContext) {
        if self.phase == PollingPhase::Open {
            self.send(b"1", cx);
            self.phase = PollingPhase::Closing;
        }
    }

    pub(super) fn next<'a>(
        &mut self,
        side: Side,
        input: &'a [u8],
        taken: &mut usize,
        answers_pings: bool,
        cx: &mut TransportContext,
    ) -> Result<Option<Event<'a>>, ProtocolError> {
        if self.phase == PollingPhase::Closed {
            *taken = input.len();
            return Ok(None);
        }
        match side {
            Side::Main => self.read_polls(input, taken, answers_pings, cx),
            Side::Post => self.read_posts(input, taken, cx),
            Side::Probe => self.read_probe(input, taken, cx),
        }
    }

    fn read_polls<'a>(
        &mut self,
        input: &[u8],
        taken: &mut usize,
        answers_pings: bool,
        cx: &mut TransportContext,
    ) -> Result<Option<Event<'a>>, ProtocolError> {
        loop {
            while let Some(packet) = self.next_packet() {
                if let Some(event) = self.packet(&packet, answers_pings, cx)? {
                    return Ok(Some(event));
                }
            }
            if self.received.take().is_some() {
                if self.finish_upgrade(cx) {
                    return Ok(Some(Event::Upgraded));
                }
                self.poll(cx);
            }
            match self.polls.read(input, taken, cx)? {
                None => return Ok(None),
                Some(200) => {
                    let body = String::from_utf8(self.polls.take_body());
                    self.received = Some((body.map_err(|_| ProtocolError::Utf8)?, 0));
                }
                Some(status) => return Ok(Some(self.closed(Closed::Status(status)))),
            }
        }
    }

    /// Takes the next packet of the last payload.
    fn next_packet(&mut self) -> Option<String> {
        let (payload, at) = self.received.as_mut()?;
        let rest = payload.get(*at..)?;
        let end = rest.find(char::from(SEPARATOR)).unwrap_or(rest.len());
        *at += end + 1;
        Some(rest[..end].to_owned())
    }

    fn packet<'a>(
        &mut self,
        packet: &str,
        answers_pings: bool,
        cx: &mut TransportContext,
    ) -> Result<Option<Event<'a>>, ProtocolError> {
        if self.phase == PollingPhase::Opening {
            return self.open(packet, cx).map(Some);
        }
        if let Some(text) = packet.strip_prefix('b') {
            let bytes = STANDARD.decode(text);
            let bytes = bytes.map_err(|_| ProtocolError::EnginePacket)?;
            return Ok(Some(Event::Binary(Cow::Owned(bytes))));
        }
        Ok(Some(match EnginePacket::parse(packet)? {
            EnginePacket::Message(text) => Event::Message(Cow::Owned(text.to_owned())),
            EnginePacket::Ping("") => {
                if answers_pings {
                    self.send(b"3", cx);
                }
                Event::Ping
            }
            EnginePacket::Close => self.closed(Closed::Packet),
            EnginePacket::Noop => return Ok(None),
            _ => return Err(ProtocolError::EnginePacket),
        }))
    }

    fn open<'a>(
        &mut self,
        packet: &str,
        cx: &mut TransportContext,
    ) -> Result<Event<'a>, ProtocolError> {
        let json = packet.strip_prefix('0').ok_or(ProtocolError::Open)?;
        let open = Open::parse(json)?;
        cx.longest_pause_ns = open.longest_pause_ns();
        self.phase = PollingPhase::Open;
        self.sid = open.sid.into_owned();
        if open.max_payload > 0 {
            self.max_payload = usize::try_from(open.max_payload).unwrap_or(usize::MAX);
        }
        if self.wants_upgrade && open.can_upgrade {
            let mut web_socket = WebSocket::new(Side::Probe);
            web_socket.set_endpoint(self.polls.endpoint.clone());
            self.upgrade = Some(Upgrade {
                web_socket,
                unread: Vec::new(),
                is_probed: false,
            });
            cx.actions.open(Side::Probe);
        }
        Ok(Event::Opened)
    }

    fn read_posts<'a>(
        &mut self,
        input: &[u8],
        taken: &mut usize,
        cx: &mut TransportContext,
    ) -> Result<Option<Event<'a>>, ProtocolError> {
        match self.posts.read(input, taken, cx)? {
            None => Ok(None),
            Some(200) => {
                self.posts.take_body();
                self.posted.clear();
                if self.phase == PollingPhase::Closing && self.outgoing.is_empty() {
                    return Ok(Some(self.closed(Closed::Packet)));
                }
                self.flush(cx);
                Ok(self.finish_upgrade(cx).then_some(Event::Upgraded))
            }
            Some(status) => Ok(Some(self.closed(Closed::Status(status)))),
        }
    }

    fn read_probe<'a>(
        &mut self,
        input: &'a [u8],
        taken: &mut usize,
        cx: &mut TransportContext,
    ) -> Result<Option<Event<'a>>, ProtocolError> {
        while let Some(upgrade) = &mut self.upgrade {
            match upgrade.web_socket.next(input, taken, (true, false), cx)? {
                None => return Ok(None),
                Some(Received::Connected) => upgrade.web_socket.send(b"2probe", cx),
                Some(Received::Probed) => {
                    upgrade.is_probed = true;
                    if self.finish_upgrade(cx) {
                        return Ok(Some(Event::Upgraded));
                    }
                }
                Some(Received::Event(Event::Closed(how))) => return Ok(Some(self.closed(how))),
                // The server may send nothing else before the upgrade packet.
                Some(Received::Event(_)) => return Err(ProtocolError::Probe),
            }
        }
        *taken = input.len();
        Ok(None)
    }

    /// Ends an upgrade: once the server has answered the probe, the last poll and the last payload. Returns true if it
    /// has ended.
    fn finish_upgrade(&mut self, cx: &mut TransportContext) -> bool {
        let Some(upgrade) = self.upgrade.as_ref().filter(|upgrade| upgrade.is_probed) else {
            return false;
        };
        if self.polls.is_busy() || self.posts.is_busy() || self.received.is_some() {
            return false;
        }
        upgrade.web_socket.send(b"5", cx);
        for packet in self.outgoing.split(|byte| *byte == SEPARATOR) {
            match packet {
                [] => {}
                // An attachment, which a WebSocket sends as it is.
                [b'b', text @ ..] => {
                    let bytes = STANDARD.decode(text).unwrap_or_default();
                    upgrade.web_socket.send_frame(Opcode::Binary, &bytes, cx);
                }
                packet => upgrade.web_socket.send(packet, cx),
            }
        }
        cx.actions.close(Side::Main);
        cx.actions.close(Side::Post);
        true
    }

    /// Polls, unless the session ends or is being upgraded.
    fn poll(&mut self, cx: &mut TransportContext) {
        let goes_on = matches!(self.phase, PollingPhase::Opening | PollingPhase::Open);
        if !goes_on || self.is_probed() {
        } else if self.polls.is_idle() {
            self.polls.request(&self.sid, None, cx);
        } else {
            self.polls.open(cx);
        }
    }

    /// Sends what is to be sent, if the last payload was answered.
    fn flush(&mut self, cx: &mut TransportContext) {
        if self.outgoing.is_empty() || self.is_probed() {
        } else if self.posts.is_idle() {
            self.take_payload();
            self.posts.request(&self.sid, Some(&self.posted), cx);
        } else {
            self.posts.open(cx);
        }
    }

    /// Moves as many packets as a payload may have from `outgoing` to `posted`.
    fn take_payload(&mut self) {
        self.posted.clear();
        if self.outgoing.len() <= self.max_payload {
            return std::mem::swap(&mut self.outgoing, &mut self.posted);
        }
        let is_separator = |byte: &u8| *byte == SEPARATOR;
        let most = &self.outgoing[..=self.max_payload];
        let last = most.iter().rposition(is_separator);
        // A packet that is too large goes alone, for the server to refuse.
        let end = last.or_else(|| self.outgoing.iter().position(is_separator));
        let end = end.unwrap_or(self.outgoing.len());
        self.posted.extend(self.outgoing.drain(..end));
        if !self.outgoing.is_empty() {
            self.outgoing.remove(0);
        }
    }

    fn is_probed(&self) -> bool {
        let upgrade = self.upgrade.as_ref();
        upgrade.is_some_and(|upgrade| upgrade.is_probed)
    }

    fn closed<'a>(&mut self, how: Closed) -> Event<'a> {
        self.phase = PollingPhase::Closed;
        Event::Closed(how)
    }

    pub(super) fn ended(
        &mut self,
        side: Side,
        cx: &mut TransportContext,
    ) -> Option<Event<'static>> {
        let ended = match side {
            Side::Main => self.polls.ended(),
            Side::Post => self.posts.ended(),
            Side::Probe if self.upgrade.is_some() => Ended::Open,
            Side::Probe => Ended::Idle,
        };
        if self.phase == PollingPhase::Closed {
            return None;
        }
        match ended {
            Ended::Open => return Some(self.closed(Closed::End)),
            Ended::Unread if side == Side::Post => {
                if !self.outgoing.is_empty() {
                    self.posted.push(SEPARATOR);
                }
                let posted = std::mem::take(&mut self.posted);
                self.outgoing.splice(..0, posted);
            }
            Ended::Unread | Ended::Idle => {}
        }
        match side {
            Side::Main => self.poll(cx),
            _ => self.flush(cx),
        }
        None
    }
}
