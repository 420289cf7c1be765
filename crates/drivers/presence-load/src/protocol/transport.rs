//! The connection of one client: Engine.IO over WebSocket, over long-polling, or over long-polling with an upgrade. A
//! state machine without I/O.
//!
//! A client has up to three TCP connections, its [`Side`]s. The caller opens, reads, writes and closes them, and holds
//! one [`TransportContext`] for all of its transports:
//!
//! 1. It opens a TCP connection for [`Side::Main`], and calls [`Transport::connected`] once it is established.
//! 2. Before each read of a side it calls [`Transport::restore`], and reads behind the bytes that this put at the front
//!    of the shared buffer.
//! 3. It calls [`Transport::next`] until that returns `None`, then [`Transport::keep`] with the bytes that are left. At
//!    the end of the data it closes the side and calls [`Transport::ended`].
//! 4. It sends with [`Transport::send`].
//! 5. After each of these calls it performs the [`Actions`] of the context, and clears them.
//!
//! Only `Side::Main` is used with [`Kind::WebSocket`], and its actions are only output.

mod context;
mod event;
mod exchange;
mod polling;
mod side;
mod web_socket;

use std::rc::Rc;

use super::ProtocolError;
use super::websocket::Opcode;
use polling::Polling;
use web_socket::{Received, WebSocket};

pub use context::{Access, Actions, Endpoint, TransportContext};
pub use event::{Closed, Event};
pub use side::{Kind, Side};

/// Minimum number of bytes that a read has room for.
const ROOM: usize = 16 << 10;

/// The connection of one client.
#[derive(Debug)]
pub struct Transport {
    /// Bytes that the side of a WebSocket has kept.
    unread: Vec<u8>,
    state: TransportState,
    ignores_pings: bool,
}

/// The way on which a client reaches the server now.
#[derive(Debug)]
enum TransportState {
    WebSocket(WebSocket),
    Polling(Box<Polling>),
}

