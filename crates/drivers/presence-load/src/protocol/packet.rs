//! Engine.IO 4 and Socket.IO 5 packets, parsed in place.

use std::borrow::Cow;

use crate::protocol::ProtocolError;
use crate::protocol::json::Scanner;

/// An Engine.IO packet of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnginePacket<'a> {
    /// `0`: the handshake, for [`Open::parse`].
    Open(&'a str),
    /// `1`: the server closes the session.
    Close,
    /// `2`, with a payload such as `probe`, usually empty.
    Ping(&'a str),
    /// `3`, with a payload such as `probe`.
    Pong(&'a str),
    /// `4`: a message, for [`SocketPacket::parse`].
    Message(&'a str),
    /// `5`: the end of an upgrade.
    Upgrade,
    /// `6`: nothing, to answer a poll.
    Noop,
}

/// The content of an Engine.IO `open` packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open<'a> {
    /// The id of the session, which further requests name.
    pub sid: Cow<'a, str>,
    /// The interval of the server's pings in milliseconds.
    pub ping_interval_ms: u64,
    /// The time for an answer to a ping in milliseconds.
    pub ping_timeout_ms: u64,
    /// The maximum number of bytes of a payload that the server takes; 0 if it announces none.
    pub max_payload: u64,
    /// True if the session may be upgraded to WebSocket.
    pub can_upgrade: bool,
}

/// The type of a Socket.IO packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketType {
    /// `0`: the answer to a connection to a namespace.
    Connect,
    /// `1`: the end of the connection to a namespace.
    Disconnect,
    /// `2`: an event.
    Event,
    /// `3`: an acknowledgement.
    Ack,
    /// `4`: a connection to a namespace was refused.
    ConnectError,
    /// `5`: an event with attachments.
    BinaryEvent,
    /// `6`: an acknowledgement with attachments.
    BinaryAck,
}

/// A Socket.IO packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketPacket<'a> {
    /// The type.
    pub kind: PacketType,
    /// The namespace, `/` by default.
    pub namespace: &'a str,
    /// The id of the event that asks for an acknowledgement, or that is acknowledged.
    pub id: Option<u64>,
    /// The data: JSON, or empty. An event or acknowledgement has an array, which is not checked further here.
    pub data: &'a str,
}

impl<'a> EnginePacket<'a> {
    /// Parses a packet.
    ///
    /// # Errors
    /// An unknown type, or a payload where none is allowed.
    pub fn parse(text: &'a str) -> Result<Self, ProtocolError> {
        let wrong = ProtocolError::EnginePacket;
        let kind = *text.as_bytes().first().ok_or(wrong)?;
        let rest = text.get(1..).ok_or(wrong)?;
        match (kind, rest) {
            (b'4', _) => Ok(Self::Message(rest)),
            (b'2', _) => Ok(Self::Ping(rest)),
            (b'3', _) => Ok(Self::Pong(rest)),
            (b'0', _) => Ok(Self::Open(rest)),
            (b'1', "") => Ok(Self::Close),
            (b'5', "") => Ok(Self::Upgrade),
            (b'6', "") => Ok(Self::Noop),
            _ => Err(wrong),
        }
    }
}

impl<'a> Open<'a> {
    /// Parses the content of an `open` packet.
    ///
    /// # Errors
    /// It is not an object, or a required field is missing.
    pub fn parse(json: &'a str) -> Result<Self, ProtocolError> {
        Self::scan(json).map_err(|_| ProtocolError::Open)
    }

    /// Returns the longest time from one ping to the next, nanoseconds: a client that waits for longer has lost its server.
    pub(crate) fn longest_pause_ns(&self) -> u64 {
        let pause_ms = self.ping_interval_ms.saturating_add(self.ping_timeout_ms);
        pause_ms.saturating_mul(1_000_000)
    }

