//! The messages of the presence protocol: requests are written, answers and events are scanned for the fields that the
//! driver needs.

mod ack;
mod event;
mod request;
mod snapshot;
mod stamp;

use std::borrow::Cow;

use crate::protocol::ProtocolError;
use crate::protocol::json::Scanner;
use crate::protocol::packet::{PacketType, SocketPacket, skip_arguments, split_event};

pub use ack::Ack;
pub use event::{EventType, PresenceEvent};
pub use request::{JoinRequest, write_heartbeat, write_join, write_leave};
pub use snapshot::Member;
pub use stamp::Stamp;

/// A message of the server as the driver reads it.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming<'a> {
    /// `0{"sid"}`: the namespace is connected. The id is the `connId` of a later join.
    Connected(Cow<'a, str>),
    /// `4{"message"}`: the namespace refused the connection.
    Refused(&'a str),
    /// `1`: the server ended the connection to the namespace.
    Disconnected,
    /// `3<id>[…]`: the answer to a request.
    Ack(u64, Ack<'a>),
    /// `2["presence:event",…]`.
    Presence(PresenceEvent<'a>),
    /// Another event, another namespace, or one with attachments: it is counted, and ignored.
    Other,
}

impl<'a> Incoming<'a> {
    /// Parses a message of the transport to the main namespace.
    ///
    /// # Errors
    /// A malformed packet, or a field of a wrong type.
    pub fn parse(text: &'a str) -> Result<Self, ProtocolError> {
        Self::parse_in(text, "")
    }

    /// Parses a message of the transport to a namespace; empty for the main one.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    #[inline]
    pub fn parse_in(text: &'a str, namespace: &str) -> Result<Self, ProtocolError> {
        let packet = SocketPacket::parse(text)?;
        let is_its = match namespace {
            "" => packet.namespace == "/",
            namespace => packet.namespace == namespace,
        };
        if !is_its {
            return Ok(Self::Other);
        }
        match (packet.kind, packet.id) {
            (PacketType::Event, _) => Self::parse_event(packet.data),
            (PacketType::Ack, Some(id)) => Ok(Self::Ack(id, Ack::parse(packet.data)?)),
            (PacketType::Connect, _) => socket_id(packet.data).map(Self::Connected),
            (PacketType::ConnectError, _) => Ok(Self::Refused(packet.data)),
            (PacketType::Disconnect, _) => Ok(Self::Disconnected),
            _ => Ok(Self::Other),
        }
    }

    #[inline]
    fn parse_event(data: &'a str) -> Result<Self, ProtocolError> {
        let (name, mut arguments) = split_event(data)?;
        if name.as_deref() != Some("presence:event") {
            skip_arguments(arguments)?;
            return Ok(Self::Other);
        }
        arguments.expect(b',')?;
        let event = PresenceEvent::scan(&mut arguments)?;
        skip_arguments(arguments)?;
        Ok(Self::Presence(event))
    }
}

/// Returns the id in the answer to a connection.
fn socket_id(data: &str) -> Result<Cow<'_, str>, ProtocolError> {
    let mut id = None;
    let mut scanner = Scanner::new(data);
    scanner.object(|key, value| {
        match key {
            "sid" => id = Some(value.string()?),
            _ => {
                value.value()?;
            }
        }
        Ok(())
    })?;
    scanner.end()?;
    id.ok_or(ProtocolError::Json)
}
