//! A message of a server of Socket.IO, as far as any application's are alike.

use std::borrow::Cow;

use serde_json::Value;

use super::attachment;
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

/// A message whose attachments have not all come.
#[derive(Debug)]
pub(crate) struct Incomplete {
    /// The message as it is read without attachments: an object with `_placeholder` stands for each.
    pub(crate) text: String,
    /// Number of attachments that have not come.
    pub(crate) missing: u32,
    /// The hashes of the others.
    hashes: Vec<u64>,
}

impl Incomplete {
    /// Returns `None` if the message has no attachments.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (number, rest) = text.get(1..)?.split_once('-')?;
        let kind = if text.starts_with('5') { '2' } else { '3' };
        Some(Self {
            text: format!("{kind}{rest}"),
            missing: number.parse().ok().filter(|number| *number > 0)?,
            hashes: Vec::new(),
        })
    }

    /// Takes an attachment. Returns true once all have come.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> bool {
        self.missing -= 1;
        self.hashes.push(attachment::hash(bytes));
        self.missing == 0
    }

    /// Returns the message. If bytes are compared, each placeholder has the hash of its attachment instead of its number.
    pub(crate) fn into_text(self, compares_bytes: bool) -> String {
        let parsed = self.text.find('[').filter(|_| compares_bytes);
        let parsed = parsed.and_then(|at| Some((at, serde_json::from_str(&self.text[at..]).ok()?)));
        let Some((at, mut arguments)) = parsed else {
            return self.text;
        };
        put_hashes(&mut arguments, &self.hashes);
        format!("{}{arguments}", &self.text[..at])
    }
}

fn put_hashes(value: &mut Value, hashes: &[u64]) {
    match value {
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| put_hashes(value, hashes)),
        Value::Object(fields) if fields.contains_key("_placeholder") => {
            let number = fields.get("num").and_then(Value::as_u64);
            if let Some(hash) = number.and_then(|number| hashes.get(number as usize)) {
                *value = attachment::placeholder(*hash);
            }
        }
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|value| put_hashes(value, hashes)),
        _ => {}
    }
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
