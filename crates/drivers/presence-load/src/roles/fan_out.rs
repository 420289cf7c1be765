//! Finds every push of a conversation that was lost, duplicated, reordered or misdirected, by arithmetic.
//!
//! The messages of a user are numbered, and a push names its sender and the number. For each receiver and each sender of
//! its room there are three words: a [`Window`] of the numbers that arrived, and the number behind which the receiver must
//! get all. A message that was answered must reach each receiver; one that failed may.

mod room;

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

use measure::counters::{Counter, Counters};

use super::audit::{Arrival, Window};
use super::population::Part;
use super::user::User;
use crate::outcome::count;
use crate::settings::Receivers;

pub use room::ChatRoom;

/// The counters of pushes.
pub(super) const COUNTERS: [Counter; 7] = [
    count::EVENTS,
    count::LOST,
    count::DUPLICATED,
    count::REORDERED,
    count::WRONG_ROOM,
    count::WRONG_STATE,
    count::FOREIGN,
];
/// Time for which the intended start of a message is kept, nanoseconds. Pushes that take longer count as this long.
const KEPT_NS: u64 = 60_000_000_000;

/// The pushes to the users of one worker.
#[derive(Debug)]
pub(crate) struct FanOut {
    part: Part,
    /// The users that must receive a push; `None` if no rule says so.
    to: Option<Receivers>,
    /// For each receiver, one for each member of its room.
    pairs: Vec<Pair>,
    /// For each user, whether it has begun to take part.
    is_member: Vec<bool>,
    sent: Vec<Sent>,
    /// Sender and number of the messages that failed: their pushes may arrive, or not.
    excused: HashSet<(u32, u32)>,
    has_finished: bool,
    counts: Rc<Counters>,
}

/// A sender as one receiver sees it.
#[derive(Debug, Clone, Copy)]
struct Pair {
    window: Window,
    /// The last number before the receiver took part.
    base: u32,
}

/// The intended starts of the last messages of a user.
#[derive(Debug, Clone, Default)]
struct Sent {
    last: u32,
    starts: VecDeque<u64>,
}

impl FanOut {
    pub(crate) fn new(part: Part, to: Option<Receivers>, counts: &Rc<Counters>) -> Self {
        let users = to.map_or(0, |_| part.users() as usize);
        let pair = Pair {
            window: Window::after(0),
            base: 0,
        };
        Self {
            part,
            to,
            pairs: vec![pair; users * part.population.users_per_room as usize],
            is_member: vec![false; users],
            sent: vec![Sent::default(); users],
            excused: HashSet::new(),
            has_finished: false,
            counts: Rc::clone(counts),
        }
    }

    /// Returns the memory for a user in a room of this size, besides the starts of its messages.
    #[cfg(test)]
    pub(crate) const fn bytes_per_user(users_per_room: usize) -> usize {
        size_of::<bool>() + size_of::<Sent>() + users_per_room * size_of::<Pair>()
    }

    fn pair(&mut self, receiver: u32, member: u32) -> &mut Pair {
        let size = self.part.population.users_per_room as usize;
        &mut self.pairs[receiver as usize * size + member as usize]
    }

    /// Returns the users of a room.
    fn room(&self, room: u32) -> std::ops::Range<u32> {
        let size = self.part.population.users_per_room as u32;
        room * size..(room + 1) * size
    }

    /// Returns the users of a user's room.
    fn room_of(&self, user: u32) -> std::ops::Range<u32> {
        self.room(self.part.room_of(user))
    }

    /// Returns true if a receiver must get what a sender of its room sends.
    fn is_for(&self, receiver: u32, sender: u32) -> bool {
        match self.to {
            None => false,
            Some(Receivers::Room) => true,
            Some(Receivers::Others) => receiver != sender,
        }
    }

    /// Notes that a message is being sent.
    pub(crate) fn send(&mut self, sender: u32, number: u32, at: u64) {
        if let Some(sent) = self.sent.get_mut(sender as usize) {
            sent.last = number;
            sent.starts.push_back(at);
            while sent.starts.len() > 1 && at.saturating_sub(sent.starts[0]) > KEPT_NS {
                sent.starts.pop_front();
            }
        }
    }

    /// Notes that a user takes part: it must get all that is sent from here on.
    pub(crate) fn join(&mut self, receiver: u32) {
        if self.to.is_none() {
            return;
        }
        self.is_member[receiver as usize] = true;
        for (member, sender) in (0..).zip(self.room_of(receiver)) {
            let last = self.sent[sender as usize].last;
            *self.pair(receiver, member) = Pair {
                window: Window::after(last),
                base: last,
            };
        }
    }

    /// Notes that the connection of a user has ended: what is missing may have been under way.
    pub(crate) fn end(&mut self, receiver: u32) {
        if let Some(is_member) = self.is_member.get_mut(receiver as usize) {
            *is_member = false;
        }
    }

