//! A message of a server of Socket.IO, as far as any application's are alike.

use std::borrow::Cow;

use crate::protocol::ProtocolError;
use crate::protocol::packet::{PacketType, SocketPacket, split_event};

/// A message of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Heard<'a> {
    /// The namespace is connected.
    Connected,
    /// The namespace refused the connection, with this object.
    Refused(&'a str),
    /// The server ended the connection to the namespace.
    Disconnected,
    /// The acknowledgement with this number, and the array of its arguments.
    Ack(u64, &'a str),
    /// An event, and the array of its name and arguments.
    Event(Cow<'a, str>, &'a str),
    /// A message of another namespace, or an event without a text as its name.
    Other,
}

/// Reads a message of the transport to a namespace; empty for the main one.
///
/// # Errors
/// A malformed packet.
#[inline]
pub(crate) fn read<'a>(text: &'a str, namespace: &str) -> Result<Heard<'a>, ProtocolError> {
    let packet = SocketPacket::parse(text)?;
    if packet.namespace != if namespace.is_empty() { "/" } else { namespace } {
        return Ok(match packet.kind {
            // A server that does not know the namespace answers so.
            PacketType::ConnectError => Heard::Refused(packet.data),
            _ => Heard::Other,
        });
    }
    Ok(match (packet.kind, packet.id) {
        (PacketType::Event | PacketType::BinaryEvent, _) => match split_event(packet.data)?.0 {
            Some(name) => Heard::Event(name, packet.data),
            None => Heard::Other,
        },
        (PacketType::Ack | PacketType::BinaryAck, Some(id)) => Heard::Ack(id, packet.data),
        (PacketType::Connect, _) => Heard::Connected,
        (PacketType::ConnectError, _) => Heard::Refused(packet.data),
        (PacketType::Disconnect, _) => Heard::Disconnected,
        _ => Heard::Other,
    })
}

/// Returns the array of an event without its name.
pub(super) fn arguments(event: &str) -> Cow<'_, str> {
    match split_event(event) {
        Ok((_, arguments)) => {
            let rest = arguments.rest().trim_start();
            format!("[{}", rest.strip_prefix(',').unwrap_or(rest)).into()
        }
        Err(_) => event.into(),
    }
}
