//! The answer to a request.

use std::borrow::Cow;

use super::snapshot::Member;
use crate::protocol::ProtocolError;
use crate::protocol::json::Scanner;
use crate::protocol::packet::skip_arguments;

/// The answer to a request. A field that a server leaves out is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ack<'a> {
    /// True if the request was carried out.
    pub ok: bool,
    /// Heartbeat: true if the state changed, so that an update was published.
    pub changed: Option<bool>,
    /// Heartbeat: the epoch of the member.
    pub epoch: Option<u64>,
    /// Join: the sequence number of the last event of the room that the snapshot includes.
    pub seq: Option<u64>,
    /// Refused: the code of the reason.
    pub code: Option<Cow<'a, str>>,
    /// Refused: the reason.
    pub error: Option<Cow<'a, str>>,
    /// Join: the id of the own connection.
    pub self_conn_id: Option<Cow<'a, str>>,
    /// Join: the own epoch.
    pub self_epoch: Option<u64>,
    /// True if the server serves only what its own node knows.
    pub degraded: bool,
    /// Join: the JSON text of the snapshot.
    pub snapshot: Option<&'a str>,
}

impl<'a> Ack<'a> {
    /// Parses the data of an acknowledgement: an array with one object.
    ///
    /// # Errors
    /// It is not JSON, `ok` is missing, or a field has a wrong type.
    #[inline]
    pub fn parse(data: &'a str) -> Result<Self, ProtocolError> {
        let mut ack = Self::default();
        let mut has_ok = false;
        let mut scanner = Scanner::new(data);
        scanner.expect(b'[')?;
        scanner.object(|key, value| {
            has_ok |= key == "ok";
            ack.field(key, value)
        })?;
        skip_arguments(scanner)?;
        has_ok.then_some(ack).ok_or(ProtocolError::Json)
    }

    #[inline]
    fn field(&mut self, key: &str, value: &mut Scanner<'a>) -> Result<(), ProtocolError> {
        match key {
            "ok" => self.ok = value.boolean()?,
            "changed" => self.changed = Some(value.boolean()?),
            "epoch" => self.epoch = value.optional_integer()?,
            "seq" => self.seq = value.optional_integer()?,
            "code" => self.code = value.optional_string()?,
            "error" => self.error = value.optional_string()?,
            "degraded" => self.degraded = value.boolean()?,
            "self" => return self.scan_self(value),
            "snapshot" => {
                let is_array = value.peek() == b'[';
                let text = value.value()?;
                self.snapshot = is_array.then_some(text);
            }
            _ => {
                value.value()?;
            }
        }
        Ok(())
    }

    fn scan_self(&mut self, value: &mut Scanner<'a>) -> Result<(), ProtocolError> {
        value.object(|key, value| {
            match key {
                "connId" => self.self_conn_id = value.optional_string()?,
                "epoch" => self.self_epoch = value.optional_integer()?,
                _ => {
                    value.value()?;
                }
            }
            Ok(())
        })
    }

    /// Reads the members of the snapshot; none if there is no snapshot.
    ///
    /// # Errors
    /// It is not an array of members.
    pub fn members(&self) -> Result<Vec<Member<'a>>, ProtocolError> {
        let mut members = Vec::new();
        if let Some(snapshot) = self.snapshot {
            let member = |value: &mut Scanner<'a>| {
                members.push(Member::scan(value)?);
                Ok(())
            };
            Scanner::new(snapshot).array(member)?;
        }
        Ok(members)
    }
}
