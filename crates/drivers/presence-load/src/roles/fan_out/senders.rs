//! The senders whose pushes the users of a worker receive: the users of their room, or all users of the run.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use measure::counters::Counter;

use super::names::SenderNames;
use crate::outcome::count;
use crate::roles::population::Part;
use crate::roles::user::User;

/// Time for which the intended start of a message is kept, nanoseconds. Pushes that take longer count as this long.
const KEPT_NS: u64 = 60_000_000_000;

/// The senders that a worker's users have. A user is counted within the worker, and a sender among all that are known.
pub(crate) trait Senders: Debug {
    /// Returns the sender that a user is.
    fn sender(&self, user: u32) -> u32;

    /// Returns the senders whose pushes a user receives.
    fn received_by(&self, receiver: u32) -> Range<u32>;

    /// Returns the users of the worker that receive the pushes of a sender.
    fn receivers(&self, sender: u32) -> Range<u32>;

    /// Finds the sender with this name among the senders of a receiver. Returns the index of the receiver among the
    /// sender's receivers, and the sender.
    fn find(&self, receiver: u32, name: &str) -> Option<(u32, u32)>;

    /// Returns the counter of pushes by somebody with this name, who is not among the senders of a receiver.
    fn stranger(&self, name: &str) -> Counter;

    /// Notes that a message is being sent.
    fn send(&mut self, sender: u32, number: u32, at: u64);

    /// Returns the number of a sender's last message.
    fn last(&self, sender: u32) -> u32;

    /// Returns the time since a message was due at `now`, or `None` if it was never sent.
    fn age(&self, sender: u32, number: u64, now: u64) -> Option<u64>;

    /// Returns the number of a sender's last message that was answered.
    fn answered(&self, sender: u32, users: &[User]) -> u32;

    /// Takes note of a message that was answered.
    fn answer(&mut self, _sender: u32, _number: u32) {}

    /// Tells the other workers that a message failed.
    fn excuse(&mut self, _sender: u32, _number: u32) {}

    /// Takes the messages that failed at the other workers.
    #[inline]
    fn take_excused(&mut self) -> Vec<(u32, u32)> {
        Vec::new()
    }

    /// Notes that the users of the worker send nothing more.
    fn end(&mut self) {}

    /// Returns true if no sender sends anything more, once the users of the worker do not.
    fn have_ended(&self) -> bool {
        true
    }
}

/// The intended starts of the last messages of a user.
#[derive(Debug, Clone, Default)]
pub(super) struct Sent {
    pub(super) last: u32,
    starts: VecDeque<u64>,
}

impl Sent {
    /// Notes a message that was due at `at`.
    pub(super) fn send(&mut self, number: u32, at: u64) {
        self.last = number;
        self.starts.push_back(at);
        while self.starts.len() > 1 && at.saturating_sub(self.starts[0]) > KEPT_NS {
            self.starts.pop_front();
        }
    }

    /// Returns the time since a message was due, or `None` if it was never sent.
    #[inline]
    pub(super) fn age(&self, number: u64, now: u64) -> Option<u64> {
        if number == 0 || number > u64::from(self.last) {
            return None;
        }
        let behind = (u64::from(self.last) - number) as usize;
        let index = self.starts.len().saturating_sub(behind + 1);
        let start = self.starts.get(index).copied().unwrap_or(now);
        Some(now.saturating_sub(start).max(1))
    }
}

/// The senders of users that receive the pushes of their room.
#[derive(Debug)]
pub(crate) struct RoomSenders {
    part: Part,
    sent: Vec<Sent>,
    /// The names of senders, if they are not their users'.
    pub(super) names: Option<Arc<SenderNames>>,
}

impl RoomSenders {
    /// Creates the senders of a worker's part; of none if pushes are not compared.
    pub(super) fn new(part: Part, is_audited: bool) -> Self {
        let users = if is_audited { part.users() } else { 0 };
        Self {
            part,
            sent: vec![Sent::default(); users as usize],
            names: None,
        }
    }

    /// Returns the users of a room.
    pub(super) fn room(&self, room: u32) -> Range<u32> {
        let size = self.part.population.users_per_room as u32;
        room * size..(room + 1) * size
    }

    /// Finds a sender by the name that it has announced.
    #[cold]
    fn find_named(&self, names: &SenderNames, receiver: u32, name: &str) -> Option<(u32, u32)> {
        let index = names.find(name)?;
        let slot = self.part.member_of(receiver);
        let first = self.part.index_of(receiver - slot);
        let member = u64::from(index).checked_sub(first)?;
        let is_member = member < self.part.population.users_per_room;
        is_member.then_some((slot, receiver - slot + member as u32))
    }
}

impl Senders for RoomSenders {
    fn sender(&self, user: u32) -> u32 {
        user
    }

    fn received_by(&self, receiver: u32) -> Range<u32> {
        self.room(self.part.room_of(receiver))
    }

    fn receivers(&self, sender: u32) -> Range<u32> {
        self.received_by(sender)
    }

    #[inline]
    fn find(&self, receiver: u32, name: &str) -> Option<(u32, u32)> {
        if let Some(names) = &self.names {
            return self.find_named(names, receiver, name);
        }
        let room = self.part.room_of(receiver);
        let member = self.part.member_named(room, name)?;
        let first = self.room(room).start;
        Some((receiver - first, first + member))
    }

    #[cold]
    fn stranger(&self, name: &str) -> Counter {
        let is_of_run = match &self.names {
            Some(names) => names.find(name).is_some(),
            None => self.part.population.user_named(name).is_some(),
        };
        if is_of_run {
            count::WRONG_ROOM
        } else {
            count::FOREIGN
        }
    }

    fn send(&mut self, sender: u32, number: u32, at: u64) {
        if let Some(sent) = self.sent.get_mut(sender as usize) {
            sent.send(number, at);
        }
    }

    fn last(&self, sender: u32) -> u32 {
        self.sent[sender as usize].last
    }

    #[inline]
    fn age(&self, sender: u32, number: u64, now: u64) -> Option<u64> {
        self.sent[sender as usize].age(number, now)
    }

    fn answered(&self, sender: u32, users: &[User]) -> u32 {
        users[sender as usize].sender.acked
    }
}
