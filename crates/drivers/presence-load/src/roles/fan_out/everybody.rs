//! Pushes that all users of the run receive, whichever worker has their sender.
//!
//! What a receiver must know of senders is shared by the workers: the numbers that were sent and answered are atomic, and
//! the intended starts of a sender are behind a lock, which costs about 20 ns for each push. A number is noted before its
//! message is written, and so before its push can come.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use measure::counters::Counter;

use super::names::SenderNames;
use super::senders::{Senders, Sent};
use crate::outcome::count;
use crate::roles::population::{Part, Population};
use crate::roles::user::User;

/// The senders of a run, which its workers share.
#[derive(Debug)]
pub(crate) struct Everybody {
    senders: Box<[SharedSender]>,
    /// Sender and number of the messages that failed.
    excused: Mutex<Vec<(u32, u32)>>,
    excused_count: AtomicU64,
    /// Number of workers whose users may still send.
    sending: AtomicU64,
}

#[derive(Debug, Default)]
struct SharedSender {
    last: AtomicU32,
    answered: AtomicU32,
    sent: Mutex<Sent>,
}

impl Everybody {
    /// Creates the senders of a run with this many workers.
    pub(crate) fn new(population: Population, workers: u64) -> Self {
        let senders = (0..population.users()).map(|_| SharedSender::default());
        Self {
            senders: senders.collect(),
            excused: Mutex::default(),
            excused_count: AtomicU64::new(0),
            // A worker without a room has no users.
            sending: AtomicU64::new(workers.min(population.rooms)),
        }
    }
}

/// The senders of a run, as one worker sees them.
#[derive(Debug)]
pub(crate) struct AllSenders {
    part: Part,
    shared: Arc<Everybody>,
    names: Option<Arc<SenderNames>>,
    /// Number of failed messages that were taken.
    excused: usize,
    /// The failed messages of its own users, which it has taken.
    own_excused: HashSet<(u32, u32)>,
    has_ended: bool,
}

impl AllSenders {
    pub(super) fn new(part: Part, shared: Arc<Everybody>, names: Option<Arc<SenderNames>>) -> Self {
        Self {
            part,
            shared,
            names,
            excused: 0,
            own_excused: HashSet::new(),
            has_ended: false,
        }
    }
}

impl Senders for AllSenders {
    fn sender(&self, user: u32) -> u32 {
        self.part.index_of(user) as u32
    }

    fn received_by(&self, _receiver: u32) -> Range<u32> {
        0..self.shared.senders.len() as u32
    }

    fn receivers(&self, _sender: u32) -> Range<u32> {
        0..self.part.users() as u32
    }

    fn find(&self, receiver: u32, name: &str) -> Option<(u32, u32)> {
        let found = match &self.names {
            Some(names) => names.find(name),
            None => self
                .part
                .population
                .user_named(name)
                .map(|user| user as u32),
        };
        found.map(|sender| (receiver, sender))
    }

    fn stranger(&self, _name: &str) -> Counter {
        count::FOREIGN
    }

    fn send(&mut self, sender: u32, number: u32, at: u64) {
        let shared = &self.shared.senders[sender as usize];
        let mut sent = shared.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.send(number, at);
        shared.last.store(number, Ordering::Release);
    }

    fn last(&self, sender: u32) -> u32 {
        let shared = &self.shared.senders[sender as usize];
        shared.last.load(Ordering::Acquire)
    }

    fn age(&self, sender: u32, number: u64, now: u64) -> Option<u64> {
        let shared = &self.shared.senders[sender as usize];
        let sent = shared.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.age(number, now)
    }

    fn answered(&self, sender: u32, _users: &[User]) -> u32 {
        let shared = &self.shared.senders[sender as usize];
        shared.answered.load(Ordering::Acquire)
    }

    fn answer(&mut self, sender: u32, number: u32) {
        let shared = &self.shared.senders[sender as usize];
        shared.answered.fetch_max(number, Ordering::AcqRel);
    }

    fn excuse(&mut self, sender: u32, number: u32) {
        self.own_excused.insert((sender, number));
        let excused = self.shared.excused.lock();
        let mut excused = excused.unwrap_or_else(PoisonError::into_inner);
        excused.push((sender, number));
        self.shared
            .excused_count
            .store(excused.len() as u64, Ordering::Release);
    }

