//! A change in a room.

use std::borrow::Cow;

use super::stamp::Stamp;
use crate::protocol::ProtocolError;
use crate::protocol::json::Scanner;

/// The kind of a change in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// A member joined, or joined again.
    Join,
    /// A member left.
    Leave,
    /// The state of a member changed.
    Update,
}

/// A `presence:event`. A field that a server leaves out is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresenceEvent<'a> {
    /// The kind of the change.
    pub kind: EventType,
    /// The room.
    pub room_id: Cow<'a, str>,
    /// The user.
    pub user_id: Cow<'a, str>,
    /// The connection of the user.
    pub conn_id: Cow<'a, str>,
    /// The stamp in the state, if the state has one with two integers.
    pub stamp: Option<Stamp>,
    /// Number of letters that are added to the stamp, if there is nothing else in the state.
    pub padding: Option<u32>,
    /// The sequence number in the room.
    pub seq: Option<u64>,
    /// The epoch of the member.
    pub epoch: Option<u64>,
    /// The server's time: milliseconds since 1970.
    pub ts: Option<u64>,
    /// True if the server serves only what its own node knows.
    pub degraded: bool,
}

impl<'a> PresenceEvent<'a> {
    /// Parses the object of a `presence:event`.
    ///
    /// # Errors
    /// It is not JSON, a field of the reference protocol is missing, or a field has a wrong type.
    pub fn parse(json: &'a str) -> Result<Self, ProtocolError> {
        let mut scanner = Scanner::new(json);
        let event = Self::scan(&mut scanner)?;
        scanner.end()?;
        Ok(event)
    }

    /// Scans the object that comes next.
    #[inline]
    pub(super) fn scan(scanner: &mut Scanner<'a>) -> Result<Self, ProtocolError> {
        let (mut kind, mut room_id, mut user_id, mut conn_id) = (None, None, None, None);
        let (mut seq, mut epoch, mut ts) = (None, None, None);
        let (mut stamp, mut padding, mut degraded) = (None, None, false);
        scanner.object(|key, value| {
            match key {
                "type" => kind = Some(EventType::parse(&value.string()?)?),
                "roomId" => room_id = Some(value.string()?),
                "userId" => user_id = Some(value.string()?),
                "connId" => conn_id = Some(value.string()?),
                "state" => (stamp, padding) = Stamp::scan(value)?,
                "ts" => ts = value.optional_integer()?,
                "epoch" => epoch = value.optional_integer()?,
                "seq" => seq = value.optional_integer()?,
                "reason" => drop(value.optional_string()?),
                "degraded" => degraded = value.boolean()?,
                _ => {
                    value.value()?;
                }
            }
            Ok(())
        })?;
        Ok(Self {
            kind: kind.ok_or(ProtocolError::Json)?,
            room_id: room_id.ok_or(ProtocolError::Json)?,
            user_id: user_id.ok_or(ProtocolError::Json)?,
            conn_id: conn_id.ok_or(ProtocolError::Json)?,
            stamp,
            padding,
            seq,
            epoch,
            ts,
            degraded,
        })
    }
}

impl EventType {
    fn parse(name: &str) -> Result<Self, ProtocolError> {
        match name {
            "join" => Ok(Self::Join),
            "leave" => Ok(Self::Leave),
            "update" => Ok(Self::Update),
            _ => Err(ProtocolError::Json),
        }
    }
}
