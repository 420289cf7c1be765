//! A queue: messages in order, and the consumers that take them in turn.

mod arguments;

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use crate::arena::Id;
use crate::exchange::Name;
use crate::message::{Held, Message};

pub(crate) use self::arguments::{Limits, Overflow, QueueSettings, integer, queue_type};

pub(crate) type ConnectionId = Id<'c'>;
pub(crate) type ConsumerId = Id<'u'>;

/// Messages that consumers may lag behind before publishers are read in smaller pieces.
const LAG: usize = 1000;

/// The bit offset of the priority in a position.
const RANK_SHIFT: u32 = 56;

/// The expiry time of messages that never expire.
pub(crate) const NEVER: u64 = u64::MAX;

/// A message in a queue.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Held,
    /// Its position, to which it returns when it is requeued.
    pub(crate) position: u64,
    /// Its expiry time, in milliseconds of the broker's clock.
    pub(crate) expires: u64,
    pub(crate) redelivered: bool,
    /// True if it is stored in the log.
    pub(crate) is_stored: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) name: Name,
    pub(crate) vhost: usize,
    pub(crate) settings: QueueSettings,
    pub(crate) limits: Limits,
    /// The log ticket of its record; 0 if it was restored at the start, or is not stored.
    pub(crate) ticket: u64,
    /// The only connection that may use it.
    pub(crate) owner: Option<ConnectionId>,
    /// Ready messages by priority, the highest first.
    ready: Vec<VecDeque<Entry>>,
    ready_count: usize,
    ready_bytes: u64,
    next_position: u64,
    /// Messages that entered it, except those restored from the log.
    pub(crate) published: u64,
    /// Deliveries to consumers.
    pub(crate) delivered: u64,
    /// Deliveries by basic.get.
    pub(crate) got: u64,
    /// Deliveries that were acknowledged.
    pub(crate) acked: u64,
    /// Deliveries that are not acknowledged.
    pub(crate) unacked: usize,
    pub(crate) consumers: BTreeSet<ConsumerId>,
    /// Consumers that may have room, with their priorities, in the order of their turns; some may no longer exist.
    pub(crate) ring: VecDeque<(i64, ConsumerId)>,
    /// The single active consumer, if one is required.
    pub(crate) active: Option<ConsumerId>,
    pub(crate) has_exclusive_consumer: bool,
    /// The exchanges that it is bound to, with repetitions.
    pub(crate) sources: Vec<Name>,
    /// True if it waits to be dispatched.
    pub(crate) is_active: bool,
    /// The time of its next expiry check.
    pub(crate) timer: u64,
    /// The time of its last use (x-expires).
    pub(crate) used: u64,
}

impl Queue {
    pub(crate) fn new(name: Name, vhost: usize, settings: QueueSettings, limits: Limits) -> Self {
        Self {
            name,
            vhost,
            settings,
            limits,
            timer: NEVER,
            ..Self::default()
        }
    }

    /// Returns the number of ready messages.
    pub(crate) fn len(&self) -> usize {
        self.ready_count
    }

    pub(crate) fn head(&self) -> Option<&Entry> {
        self.ready.iter().find_map(VecDeque::front)
    }

    /// Returns true if it has consumers that do not keep up.
    pub(crate) fn is_lagging(&self) -> bool {
        self.ready_count > LAG && !self.consumers.is_empty()
    }

    /// Removes a consumer. Its entry in the ring is skipped when its turn comes; if stale entries accumulate, they are
    /// removed.
    pub(crate) fn remove_consumer(&mut self, id: ConsumerId) {
        self.consumers.remove(&id);
        if self.ring.len() > 2 * self.consumers.len() + 16 {
            self.ring.retain(|(_, id)| self.consumers.contains(id));
        }
    }

    /// Inserts a consumer behind all of its priority and above.
    pub(crate) fn enter_ring(&mut self, id: ConsumerId, priority: i64) {
        let at = match self.ring.back() {
            Some((last, _)) if *last < priority => {
                self.ring.partition_point(|(other, _)| *other >= priority)
            }
            _ => self.ring.len(),
        };
        self.ring.insert(at, (priority, id));
    }

    /// Returns false for a consumer that waits until the single active one is gone.
    pub(crate) fn is_served(&self, id: ConsumerId) -> bool {
        !self.limits.single_active || self.active == Some(id)
    }

    /// Returns true if its persistent messages must be logged.
    pub(crate) fn is_stored(&self) -> bool {
        self.settings.durable && self.owner.is_none()
    }

    /// Returns true if one more message would exceed its limits.
    pub(crate) fn is_full_for(&self, message: &Message) -> bool {
        self.exceeds_with(1, message.body().len() as u64)
    }

    /// Returns true if it exceeds its limits.
    pub(crate) fn is_over(&self) -> bool {
        self.exceeds_with(0, 0)
    }