    fn scan(json: &'a str) -> Result<Self, ProtocolError> {
        let mut sid = None;
        let (mut interval, mut timeout, mut max_payload) = (None, None, None);
        let mut can_upgrade = false;
        let mut scanner = Scanner::new(json);
        scanner.object(|key, value| {
            match key {
                "sid" => sid = Some(value.string()?),
                "pingInterval" => interval = value.optional_integer()?,
                "pingTimeout" => timeout = value.optional_integer()?,
                "maxPayload" => max_payload = value.optional_integer()?,
                "upgrades" => value.array(|name| {
                    can_upgrade |= name.string()? == "websocket";
                    Ok(())
                })?,
                _ => {
                    value.value()?;
                }
            }
            Ok(())
        })?;
        scanner.end()?;
        Ok(Self {
            sid: sid.ok_or(ProtocolError::Open)?,
            ping_interval_ms: interval.ok_or(ProtocolError::Open)?,
            ping_timeout_ms: timeout.ok_or(ProtocolError::Open)?,
            max_payload: max_payload.unwrap_or_default(),
            can_upgrade,
        })
    }
}

impl<'a> SocketPacket<'a> {
    /// Parses a packet: a message of the transport.
    ///
    /// # Errors
    /// An unknown type, a number that is too large, an acknowledgement without an id, or binary data without its number
    /// of attachments.
    #[inline]
    pub fn parse(text: &'a str) -> Result<Self, ProtocolError> {
        let wrong = ProtocolError::SocketPacket;
        let kind = packet_type(text.as_bytes()).ok_or(wrong)?;
        let mut rest = text.get(1..).ok_or(wrong)?;
        let is_binary = matches!(kind, PacketType::BinaryEvent | PacketType::BinaryAck);
        if is_binary {
            let (number, behind) = split_number(rest)?;
            rest = behind.strip_prefix('-').ok_or(wrong)?;
            number
                .filter(|number| *number <= u32::MAX.into())
                .ok_or(wrong)?;
        }
        let mut namespace = "/";
        if rest.starts_with('/') {
            (namespace, rest) = rest.split_once(',').unwrap_or((rest, ""));
        }
        let (id, data) = split_number(rest)?;
        let is_ack = matches!(kind, PacketType::Ack | PacketType::BinaryAck);
        let has_array = is_ack || matches!(kind, PacketType::Event | PacketType::BinaryEvent);
        if (is_ack && id.is_none()) || (has_array && !data.starts_with('[')) {
            return Err(wrong);
        }
        Ok(Self {
            kind,
            namespace,
            id,
            data,
        })
    }
}

fn packet_type(bytes: &[u8]) -> Option<PacketType> {
    Some(match bytes.first()? {
        b'0' => PacketType::Connect,
        b'1' => PacketType::Disconnect,
        b'2' => PacketType::Event,
        b'3' => PacketType::Ack,
        b'4' => PacketType::ConnectError,
        b'5' => PacketType::BinaryEvent,
        b'6' => PacketType::BinaryAck,
        _ => return None,
    })
}

/// Splits a number from the front of a text; `None` if there is none.
#[inline]
fn split_number(text: &str) -> Result<(Option<u64>, &str), ProtocolError> {
    let mut value = 0_u64;
    let mut length = 0;
    for byte in text.bytes().take_while(u8::is_ascii_digit) {
        let tens = value.checked_mul(10);
        value = tens
            .and_then(|tens| tens.checked_add(u64::from(byte - b'0')))
            .ok_or(ProtocolError::SocketPacket)?;
        length += 1;
    }
    Ok(((length > 0).then_some(value), &text[length..]))
}

/// Returns the name of an event and a scanner of its arguments: each but the first has a comma before it, and a closing
/// bracket follows the last. A number as a name, which Socket.IO allows, is `None`.
///
/// # Errors
/// The data is not an array that begins with a string or a number.
#[inline]
pub fn split_event(data: &str) -> Result<(Option<Cow<'_, str>>, Scanner<'_>), ProtocolError> {
    let mut scanner = Scanner::new(data);
    scanner.expect(b'[')?;
    let name = match scanner.peek() {
        b'0'..=b'9' | b'-' => {
            scanner.value()?;
            None
        }
        _ => Some(scanner.string()?),
    };
    Ok((name, scanner))
}

/// Skips the arguments that are left, and checks that the array ends there.
///
/// # Errors
/// It is not JSON.
pub fn skip_arguments(mut scanner: Scanner<'_>) -> Result<(), ProtocolError> {
    while scanner.take(b',') {
        scanner.value()?;
    }
    scanner.expect(b']')?;
    scanner.end()
}

/// Writes a connection to the namespace: `0`. `auth` is a JSON object, or empty.
pub fn write_connect(out: &mut Vec<u8>, auth: &str) {
    out.push(b'0');
    out.extend_from_slice(auth.as_bytes());
}