    /// Notes that a message failed: the server may have passed it on, or not.
    #[cold]
    pub(crate) fn excuse(&mut self, sender: u32, number: u32) {
        if self.to.is_none() {
            return;
        }
        self.excused.insert((sender, number));
        let member = self.part.member_of(sender);
        for receiver in self.room_of(sender) {
            let pair = self.pair(receiver, member);
            if number > pair.base && number < pair.window.last {
                pair.window.arrive(number);
            }
        }
    }

    /// Checks a push that `receiver` got at `now`. Returns the time since its message was due, if it is new.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        receiver: u32,
        name: &str,
        number: u64,
        now: u64,
    ) -> Option<u64> {
        if self.has_finished {
            return None;
        }
        let Some(member) = self.part.member_named(self.part.room_of(receiver), name) else {
            let is_of_run = self.part.population.has_user(name);
            self.counts.add(
                if is_of_run {
                    count::WRONG_ROOM
                } else {
                    count::FOREIGN
                },
                1,
            );
            return None;
        };
        let sender = self.room_of(receiver).start + member;
        let sent = &self.sent[sender as usize];
        if number == 0 || number > u64::from(sent.last) {
            self.counts.add(count::WRONG_STATE, 1);
            return None;
        }
        let number = number as u32;
        let age = sent.age(number, now);
        if !self.is_for(receiver, sender) {
            self.counts.add(count::WRONG_ROOM, 1);
            return None;
        }
        // What was sent before the receiver took part may arrive, or not.
        if !self.is_member[receiver as usize] || number <= self.pair(receiver, member).base {
            return Some(age);
        }
        if !self.excused.is_empty() {
            if self.excused.contains(&(sender, number)) {
                return Some(age);
            }
            self.skip_excused(receiver, member, (sender, number));
        }
        match self.pair(receiver, member).window.arrive(number) {
            Arrival::Later { lost: 0 } => {}
            Arrival::Later { lost } => self.counts.add(count::LOST, lost.into()),
            Arrival::Late => self.counts.add(count::REORDERED, 1),
            Arrival::Again => {
                self.counts.add(count::DUPLICATED, 1);
                return None;
            }
        }
        Some(age)
    }

    /// Counts the failed messages before a number as arrived.
    fn skip_excused(&mut self, receiver: u32, member: u32, (sender, number): (u32, u32)) {
        let last = self.pair(receiver, member).window.last;
        for skipped in last + 1..number {
            if self.excused.contains(&(sender, skipped)) {
                self.pair(receiver, member).window.arrive(skipped);
            }
        }
    }

    /// Returns the messages of a sender that were answered and that a receiver should still see.
    fn unseen(&self, receiver: u32, member: u32, (sender, user): (u32, &User)) -> u64 {
        let size = self.part.population.users_per_room as usize;
        let last = self.pairs[receiver as usize * size + member as usize]
            .window
            .last;
        let unseen = last + 1..=user.sender.acked;
        let unseen = unseen.filter(|number| !self.excused.contains(&(sender, *number)));
        unseen.count() as u64
    }

    fn is_counted(&self, receiver: u32, users: &[User]) -> bool {
        self.is_member[receiver as usize] && users[receiver as usize].can_send()
    }

    /// Returns true if the members of a room have received all that was answered.
    pub(crate) fn is_settled(&self, room: u32, users: &[User]) -> bool {
        self.to.is_none()
            || self.room(room).all(|receiver| {
                !self.is_counted(receiver, users)
                    || (0..).zip(self.room(room)).all(|(member, sender)| {
                        !self.is_for(receiver, sender)
                            || self.unseen(receiver, member, (sender, &users[sender as usize])) == 0
                    })
            })
    }

    /// Counts what is missing when a receiver leaves in an orderly way.
    pub(crate) fn leave(&mut self, receiver: u32) {
        if self.to.is_some() && self.is_member[receiver as usize] && !self.has_finished {
            let missing = (0..self.room_of(receiver).len() as u32)
                .map(|member| u64::from(self.pair(receiver, member).window.missing()));
            let missing: u64 = missing.sum();
            self.counts.add(count::LOST, missing);
        }
        self.end(receiver);
    }

    /// Counts what is missing at the end.
    pub(crate) fn finish(&mut self, users: &[User]) {
        for receiver in 0..self.is_member.len() as u32 {
            if !self.is_counted(receiver, users) {
                continue;
            }
            for (member, sender) in (0..).zip(self.room_of(receiver)) {
                if self.is_for(receiver, sender) {
                    let unseen = self.unseen(receiver, member, (sender, &users[sender as usize]));
                    let missing = self.pair(receiver, member).window.missing();
                    self.counts.add(count::LOST, unseen + u64::from(missing));
                }
            }
        }
        self.has_finished = true;
    }
}

impl Sent {
    /// Returns the time since a message was due.
    fn age(&self, number: u32, now: u64) -> u64 {
        let behind = (self.last - number) as usize;
        let index = self.starts.len().saturating_sub(behind + 1);
        now.saturating_sub(self.starts.get(index).copied().unwrap_or(now))
            .max(1)
    }
}