    fn exceeds_with(&self, count: u64, bytes: u64) -> bool {
        let count = self.ready_count as u64 + count;
        let bytes = self.ready_bytes + bytes;
        self.limits.max_length.is_some_and(|max| count > max)
            || self.limits.max_bytes.is_some_and(|max| bytes > max)
    }

    /// Appends a message, or inserts it before messages of a lower priority.
    pub(crate) fn push(&mut self, message: Rc<Message>, now: u64, is_stored: bool) {
        self.published += 1;
        let entry = self.entry(message, now, is_stored);
        self.insert(entry);
    }

    /// Appends a message from the log that was published `age` milliseconds ago. It is marked as redelivered, because
    /// it may have been delivered before.
    pub(crate) fn push_restored(&mut self, message: Rc<Message>, now: u64, age: u64) {
        let mut entry = self.entry(message, now, true);
        entry.redelivered = true;
        if entry.expires != NEVER {
            entry.expires = entry.expires.saturating_sub(age);
        }
        self.insert(entry);
    }

    fn entry(&mut self, message: Rc<Message>, now: u64, is_stored: bool) -> Entry {
        let own = message.facts().expiration;
        let ttl = [self.limits.message_ttl, own];
        let ttl = ttl.into_iter().flatten().min();
        let priority = message.facts().priority.min(self.limits.max_priority);
        let rank = u64::from(self.limits.max_priority - priority) << RANK_SHIFT;
        let position = rank | self.next_position;
        self.next_position += 1;
        Entry {
            message: Held::new(message),
            position,
            expires: ttl.map_or(NEVER, |ttl| now + ttl),
            redelivered: false,
            is_stored,
        }
    }

    /// Inserts a message at its position, to which it returns when it is requeued.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.ready_bytes += entry.message.body().len() as u64;
        self.ready_count += 1;
        let rank = usize::try_from(entry.position >> RANK_SHIFT).expect("there are 256 ranks");
        if self.ready.len() <= rank {
            self.ready.resize_with(rank + 1, VecDeque::new);
        }
        let ready = &mut self.ready[rank];
        let position = entry.position;
        if ready.back().is_none_or(|last| last.position < position) {
            return ready.push_back(entry);
        }
        if ready.front().is_some_and(|first| first.position > position) {
            return ready.push_front(entry);
        }
        let at = ready.partition_point(|other| other.position < position);
        ready.insert(at, entry);
    }

    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let ready = self.ready.iter_mut().find(|ready| !ready.is_empty())?;
        let entry = ready.pop_front()?;
        self.ready_count -= 1;
        self.ready_bytes -= entry.message.body().len() as u64;
        // A processed backlog must not keep its memory.
        if ready.is_empty() && ready.capacity() > 64 * 1024 {
            *ready = VecDeque::new();
        }
        Some(entry)
    }

    /// Removes all ready messages.
    pub(crate) fn take_all(&mut self) -> Vec<Entry> {
        self.ready_bytes = 0;
        self.ready_count = 0;
        self.ready.iter_mut().flat_map(std::mem::take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Facts;

    fn message(body: u8, priority: u8) -> Rc<Message> {
        let facts = Facts {
            priority,
            ..Facts::default()
        };
        Rc::new(Message::new(vec![0, 0, body], 2, 2, facts, &Rc::default()))
    }

    fn queue(limits: Limits) -> Queue {
        Queue::new("q".into(), 0, QueueSettings::default(), limits)
    }

    fn bodies(queue: &mut Queue) -> Vec<u8> {
        std::iter::from_fn(|| queue.pop())
            .map(|entry| entry.message.body()[0])
            .collect()
    }

    #[test]
    fn a_requeued_message_goes_back_to_its_position() {
        let mut queue = queue(Limits::default());
        for body in 0..6 {
            queue.push(message(body, 0), 0, false);
        }
        let mut taken: Vec<Entry> = (0..4).map(|_| queue.pop().unwrap()).collect();
        for index in [2, 0, 1, 0] {
            queue.insert(taken.remove(index));
        }
        assert_eq!(bodies(&mut queue), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_higher_priority_goes_first_and_equal_ones_stay_in_order() {
        let mut queue = queue(Limits {
            max_priority: 5,
            ..Limits::default()
        });
        for (body, priority) in [(0, 0), (1, 5), (2, 3), (3, 9), (4, 0), (5, 3)] {
            queue.push(message(body, priority), 0, false);
        }
        assert_eq!(bodies(&mut queue), [1, 3, 2, 5, 0, 4]);
    }

    #[test]
    fn a_consumer_of_a_higher_priority_has_its_turn_before_others() {
        let mut queue = queue(Limits::default());
        let mut arena = crate::arena::Arena::<'u', _>::default();
        for (name, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5), ("e", -1), ("f", 1)] {
            queue.enter_ring(arena.insert(name), priority);
        }
        let turns: Vec<&str> = queue
            .ring
            .iter()
            .map(|(_, id)| *arena.get(*id).unwrap())
            .collect();
        assert_eq!(turns, ["b", "d", "f", "a", "c", "e"]);
    }
}
