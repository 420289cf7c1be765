//! The members of a room in the answer to a join.

use std::borrow::Cow;

use super::stamp::Stamp;
use crate::protocol::ProtocolError;
use crate::protocol::json::Scanner;

/// A member of a snapshot. A field that a server leaves out is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member<'a> {
    /// The connection.
    pub conn_id: Cow<'a, str>,
    /// The user.
    pub user_id: Cow<'a, str>,
    /// The stamp in the state, if the state has one with two integers.
    pub stamp: Option<Stamp>,
    /// Number of letters that are added to the stamp, if there is nothing else in the state.
    pub padding: Option<u32>,
    /// The server's time of the last heartbeat: milliseconds since 1970.
    pub last_seen_ms: Option<u64>,
    /// The epoch.
    pub epoch: Option<u64>,
}

impl<'a> Member<'a> {
    pub(super) fn scan(scanner: &mut Scanner<'a>) -> Result<Self, ProtocolError> {
        let (mut conn_id, mut user_id, mut stamp, mut padding) = (None, None, None, None);
        let (mut last_seen_ms, mut epoch) = (None, None);
        scanner.object(|key, value| {
            match key {
                "connId" => conn_id = Some(value.string()?),
                "userId" => user_id = Some(value.string()?),
                "state" => (stamp, padding) = Stamp::scan(value)?,
                "lastSeenMs" => last_seen_ms = value.optional_integer()?,
                "epoch" => epoch = value.optional_integer()?,
                _ => {
                    value.value()?;
                }
            }
            Ok(())
        })?;
        Ok(Self {
            conn_id: conn_id.ok_or(ProtocolError::Json)?,
            user_id: user_id.ok_or(ProtocolError::Json)?,
            stamp,
            padding,
            last_seen_ms,
            epoch,
        })
    }
}
