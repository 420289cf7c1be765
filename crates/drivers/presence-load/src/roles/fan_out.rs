//! Finds every push of a conversation that was lost, duplicated, reordered or misdirected, by arithmetic.
//!
//! The messages of a user are numbered, and a push names its sender and the number. For each receiver and each of its
//! senders there is a byte, which says what has arrived ([`Arrivals`]). Its senders are the users of its room, or all of
//! the run. A message that was answered must reach each receiver; one that failed may.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

mod arrivals;
mod everybody;
mod names;
mod room;
mod senders;

use measure::counters::{Counter, Counters};

use super::audit::Arrival;
use super::population::Part;
use super::user::User;
use crate::outcome::count;
use crate::settings::Receivers;

use arrivals::Arrivals;
use everybody::AllSenders;
pub(crate) use everybody::Everybody;
pub(crate) use names::SenderNames;
pub use room::ChatRoom;
use senders::{RoomSenders, Senders};

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

/// The pushes to the users of one worker.
#[derive(Debug)]
pub(crate) enum Pushes {
    /// Users receive pushes of their room, or of nobody.
    OfRoom(FanOut),
    /// Users receive pushes of all users.
    OfAll(PushAudit<AllSenders>),
}

/// The pushes to the users of one worker by users of their room.
pub(crate) type FanOut = PushAudit<RoomSenders>;

/// The pushes to the users of one worker, and their senders.
#[derive(Debug)]
pub(crate) struct PushAudit<S> {
    part: Part,
    /// The users that must receive a push; `None` if no rule says so.
    to: Option<Receivers>,
    senders: S,
    arrivals: Arrivals,
    /// For each user, whether it has begun to take part.
    is_member: Vec<bool>,
    /// The last number of each sender before a receiver took part, if any had sent.
    sent_before: HashMap<u32, Box<[u32]>>,
    /// Sender and number of the messages that failed: their pushes may arrive, or not.
    excused: HashSet<(u32, u32)>,
    has_finished: bool,
    counts: Rc<Counters>,
}

impl FanOut {
    pub(crate) fn new(part: Part, to: Option<Receivers>, counts: &Rc<Counters>) -> Self {
        let senders = RoomSenders::new(part, to.is_some());
        Self::with_senders(part, to, (senders, part.users()), counts)
    }

    /// Returns the memory for a user in a room of this size, besides the starts of its messages.
    #[cfg(test)]
    pub(crate) const fn bytes_per_user(users_per_room: usize) -> usize {
        let own = size_of::<bool>() + size_of::<senders::Sent>() + size_of::<u32>();
        own + users_per_room * size_of::<u8>()
    }
}

impl Pushes {
    /// Creates the audit of a worker's part. `everybody` are the senders that all users have, and `names` their names, if
    /// they are not their users'.
    pub(crate) fn new(
        part: Part,
        to: Option<Receivers>,
        (everybody, names): (Option<&Arc<Everybody>>, Option<&Arc<SenderNames>>),
        counts: &Rc<Counters>,
    ) -> Self {
        let names = names.cloned();
        match everybody {
            None => {
                let mut of_room = FanOut::new(part, to, counts);
                of_room.senders.names = names;
                Self::OfRoom(of_room)
            }
            Some(everybody) => {
                let senders = AllSenders::new(part, Arc::clone(everybody), names);
                let count = part.population.users();
                Self::OfAll(PushAudit::with_senders(part, to, (senders, count), counts))
            }
        }
    }
}

