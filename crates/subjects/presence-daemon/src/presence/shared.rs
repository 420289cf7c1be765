//! The part of a room that other nodes share.

use std::collections::{BTreeMap, HashMap};

use super::event::Kind;
use super::member::Shown;
use super::op::{Op, Stored};

/// The part of a room that other nodes share.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    /// True while the store can be reached, and this room was written to it.
    pub(crate) is_linked: bool,
    /// True once the number of the last event is known.
    pub(crate) is_synced: bool,
    /// Writes under way whose answer is a snapshot without an event: until it is there, events wait.
    pub(crate) holds: u32,
    /// Events that wait for earlier ones, by their numbers.
    pub(crate) waiting: BTreeMap<u64, SequencedEvent<S>>,
    /// The first event that waited when this was last checked.
    pub(crate) waited_for: Option<u64>,
    /// The members on other nodes.
    pub(crate) remote: RemoteMembers,
    /// After an interruption, the members on other nodes as they were announced to the clients of this node, until the
    /// differences were sent.
    pub(crate) announced: Option<RemoteMembers>,
}

/// Members on other nodes, by their connection ids.
pub(crate) type RemoteMembers = HashMap<Box<str>, RemoteMember>;

/// A member on another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteMember {
    /// The member as it is stored: see [`super::op::Stored`].
    pub(crate) stored: Box<str>,
    pub(crate) last_seen_ms: u64,
    /// Time at which it is removed, if its node does not write it again: the store lost it, or cannot be reached.
    pub(crate) ends_ms: Option<u64>,
}

impl RemoteMember {
    /// Returns the member as it stands in snapshots.
    pub(crate) fn shown<'a>(&'a self, conn: &'a str) -> Option<Shown<'a>> {
        let stored = Stored::parse(&self.stored)?;
        Some(Shown {
            conn,
            user_json: stored.user_json,
            state: stored.state,
            last_seen_ms: self.last_seen_ms,
            epoch: stored.epoch,
        })
    }
}

/// An event of a room, with its number and the number of the event before it.
#[derive(Debug)]
pub(crate) struct SequencedEvent<S> {
    pub(crate) previous: u64,
    pub(crate) seq: u64,
    /// `None` if the number was used for an event of another node's members alone.
    pub(crate) kind: Option<Kind>,
    pub(crate) ts: u64,
    pub(crate) conn: Box<str>,
    pub(crate) stored: Box<str>,
    /// The write of this node that it belongs to.
    pub(crate) own_write: Option<Completed<S>>,
}

/// A write that the store has carried out.
#[derive(Debug)]
pub(crate) struct Completed<S> {
    pub(crate) op: Op<S>,
    /// The members of the room, if the write returns them.
    pub(crate) snapshot: RemoteMembers,
}

impl<S> Default for Shared<S> {
    fn default() -> Self {
        Self {
            is_linked: true,
            is_synced: false,
            holds: 0,
            waiting: BTreeMap::new(),
            waited_for: None,
            remote: HashMap::new(),
            announced: None,
        }
    }
}
