//! The store that the nodes share: kinds of writes, its answers and messages, and the members in it.

use super::RemoteMembers;
use crate::presence::event::{Event, Kind, Reason, push};
use crate::presence::json::push_number;
use crate::presence::member::Member;

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
    /// The store's time in microseconds.
    pub(crate) time_us: u64,
    pub(crate) conn: &'a str,
    pub(crate) stored: &'a str,
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
    pub(super) fn from_member<S>(member: &'a Member<S>) -> Self {
        let shown = member.shown();
        Self {
            epoch: shown.epoch,
            user_json: shown.user_json,
            state: shown.state,
        }
    }

    pub(super) fn to_text(self) -> Box<str> {
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

    /// Returns an event about the member, without its number.
    pub(super) fn event(self, room_json: &'a str, conn: &'a str, kind: Kind, ts: u64) -> Event<'a> {
        Event {
            kind,
            room_json,
            user_json: self.user_json,
            conn,
            state: self.state,
            ts,
            epoch: self.epoch,
            seq: 0,
            is_degraded: false,
        }
    }
}
