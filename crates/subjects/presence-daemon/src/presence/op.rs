//! Writes to the store that the nodes share.

use std::sync::Arc;

use super::event::{Reason, push};
use super::json::push_number;
use super::member::Member;
use super::room::{Room, Slot};
use super::sink::Caller;

/// A write to the shared store.
#[derive(Debug)]
pub(crate) struct Op<S> {
    pub(crate) room: Arc<Room<S>>,
    pub(crate) write: Write,
    /// The connection id of the member; empty for writes about the room.
    pub(crate) conn: Box<str>,
    /// The member as it is stored: see [`Stored`].
    pub(crate) stored: Box<str>,
    pub(crate) slot: Slot,
    pub(crate) epoch: u64,
    /// The client that waits for the answer.
    pub(crate) caller: Option<Caller<S>>,
}

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// Stores a member, publishes `join`, and returns the members of the room.
    Join,
    /// Stores a member that is back, publishes `update` if its state changed, and returns the members of the room.
    Resume { is_changed: bool },
    /// Stores a changed state and publishes `update`.
    Update,
    /// Stores the time of a heartbeat.
    Touch,
    /// Removes a member and publishes `leave`.
    Leave(Reason),
    /// Stores a member after an interruption, and publishes what the others do not know of it.
    Restore,
    /// Raises the number of the last event to the given one at least, and returns the members of the room.
    Rejoin {
        floor: u64,
        /// True if the store has not lost anything meanwhile.
        is_intact: bool,
    },
    /// Reserves numbers for events that only the members of this node need.
    Correct { count: u64 },
}

impl Write {
    /// Returns true if the answer is a snapshot that may have no event.
    pub(crate) fn is_hold(self) -> bool {
        matches!(self, Self::Resume { .. } | Self::Rejoin { .. })
    }
}

impl<S> Op<S> {
    /// Creates a write about a member.
    pub(crate) fn about(
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
    pub(crate) fn about_room(room: &Arc<Room<S>>, write: Write) -> Self {
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

/// A member as it is stored: `EPOCH LENGTH USER STATE` without the last space, where the length is the length of the
/// user's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored<'a> {
    pub(crate) epoch: u64,
    pub(crate) user_json: &'a str,
    pub(crate) state: &'a str,
}

impl<'a> Stored<'a> {
    fn from_member<S>(member: &'a Member<S>) -> Self {
        Self {
            epoch: member.epoch,
            user_json: &member.user_json,
            state: member.state.as_str(),
        }
    }

    fn to_text(self) -> Box<str> {
        let mut text = Vec::with_capacity(32 + self.user_json.len() + self.state.len());
        push_number(self.epoch, &mut text);
        text.push(b' ');
        push_number(self.user_json.len() as u64, &mut text);
        text.push(b' ');
        push(&mut text, self.user_json);
        push(&mut text, self.state);
        String::from_utf8(text)
            .expect("it was made of texts")
            .into_boxed_str()
    }

    /// Parses what [`Stored::to_text`] returned.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (epoch, rest) = text.split_once(' ')?;
        let (length, rest) = rest.split_once(' ')?;
        let (user_json, state) = rest.split_at_checked(length.parse().ok()?)?;
        Some(Self {
            epoch: epoch.parse().ok()?,
            user_json,
            state,
        })
    }
}
