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
    /// An event or acknowledgement, with the number of its attachments that follow: for [`read_complete`] behind the last one.
    Incomplete(&'a str, u32),
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
        (PacketType::Event, _) => event(packet.data)?,
        (PacketType::Ack, Some(id)) => ServerMessage::Ack(id, packet.data),
        (PacketType::BinaryEvent | PacketType::BinaryAck, _) => match attachments(text) {
            0 => read_complete(text, namespace)?,
            missing => ServerMessage::Incomplete(text, missing),
        },
        (PacketType::Connect, _) => ServerMessage::Connected(packet.data),
        (PacketType::ConnectError, _) => ServerMessage::Refused(packet.data),
        (PacketType::Disconnect, _) => ServerMessage::Disconnected,
        _ => ServerMessage::Other,
    })
}

/// Reads a message whose attachments have all come. Each is an object with `_placeholder` in the data.
///
/// # Errors
/// A malformed packet.
pub(crate) fn read_complete<'a>(
    text: &'a str,
    namespace: &str,
) -> Result<ServerMessage<'a>, ProtocolError> {
    let packet = SocketPacket::parse(text)?;
    match (packet.kind, packet.id) {
        (PacketType::BinaryEvent, _) => event(packet.data),
        (PacketType::BinaryAck, Some(id)) => Ok(ServerMessage::Ack(id, packet.data)),
        _ => read(text, namespace),
    }
}

#[inline]
fn event(data: &str) -> Result<ServerMessage<'_>, ProtocolError> {
    Ok(match split_event(data)?.0 {
        Some(name) => ServerMessage::Event(name, data),
        None => ServerMessage::Other,
    })
}

/// Returns the id in the object of a connection to a namespace.
pub(crate) fn socket_id(connected: &str) -> Option<Box<[u8]>> {
    let object: serde_json::Value = serde_json::from_str(connected).ok()?;
    Some(object.get("sid")?.as_str()?.as_bytes().into())
}

/// Returns the number of attachments of a packet that has a number of them.
fn attachments(text: &str) -> u32 {
    let number = text[1..].split_once('-').map(|(number, _)| number.parse());
    number.and_then(Result::ok).unwrap_or_default()
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
