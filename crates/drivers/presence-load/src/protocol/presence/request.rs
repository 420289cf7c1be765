//! The requests. Each function writes a Socket.IO packet such as `27["presence:leave",null]`, for
//! [`Transport::send`](crate::protocol::transport::Transport::send).

use super::stamp::Stamp;
use crate::protocol::json::append;

/// The content of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JoinRequest<'a> {
    /// The room.
    pub room_id: &'a str,
    /// The user.
    pub user_id: &'a str,
    /// The state: the stamp, or none.
    pub stamp: Option<Stamp>,
    /// Number of letters that are added to the state.
    pub padding: usize,
}

/// Writes a join whose acknowledgement has `id`.
pub fn write_join(out: &mut Vec<u8>, id: u64, join: &JoinRequest<'_>) {
    begin(out, id, "join");
    out.extend_from_slice(b"{\"roomId\":");
    append(out, join.room_id);
    out.extend_from_slice(b",\"userId\":");
    append(out, join.user_id);
    if let Some(stamp) = join.stamp {
        out.extend_from_slice(b",\"state\":");
        append_state(out, stamp, join.padding);
    }
    out.extend_from_slice(b"}]");
}

/// Writes a heartbeat whose acknowledgement has `id`: with `patchState` if there is a stamp, with `epoch` if there is
/// one, and with `null` if there is neither. `padding` letters are added to the state as `"p":"xxx"`.
#[inline]
pub fn write_heartbeat(
    out: &mut Vec<u8>,
    id: u64,
    stamp: Option<Stamp>,
    epoch: Option<u64>,
    padding: usize,
) {
    begin(out, id, "heartbeat");
    let mut separator = b'{';
    if let Some(stamp) = stamp {
        out.extend_from_slice(b"{\"patchState\":");
        append_state(out, stamp, padding);
        separator = b',';
    }
    if let Some(epoch) = epoch {
        out.push(separator);
        out.extend_from_slice(b"\"epoch\":");
        append(out, &epoch);
    }
    let end: &[u8] = match (stamp, epoch) {
        (None, None) => b"null]",
        _ => b"}]",
    };
    out.extend_from_slice(end);
}

/// Writes a leave whose acknowledgement has `id`.
pub fn write_leave(out: &mut Vec<u8>, id: u64) {
    begin(out, id, "leave");
    out.extend_from_slice(b"null]");
}

/// Writes an event up to its argument.
#[inline]
fn begin(out: &mut Vec<u8>, id: u64, name: &str) {
    out.push(b'2');
    append(out, &id);
    out.extend_from_slice(b"[\"presence:");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\",");
}

#[inline]
fn append_state(out: &mut Vec<u8>, stamp: Stamp, padding: usize) {
    out.extend_from_slice(b"{\"n\":");
    append(out, &stamp.n);
    out.extend_from_slice(b",\"t\":");
    append(out, &stamp.t);
    if padding > 0 {
        out.extend_from_slice(b",\"p\":\"");
        out.resize(out.len() + padding, b'x');
        out.push(b'"');
    }
    out.push(b'}');
}
