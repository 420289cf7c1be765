//! Events of a transport.

use std::borrow::Cow;

/// Something that a transport has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// The session is open: messages can be sent.
    Opened,
    /// A message: a Socket.IO packet, for [`Incoming::parse`](crate::protocol::presence::Incoming::parse).
    Message(Cow<'a, str>),
    /// A binary message: an attachment.
    Binary(Cow<'a, [u8]>),
    /// A ping of Engine.IO. It has been answered, unless [`Transport::ignore_pings`](super::Transport::ignore_pings) was called.
    Ping,
    /// The client uses WebSocket from now on.
    Upgraded,
    /// The server closed the session: nothing follows on any side.
    Closed(Closed),
}

/// The way in which a server closed a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// An Engine.IO `close` packet.
    Packet,
    /// A WebSocket close frame, with its code. It has been answered.
    Frame(Option<u16>),
    /// The end of the TCP connection.
    End,
    /// A request was answered with another status than 200, or a WebSocket handshake with another one than 101.
    Status(u16),
}
