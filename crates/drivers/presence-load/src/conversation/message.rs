//! A message of a server of Socket.IO, as far as any application's are alike.

use std::borrow::Cow;

use crate::protocol::ProtocolError;
use crate::protocol::packet::{PacketType, SocketPacket, split_event};

/// A message of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ServerMessage<'a> {
    /// The namespace is connected, with this object.
    Connected(&'a str),
    /// The namespace refused the connection, with this object.
    Refused(&'a str),
    /// The server ended the connection to the namespace.
    Disconnected,
    /// The acknowledgement with this number, and the array of its arguments.
    Ack(u64, &'a str),
    /// An event, and the array of its name and arguments.
    Event(Cow<'a, str>, &'a str),
    /// An event or acknowledgement whose attachments follow: for [`split_attachments`].
    Incomplete,
    /// A message of another namespace, or an event without a text as its name.
    Other,
}

/// Reads a message of the transport to a namespace; empty for the main one.
///
/// # Errors
/// A malformed packet.
#[inline]
pub(crate) fn read<'a>(text: &'a str, namespace: &str) -> Result<ServerMessage<'a>, ProtocolError> {
    let packet = SocketPacket::parse(text)?;
    if packet.namespace != if namespace.is_empty() { "/" } else { namespace } {
        return Ok(match packet.kind {
            // A server that does not know the namespace answers so.
            PacketType::ConnectError => ServerMessage::Refused(packet.data),
            _ => ServerMessage::Other,
        });
    }
    Ok(match (packet.kind, packet.id) {
        (PacketType::Event, _) => match split_event(packet.data)?.0 {
            Some(name) => ServerMessage::Event(name, packet.data),
            None => ServerMessage::Other,
        },
        (PacketType::Ack, Some(id)) => ServerMessage::Ack(id, packet.data),
        (PacketType::BinaryEvent | PacketType::BinaryAck, _) => ServerMessage::Incomplete,
        (PacketType::Connect, _) => ServerMessage::Connected(packet.data),
        (PacketType::ConnectError, _) => ServerMessage::Refused(packet.data),
        (PacketType::Disconnect, _) => ServerMessage::Disconnected,
        _ => ServerMessage::Other,
    })
}

/// Returns the message that one with attachments is behind the last of them, and their number; `None` if it has none. It is
/// read as a message without attachments, in which an object with `_placeholder` stands for each.
pub(crate) fn split_attachments(text: &str) -> Option<(String, u32)> {
    let (number, rest) = text.get(1..)?.split_once('-')?;
    let kind = if text.starts_with('5') { '2' } else { '3' };
    let number = number.parse().ok().filter(|number| *number > 0)?;
    Some((format!("{kind}{rest}"), number))
}

/// Returns the id in the object of a connection to a namespace.
pub(crate) fn socket_id(connected: &str) -> Option<Box<[u8]>> {
    let object: serde_json::Value = serde_json::from_str(connected).ok()?;
    Some(object.get("sid")?.as_str()?.as_bytes().into())
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