    fn take_excused(&mut self) -> Vec<(u32, u32)> {
        if self.shared.excused_count.load(Ordering::Acquire) as usize == self.excused {
            return Vec::new();
        }
        let excused = self.shared.excused.lock();
        let excused = excused.unwrap_or_else(PoisonError::into_inner);
        let new = &excused[self.excused..];
        self.excused += new.len();
        let others = new.iter().filter(|it| !self.own_excused.remove(*it));
        others.copied().collect()
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.shared.sending.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn have_ended(&self) -> bool {
        self.shared.sending.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use load::schedule::Share;
    use measure::counters::Counters;

    use super::*;
    use crate::roles::Phase;
    use crate::roles::fan_out::{COUNTERS, Pushes};
    use crate::roles::population::Behaviour;
    use crate::settings::Receivers;

    /// A worker of two, with its users of three rooms of two.
    struct Worker {
        pushes: Pushes,
        users: Vec<User>,
        counts: Rc<Counters>,
    }

    fn workers(to: Receivers) -> [Worker; 2] {
        let population = Population {
            rooms: 3,
            users_per_room: 2,
            slow_consumers: 0,
            half_open: 0,
        };
        let everybody = Arc::new(Everybody::new(population, 2));
        [0, 1].map(|index| {
            let share = Share { index, of: 2 };
            let part = Part { population, share };
            let counts = Rc::new(Counters::new(count::COUNTERS));
            let mut pushes = Pushes::new(part, Some(to), (Some(&everybody), None), &counts);
            let users = (0..part.users()).map(|_| User::new(Behaviour::Active));
            let mut users: Vec<User> = users.collect();
            for (user, own) in (0..).zip(&mut users) {
                own.phase = Phase::Joined;
                pushes.join(user);
            }
            Worker {
                pushes,
                users,
                counts,
            }
        })
    }

    impl Worker {
        /// Lets a user receive these numbers of a sender.
        fn receive(&mut self, receiver: u32, sender: &str, numbers: &[u64]) {
            for number in numbers {
                self.pushes.receive(receiver, sender, *number, 1_000);
            }
        }

        /// Returns the counters at the end that are not 0.
        fn end(mut self) -> Vec<(Counter, u64)> {
            self.pushes.finish(&self.users);
            let counts = COUNTERS.map(|counter| (counter, self.counts.get(counter)));
            counts.into_iter().filter(|(_, count)| *count > 0).collect()
        }
    }

    #[test]
    fn pushes_of_a_sender_at_another_worker_are_accounted_for() {
        let [mut near, mut far] = workers(Receivers::Everybody);
        for number in 1..=3 {
            far.pushes.send(0, number, 100 * u64::from(number));
        }
        assert_eq!(near.pushes.receive(0, "user-2-1", 1, 150), Some(50));
        near.receive(0, "user-2-1", &[2]);
        near.receive(1, "user-2-1", &[1, 3]);
        near.receive(2, "user-2-1", &[1, 2, 2, 3]);
        near.receive(3, "user-2-1", &[2, 1, 3, 4]);
        near.receive(3, "bob", &[1]);
        (0..2).for_each(|user| far.receive(user, "user-2-1", &[1, 2, 3]));
        (1..=3).for_each(|number| far.pushes.answer(0, number));
        // A worker whose users have got all waits for the others, which may still send.
        near.pushes.end_sending();
        near.pushes.end_sending();
        assert!(!near.pushes.is_settled(1, &near.users));
        far.pushes.end_sending();
        assert!(near.pushes.is_settled(1, &near.users) && far.pushes.is_settled(0, &far.users));
        // The last message has not reached one.
        assert!(!near.pushes.is_settled(0, &near.users));
        let wrong = [
            (count::LOST, 2),
            (count::DUPLICATED, 1),
            (count::REORDERED, 1),
            (count::WRONG_STATE, 1),
            (count::FOREIGN, 1),
        ];
        assert_eq!(near.end(), wrong);
        assert_eq!(far.end(), []);
    }

    #[test]
    fn messages_that_were_sent_before_a_user_took_part_may_arrive_or_not() {
        let [mut near, mut far] = workers(Receivers::Everybody);
        (1..=3).for_each(|number| far.pushes.send(0, number, 100));
        near.pushes.end(0);
        near.receive(0, "user-2-1", &[1]);
        near.pushes.join(0);
        far.pushes.send(0, 4, 100);
        near.receive(0, "user-2-1", &[3, 3, 2, 4, 4]);
        (1..4).for_each(|user| near.receive(user, "user-2-1", &[1, 2, 3, 4]));
        far.pushes.answer(0, 4);
        assert_eq!(near.end(), [(count::DUPLICATED, 1)]);
    }

    #[test]
    fn messages_that_failed_at_another_worker_may_arrive_or_not() {
        let [mut near, mut far] = workers(Receivers::EverybodyElse);
        (1..=3).for_each(|number| far.pushes.send(1, number, 100));
        far.pushes.excuse(1, 1);
        far.pushes.answer(1, 2);
        near.receive(0, "user-2-2", &[1, 2, 3]);
        (1..3).for_each(|user| near.receive(user, "user-2-2", &[2, 3]));
        // The one that fails last is known to have failed once others have come.
        near.receive(3, "user-2-2", &[2]);
        far.pushes.excuse(1, 3);
        far.receive(0, "user-2-2", &[2, 3]);
        far.pushes.answer(1, 3);
        assert_eq!(near.end(), []);
        // Its sender does not receive it.
        far.receive(1, "user-2-2", &[1]);
        assert_eq!(far.end(), [(count::WRONG_ROOM, 1)]);
    }
}
