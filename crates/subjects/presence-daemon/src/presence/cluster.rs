//! The other nodes, as this one sees them: writes that they must see, and their events in the order of their numbers.
//!
//! A service without other nodes uses nothing of this.

mod events;
mod interruption;
mod store;
mod write_queue;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use slab::Slab;

use self::store::Stored;
pub(crate) use self::store::{Outcome, Record, Write};
pub(crate) use self::write_queue::WriteQueue;
use super::event::Kind;
use super::member::{Member, Shown};
use super::room::{Inner, Room, Slot};
use super::service::Presence;
use super::sink::{Caller, Sink};

/// The other nodes, for a service that shares its rooms with them.
#[derive(Debug)]
pub(crate) struct Cluster<'a, S> {
    presence: &'a Presence<S>,
    queue: &'a WriteQueue<S>,
}

impl<'a, S: Sink> Cluster<'a, S> {
    pub(crate) fn new(presence: &'a Presence<S>, queue: &'a WriteQueue<S>) -> Self {
        Self { presence, queue }
    }

    /// Returns the queue of the writes that the store has not seen.
    pub(crate) fn queue(&self) -> &'a WriteQueue<S> {
        self.queue
    }

    /// Queues a write about a member of this node. Returns false if the store cannot be reached: then the room must
    /// work locally.
    pub(crate) fn share_member(
        &self,
        room: &Arc<Room<S>>,
        inner: &mut Inner<S>,
        write: Write,
        key: usize,
        caller: Option<&Caller<S>>,
    ) -> bool {
        let member = &mut inner.members[key];
        let is_shared = self.share(inner.shared.as_mut(), || {
            Op::about(room, write, key, member, caller.cloned())
        });
        member.is_shared |= is_shared;
        is_shared
    }

    fn share(&self, shared: Option<&mut Box<Shared<S>>>, op: impl FnOnce() -> Op<S>) -> bool {
        let Some(shared) = shared.filter(|shared| shared.is_linked) else {
            return false;
        };
        let op = op();
        let is_hold = op.write.is_hold();
        // If the queue is closed, the interruption will reach this room too; until then it is local already.
        shared.is_linked = self.queue.push([op]).is_ok();
        shared.holds += u32::from(is_hold && shared.is_linked);
        shared.is_linked
    }
}

/// The part of a room that other nodes share.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    /// True while the store can be reached, and this room was written to it.
    is_linked: bool,
    /// True once the number of the last event is known.
    is_synced: bool,
    /// Writes under way whose answer is a snapshot without an event: until it is there, events wait.
    holds: u32,
    /// Events that wait for earlier ones, by their numbers.
    waiting: BTreeMap<u64, SequencedEvent<S>>,
    /// The first event that waited when this was last checked, and the last one that did not.
    waited_for: Option<(u64, u64)>,
    /// The members on other nodes.
    remote: RemoteMembers,
    /// After an interruption, the members on other nodes as they were announced to the clients of this node, until the
    /// differences were sent.
    announced: Option<RemoteMembers>,
}

/// Members on other nodes, by their connection ids.
pub(crate) type RemoteMembers = HashMap<Box<str>, RemoteMember>;

/// A member on another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteMember {
    /// The member as it is stored: see [`Stored`].
    pub(crate) stored: Box<str>,
    pub(crate) last_seen_ms: u64,
    /// Time at which it is removed, if its node does not write it again: the store lost it, or cannot be reached.
    pub(crate) ends_ms: Option<u64>,
}

impl RemoteMember {
    /// Returns the member as it stands in snapshots.
    fn shown<'a>(&'a self, conn: &'a str) -> Option<Shown<'a>> {
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
struct SequencedEvent<S> {
    previous: u64,
    seq: u64,
    /// `None` if the number was used for an event of another node's members alone.
    kind: Option<Kind>,
    /// The store's time in microseconds.
    time_us: u64,
    conn: Box<str>,
    stored: Box<str>,
    /// The write of this node that it belongs to.
    own_write: Option<Completed<S>>,
}

/// A write that the store has carried out.
#[derive(Debug)]
struct Completed<S> {
    op: Op<S>,
    /// The members of the room, if the write returns them.
    snapshot: RemoteMembers,
}

impl<S> Shared<S> {
    /// Returns true while the store can be reached.
    pub(crate) fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// Returns the number of members on other nodes.
    pub(crate) fn member_count(&self) -> usize {
        self.remote.len()
    }

    /// Appends the members on other nodes, each with a comma after it.
    pub(crate) fn write_members(&self, out: &mut Vec<u8>) {
        write_members(&self.remote, out);
    }
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

/// A write to the shared store.
#[derive(Debug)]
pub(crate) struct Op<S> {
    pub(crate) room: Arc<Room<S>>,
    pub(crate) write: Write,
    /// The connection id of the member; empty for writes about the room.
    pub(crate) conn: Box<str>,
    /// The member as it is stored: see [`Stored`].
    pub(crate) stored: Box<str>,
    slot: Slot,
    epoch: u64,
    /// The client that waits for the answer.
    caller: Option<Caller<S>>,
}

impl<S> Op<S> {
    /// Creates a write about a member.
    fn about(
        room: &Arc<Room<S>>,
        write: Write,
        key: usize,
        member: &Member<S>,
        caller: Option<Caller<S>>,
    ) -> Self {
        Self {
            room: Arc::clone(room),
            write,
            conn: member.conn.clone(),
            stored: Stored::from_member(member).to_text(),
            slot: Slot {
                key,
                generation: member.generation,
            },
            epoch: member.epoch,
            caller,
        }
    }

    /// Creates a write about a room.
    fn about_room(room: &Arc<Room<S>>, write: Write) -> Self {
        Self {
            room: Arc::clone(room),
            write,
            conn: Box::default(),
            stored: Box::default(),
            slot: Slot::default(),
            epoch: 0,
            caller: None,
        }
    }
}

/// Appends members, each with a comma after it.
fn write_members(members: &RemoteMembers, out: &mut Vec<u8>) {
    for (conn, remote) in members {
        if let Some(shown) = remote.shown(conn) {
            shown.write(out);
            out.push(b',');
        }
    }
}

/// Returns the members of a snapshot that are not on this node.
fn remote_members<S>(snapshot: &RemoteMembers, members: &Slab<Member<S>>) -> RemoteMembers {
    let mut remote = snapshot.clone();
    for (_, member) in members {
        remote.remove(&member.conn);
    }
    remote
}
