//! The scripts that Redis runs: their arguments and answers.

use redis::{Cmd, Value};

use super::messages::{leave_kind, parse_kind};
use crate::presence::cluster::{Op, Outcome, RemoteMember, RemoteMembers, Write};

/// Carries out writes.
pub(crate) const WRITE: &str = concat!(include_str!("common.lua"), include_str!("write.lua"));
/// Extends the lease of a node, and removes the members of dead ones.
pub(crate) const RENEW_LEASE: &str =
    concat!(include_str!("common.lua"), include_str!("renew_lease.lua"));

/// An answer of Redis that this node does not understand.
#[derive(Debug, thiserror::Error)]
#[error("Redis gave an unknown answer: {0}")]
pub(crate) struct UnknownAnswer(String);

/// Returns the command that runs a script that Redis has loaded.
pub(crate) fn evaluate(digest: &str) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(digest).arg(0);
    command
}

/// Appends a write to the arguments.
pub(crate) fn push_write<S>(op: &Op<S>, command: &mut Cmd) {
    let (letter, room) = (letter(op.write), &*op.room.id);
    command.arg(letter).arg(room);
    match op.write {
        Write::Rejoin { floor, .. } => command.arg(floor),
        Write::Correct { count } => command.arg(count),
        Write::Leave(reason) => command.arg(&*op.conn).arg(leave_kind(reason)),
        Write::Update | Write::Touch | Write::Restore => command.arg(&*op.conn).arg(&*op.stored),
        Write::Join => command.arg(&*op.conn).arg(&*op.stored).arg("j-"),
        Write::Resume { is_changed } => {
            let kind = if is_changed { "u-" } else { "--" };
            command.arg(&*op.conn).arg(&*op.stored).arg(kind)
        }
    };
}

fn letter(write: Write) -> &'static str {
    match write {
        Write::Join | Write::Resume { .. } => "J",
        Write::Update => "U",
        Write::Touch => "T",
        Write::Leave(_) => "L",
        Write::Restore => "P",
        Write::Rejoin { .. } => "F",
        Write::Correct { .. } => "C",
    }
}

/// Splits the answer to a script into the time in microseconds and the answers to its writes.
pub(crate) fn parse_answers(answer: Value) -> Result<(u64, Vec<Value>), UnknownAnswer> {
    if let Value::Array(mut answers) = answer
        && let Some(Value::Int(now)) = answers.first()
    {
        let now = now.cast_unsigned();
        answers.remove(0);
        return Ok((now, answers));
    }
    Err(UnknownAnswer("the time is missing".to_owned()))
}

/// Parses the answer to a write.
pub(crate) fn parse_outcome(write: Write, answer: &Value) -> Result<Outcome, UnknownAnswer> {
    let unknown = || UnknownAnswer(format!("{answer:?}"));
    match answer {
        Value::Int(number) => Ok(simple_outcome(write, number.cast_unsigned())),
        Value::Array(parts) => {
            let [
                Value::Int(previous),
                Value::Int(seq),
                Value::BulkString(kind),
                rest @ ..,
            ] = &**parts
            else {
                return Err(unknown());
            };
            let kind = str::from_utf8(kind)
                .ok()
                .and_then(parse_kind)
                .ok_or_else(unknown)?;
            Ok(Outcome {
                is_known: true,
                kind,
                previous: previous.cast_unsigned(),
                seq: seq.cast_unsigned(),
                snapshot: rest.first().map(parse_snapshot).unwrap_or_default(),
            })
        }
        _ => Err(unknown()),
    }
}

/// Returns what a number alone means: 0 for an unknown member, otherwise the number of the event, if there is one.
fn simple_outcome(write: Write, seq: u64) -> Outcome {
    let kind = match write {
        Write::Update => Some(crate::presence::event::Kind::Update),
        Write::Leave(reason) => Some(crate::presence::event::Kind::Leave(reason)),
        _ => None,
    };
    let is_numbered = kind.is_some();
    Outcome {
        is_known: seq > 0,
        kind,
        previous: if is_numbered {
            seq.saturating_sub(1)
        } else {
            0
        },
        seq: if is_numbered { seq } else { 0 },
        snapshot: RemoteMembers::new(),
    }
}

/// Parses the members of a room: connection ids and `NODE LAST_SEEN MEMBER`, in turn.
fn parse_snapshot(list: &Value) -> RemoteMembers {
    let parts: Vec<&Value> = match list {
        Value::Array(parts) => parts.iter().collect(),
        Value::Map(pairs) => pairs
            .iter()
            .flat_map(|(conn, value)| [conn, value])
            .collect(),
        _ => Vec::new(),
    };
    let members = parts
        .chunks_exact(2)
        .filter_map(|pair| parse_member(pair[0], pair[1]));
    members.collect()
}

fn parse_member(conn: &Value, value: &Value) -> Option<(Box<str>, RemoteMember)> {
    let (Value::BulkString(conn), Value::BulkString(value)) = (conn, value) else {
        return None;
    };
    let (conn, value) = (str::from_utf8(conn).ok()?, str::from_utf8(value).ok()?);
    let (_node, value) = value.split_once(' ')?;
    let (last_seen, stored) = value.split_once(' ')?;
    let remote = RemoteMember {
        stored: stored.into(),
        last_seen_ms: last_seen.parse().ok()?,
        ends_ms: None,
    };
    Some((conn.into(), remote))
}
