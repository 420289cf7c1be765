//! What the store answers, and what it tells.

use super::RemoteMembers;
use crate::presence::event::Kind;

/// The store's answer to a write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// False if the store does not know the member.
    pub(crate) is_known: bool,
    /// The event that the write caused.
    pub(crate) kind: Option<Kind>,
    /// The number of the last event before.
    pub(crate) previous: u64,
    /// The number of the last event after.
    pub(crate) seq: u64,
    /// The members of the room, if the write returns them.
    pub(crate) snapshot: RemoteMembers,
}

/// An event of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) room: &'a str,
    pub(crate) previous: u64,
    pub(crate) seq: u64,
    /// `None` for numbers that were reserved.
    pub(crate) kind: Option<Kind>,
    pub(crate) ts: u64,
    pub(crate) conn: &'a str,
    pub(crate) stored: &'a str,
}