/// Calls the same method of whichever audit there is.
macro_rules! forward {
    ($($(#[$doc:meta])* fn $name:ident(&mut self $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?;)*) => {
        impl Pushes {
            $($(#[$doc])*
            #[inline]
            pub(crate) fn $name(&mut self $(, $argument: $kind)*) $(-> $result)? {
                match self {
                    Self::OfRoom(pushes) => pushes.$name($($argument),*),
                    Self::OfAll(pushes) => pushes.$name($($argument),*),
                }
            })*
        }
    };
}

forward! {
    /// Notes that a message is being sent.
    fn send(&mut self, user: u32, number: u32, at: u64);
    /// Notes that a message was answered.
    fn answer(&mut self, user: u32, number: u32);
    /// Notes that a message failed: the server may have passed it on, or not.
    fn excuse(&mut self, user: u32, number: u32);
    /// Notes that a user takes part: it must get all that is sent from here on.
    fn join(&mut self, receiver: u32);
    /// Notes that the connection of a user has ended: what is missing may have been under way.
    fn end(&mut self, receiver: u32);
    /// Counts what is missing when a receiver leaves in an orderly way.
    fn leave(&mut self, receiver: u32);
    /// Checks a push that `receiver` got at `now`. Returns the time since its message was due, if it is new.
    fn receive(&mut self, receiver: u32, name: &str, number: u64, now: u64) -> Option<u64>;
    /// Notes that the users of the worker send nothing more.
    fn end_sending(&mut self);
    /// Returns true if the members of a room have received all that was answered.
    fn is_settled(&mut self, room: u32, users: &[User]) -> bool;
    /// Counts what is missing at the end.
    fn finish(&mut self, users: &[User]);
}

impl<S: Senders> PushAudit<S> {
    fn with_senders(
        part: Part,
        to: Option<Receivers>,
        (senders, count): (S, u64),
        counts: &Rc<Counters>,
    ) -> Self {
        let users = to.map_or(0, |_| part.users() as usize);
        let count = to.map_or(0, |_| count as usize);
        let width = senders.receivers(0).len();
        Self {
            part,
            to,
            senders,
            arrivals: Arrivals::new(count, width),
            is_member: vec![false; users],
            sent_before: HashMap::new(),
            excused: HashSet::new(),
            has_finished: false,
            counts: Rc::clone(counts),
        }
    }

    /// Returns the senders that a receiver must hear, each with the index of the pair.
    fn pairs_of(&self, receiver: u32) -> impl Iterator<Item = (usize, u32)> {
        let senders = self.senders.received_by(receiver);
        let slot = receiver - self.senders.receivers(senders.start).start;
        let senders = senders.filter(move |sender| self.is_for(receiver, *sender));
        senders.map(move |sender| (self.arrivals.pair(sender, slot), sender))
    }

    /// Returns true if a receiver must get what one of its senders sends.
    fn is_for(&self, receiver: u32, sender: u32) -> bool {
        match self.to {
            None => false,
            Some(Receivers::Room | Receivers::Everybody) => true,
            Some(Receivers::Others | Receivers::EverybodyElse) => {
                self.senders.sender(receiver) != sender
            }
        }
    }

    /// See [`Pushes::send`].
    pub(crate) fn send(&mut self, user: u32, number: u32, at: u64) {
        if self.to.is_some() {
            self.senders.send(self.senders.sender(user), number, at);
        }
    }

    fn answer(&mut self, user: u32, number: u32) {
        self.senders.answer(self.senders.sender(user), number);
    }

    /// See [`Pushes::join`].
    pub(crate) fn join(&mut self, receiver: u32) {
        if self.to.is_none() {
            return;
        }
        self.is_member[receiver as usize] = true;
        let senders = self.senders.received_by(receiver);
        let first = senders.start;
        let before: Box<[u32]> = senders.map(|sender| self.senders.last(sender)).collect();
        let pairs: Vec<_> = self.pairs_of(receiver).collect();
        for (pair, sender) in pairs {
            self.arrivals.begin(pair, before[(sender - first) as usize]);
        }
        if before.iter().any(|last| *last > 0) {
            self.sent_before.insert(receiver, before);
        }
    }

    fn end(&mut self, receiver: u32) {
        let Some(is_member) = self.is_member.get_mut(receiver as usize) else {
            return;
        };
        if std::mem::replace(is_member, false) {
            let pairs: Vec<_> = self.pairs_of(receiver).collect();
            for (pair, _) in pairs {
                self.arrivals.end(pair);
            }
        }
    }

    #[cold]
    fn excuse(&mut self, user: u32, number: u32) {
        if self.to.is_some() {
            let sender = self.senders.sender(user);
            self.senders.excuse(sender, number);
            self.note_excused(sender, number);
        }
    }

    fn note_excused(&mut self, sender: u32, number: u32) {
        self.excused.insert((sender, number));
        for slot in 0..self.senders.receivers(sender).len() as u32 {
            let pair = self.arrivals.pair(sender, slot);
            if number < self.arrivals.window(pair).last {
                self.arrivals.arrive(pair, number);
            }
        }
    }

    /// Takes over what failed at other workers.
    fn take_excused(&mut self) {
        for (sender, number) in self.senders.take_excused() {
            self.note_excused(sender, number);
        }
    }

    /// See [`Pushes::receive`].
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
        let Some((slot, sender)) = self.senders.find(receiver, name) else {
            self.counts.add(self.senders.stranger(name), 1);
            return None;
        };
        let Some(age) = self.senders.age(sender, number, now) else {
            self.counts.add(count::WRONG_STATE, 1);
            return None;
        };
        let number = number as u32;
        let pair = self.arrivals.pair(sender, slot);
        self.take_excused();
        let is_expected =
            self.excused.is_empty() && self.arrivals.arrive_next(sender, pair, number);
        let is_new = is_expected || self.arrive(receiver, (sender, number), pair);
        is_new.then_some(age)
    }

    /// Counts what is wrong with a push that may not be the next one of its sender. Returns true if it is new.
    fn arrive(&mut self, receiver: u32, (sender, number): (u32, u32), pair: usize) -> bool {
        if !self.is_for(receiver, sender) {
            self.counts.add(count::WRONG_ROOM, 1);
            return false;
        }
        if !self.is_member[receiver as usize] || self.excused.contains(&(sender, number)) {
            return true;
        }
        self.skip_excused(pair, sender, number);
        match self.arrivals.arrive(pair, number) {
            Arrival::Later { lost: 0 } => {}
            Arrival::Later { lost } => self.counts.add(count::LOST, lost.into()),
            Arrival::Late => self.counts.add(count::REORDERED, 1),
            // What was sent before the receiver took part may arrive, or not.
            Arrival::Again if self.is_before(receiver, sender, number) => {}
            Arrival::Again => {
                self.counts.add(count::DUPLICATED, 1);
                return false;
            }
        }
        true
    }

    /// Returns true if a message was sent before a receiver took part.
    fn is_before(&self, receiver: u32, sender: u32, number: u32) -> bool {
        let first = self.senders.received_by(receiver).start;
        let before = self.sent_before.get(&receiver);
        before.is_some_and(|before| number <= before[(sender - first) as usize])
    }

    /// Counts the failed messages before a number as arrived.
    fn skip_excused(&mut self, pair: usize, sender: u32, number: u32) {
        if self.excused.is_empty() {
            return;
        }
        for skipped in self.arrivals.window(pair).last + 1..number {
            if self.excused.contains(&(sender, skipped)) {
                self.arrivals.arrive(pair, skipped);
            }
        }
    }

    /// Returns the messages of a sender that were answered and that the receiver of a pair should still see.
    fn unseen(&self, pair: usize, sender: u32, users: &[User]) -> u64 {
        let last = self.arrivals.window(pair).last;
        let unseen = last + 1..=self.senders.answered(sender, users);
        let unseen = unseen.filter(|number| !self.excused.contains(&(sender, *number)));
        unseen.count() as u64
    }

    fn is_counted(&self, receiver: u32, users: &[User]) -> bool {
        self.is_member[receiver as usize] && users[receiver as usize].can_send()
    }

    fn end_sending(&mut self) {
        self.senders.end();
    }

    fn is_settled(&mut self, room: u32, users: &[User]) -> bool {
        if self.to.is_none() {
            return true;
        }
        if !self.senders.have_ended() {
            return false;
        }
        self.take_excused();
        let size = self.part.population.users_per_room as u32;
        (room * size..(room + 1) * size).all(|receiver| {
            !self.is_counted(receiver, users)
                || self
                    .pairs_of(receiver)
                    .all(|(pair, sender)| self.unseen(pair, sender, users) == 0)
        })
    }

    fn leave(&mut self, receiver: u32) {
        self.take_excused();
        if self.to.is_some() && self.is_member[receiver as usize] && !self.has_finished {
            let missing = self.pairs_of(receiver).map(|(pair, _)| {
                let missing = self.arrivals.window(pair).missing();
                u64::from(missing)
            });
            let missing: u64 = missing.sum();
            self.counts.add(count::LOST, missing);
        }
        self.end(receiver);
    }

    fn finish(&mut self, users: &[User]) {
        self.take_excused();
        for receiver in 0..self.is_member.len() as u32 {
            if !self.is_counted(receiver, users) {
                continue;
            }
            for (pair, sender) in self.pairs_of(receiver) {
                let unseen = self.unseen(pair, sender, users);
                let missing = self.arrivals.window(pair).missing();
                self.counts.add(count::LOST, unseen + u64::from(missing));
            }
        }
        self.has_finished = true;
    }
}