impl Transport {
    /// Creates a transport whose `Side::Main` is to be connected.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            unread: Vec::new(),
            state: match kind {
                Kind::WebSocket => TransportState::WebSocket(WebSocket::new(Side::Main)),
                Kind::Polling => TransportState::Polling(Box::new(Polling::new(false))),
                Kind::Upgrade => TransportState::Polling(Box::new(Polling::new(true))),
            },
            ignores_pings: false,
        }
    }

    /// Creates a WebSocket without Engine.IO and Socket.IO: its messages are passed on as they are.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            unread: Vec::new(),
            state: TransportState::WebSocket(WebSocket::plain()),
            ignores_pings: false,
        }
    }

    /// Reaches the server as this client does, instead of as the context says. It must be called before `Side::Main` is connected.
    pub fn set_endpoint(&mut self, endpoint: Endpoint) {
        let endpoint = Some(Rc::new(endpoint));
        match &mut self.state {
            TransportState::WebSocket(socket) => socket.set_endpoint(endpoint),
            TransportState::Polling(polling) => polling.set_endpoint(endpoint),
        }
    }

    /// Leaves the server's pings of Engine.IO unanswered from now on.
    pub fn ignore_pings(&mut self) {
        self.ignores_pings = true;
    }

    /// Begins the exchange on a side that is connected.
    pub fn connected(&mut self, side: Side, cx: &mut TransportContext) {
        match &mut self.state {
            TransportState::WebSocket(socket) if socket.side == side => socket.connected("", cx),
            TransportState::WebSocket(_) => {}
            TransportState::Polling(polling) => polling.connected(side, cx),
        }
    }

    /// Moves the bytes that a side has kept to the front of `buffer`, and returns their number. The buffer has room for
    /// at least 16 KiB behind them after that.
    #[inline]
    pub fn restore(&mut self, side: Side, buffer: &mut Box<[u8]>) -> usize {
        let mut none = Vec::new();
        let unread = self.unread(side).unwrap_or(&mut none);
        let length = unread.len();
        if buffer.len() < length + ROOM {
            *buffer = vec![0; 2 * (length + ROOM)].into();
        }
        if length == 0 {
            return 0;
        }
        buffer[..length].copy_from_slice(unread);
        // The memory is freed: few connections have a part of a message at a time.
        *unread = Vec::new();
        length
    }

    /// Returns the next event from the bytes of a side after the first `taken`, and adds to `taken` what it has read.
    /// Returns `None` if more bytes are needed.
    ///
    /// # Errors
    /// An error of the server, after which the client's connections must be closed.
    #[inline]
    pub fn next<'a>(
        &mut self,
        side: Side,
        input: &'a [u8],
        taken: &mut usize,
        cx: &mut TransportContext,
    ) -> Result<Option<Event<'a>>, ProtocolError> {
        let answers_pings = !self.ignores_pings;
        match &mut self.state {
            TransportState::WebSocket(socket) if socket.side == side => {
                match socket.next(input, taken, (false, answers_pings), cx)? {
                    Some(Received::Event(event)) => Ok(Some(event)),
                    None => Ok(None),
                    // An answer to a probe that was not sent.
                    Some(Received::Connected | Received::Probed) => Err(ProtocolError::Open),
                }
            }
            // The rest of a side that an upgrade has closed.
            TransportState::WebSocket(_) => {
                *taken = input.len();
                Ok(None)
            }
            TransportState::Polling(polling) => {
                let event = polling.next(side, input, taken, answers_pings, cx)?;
                if event == Some(Event::Upgraded) {
                    self.upgrade();
                }
                Ok(event)
            }
        }
    }

    /// Continues with the WebSocket of an upgrade.
    #[cold]
    fn upgrade(&mut self) {
        if let TransportState::Polling(polling) = &mut self.state
            && let Some(upgrade) = polling.take_upgrade()
        {
            self.unread = upgrade.unread;
            self.state = TransportState::WebSocket(upgrade.web_socket);
        }
    }

    /// Keeps the bytes that [`next`](Self::next) left, for the next read of the side.
    #[inline]
    pub fn keep(&mut self, side: Side, rest: &[u8]) {
        if !rest.is_empty()
            && let Some(unread) = self.unread(side)
        {
            unread.extend_from_slice(rest);
        }
    }

    fn unread(&mut self, side: Side) -> Option<&mut Vec<u8>> {
        match &mut self.state {
            TransportState::WebSocket(socket) => (socket.side == side).then_some(&mut self.unread),
            TransportState::Polling(polling) => polling.unread(side),
        }
    }

    /// Handles the end of the data of a side, which the caller has closed. Returns `Closed` if the session can't go on;
    /// a polling client may open the side again instead. After a close frame or packet it returns `None`.
    pub fn ended(&mut self, side: Side, cx: &mut TransportContext) -> Option<Event<'static>> {
        match &mut self.state {
            TransportState::WebSocket(socket) => {
                let is_lost = socket.side == side && socket.ended();
                is_lost.then_some(Event::Closed(Closed::End))
            }
            TransportState::Polling(polling) => polling.ended(side, cx),
        }
    }

    /// Sends a message: the Socket.IO packet that `write` appends, without its namespace. It must not be called before [`Event::Opened`].
    #[inline]
    pub fn send(&mut self, cx: &mut TransportContext, write: impl FnOnce(&mut Vec<u8>)) {
        let mut packet = std::mem::take(&mut cx.scratch);
        packet.clear();
        packet.push(b'4');
        write(&mut packet);
        let namespace = &cx.endpoint.access.namespace;
        if !namespace.is_empty() {
            // Behind the types of Engine.IO and Socket.IO.
            packet.splice(2..2, namespace.bytes().chain([b',']));
        }
        match &mut self.state {
            TransportState::WebSocket(socket) => socket.send(&packet, cx),
            TransportState::Polling(polling) => polling.send(&packet, cx),
        }
        cx.scratch = packet;
    }

    /// Sends an event with attachments: the packet that `write` appends, without its type, its number of attachments and its
    /// namespace.
    pub fn send_attached(
        &mut self,
        cx: &mut TransportContext,
        attachments: &[Box<[u8]>],
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut packet = format!("45{}-", attachments.len()).into_bytes();
        let namespace = &cx.endpoint.access.namespace;
        if !namespace.is_empty() {
            packet.extend(namespace.bytes().chain([b',']));
        }
        write(&mut packet);
        match &mut self.state {
            TransportState::WebSocket(socket) => {
                socket.send(&packet, cx);
                for bytes in attachments {
                    socket.send_frame(Opcode::Binary, bytes, cx);
                }
            }
            TransportState::Polling(polling) => {
                polling.send(&packet, cx);
                attachments
                    .iter()
                    .for_each(|bytes| polling.send_binary(bytes, cx));
            }
        }
    }

    /// Sends a message of a [`plain`](Self::plain) WebSocket: the bytes that `write` appends.
    pub fn send_plain(
        &mut self,
        cx: &mut TransportContext,
        is_binary: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut message = std::mem::take(&mut cx.scratch);
        message.clear();
        write(&mut message);
        if let TransportState::WebSocket(socket) = &mut self.state {
            let opcode = if is_binary {
                Opcode::Binary
            } else {
                Opcode::Text
            };
            socket.send_frame(opcode, &message, cx);
        }
        cx.scratch = message;
    }

    /// Closes the session in an orderly way: with a close frame on WebSocket, and with an Engine.IO `close` packet on
    /// polling. The caller closes the sides after [`Event::Closed`], or after a short time.
    pub fn close(&mut self, cx: &mut TransportContext) {
        match &mut self.state {
            TransportState::WebSocket(socket) => socket.close(cx),
            TransportState::Polling(polling) => polling.close(cx),
        }
    }
}
