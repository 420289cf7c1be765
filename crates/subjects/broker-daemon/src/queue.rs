//! A queue: messages in order, and the consumers that take them in turn. Nothing here knows a connection, so a queue and
//! its consumers may belong to another thread than the connections that they deliver to.

mod arguments;

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::rc::Rc;

use amq_protocol::protocol::basic;

use crate::arena::{Arena, Id};
use crate::channel::ChannelId;
use crate::exchange::{Name, QueueId};
use crate::message::{Held, Message, short_string};

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

/// The messages of a queue since the start, by what has happened to them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QueueCounts {
    /// Messages that entered it, except those restored from the log.
    pub(crate) published: u64,
    /// Deliveries to consumers.
    pub(crate) delivered: u64,
    /// Deliveries by basic.get.
    pub(crate) got: u64,
    /// Deliveries that were acknowledged.
    pub(crate) acked: u64,
    /// Deliveries that are not settled.
    pub(crate) unacked: usize,
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
    counts: QueueCounts,
    consumers: BTreeSet<ConsumerId>,
    /// Consumers that may have room, with their priorities, in the order of their turns; some may no longer exist.
    ring: VecDeque<(i64, ConsumerId)>,
    /// The single active consumer, if one is required.
    active: Option<ConsumerId>,
    has_exclusive_consumer: bool,
    /// True if it waits to be dispatched.
    is_waiting: bool,
    /// The time of its next expiry check.
    timer: u64,
    /// The time of its last use (x-expires).
    used: u64,
}

/// A consumer, as its queue knows it.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) channel: ChannelId,
    pub(crate) queue: QueueId,
    pub(crate) no_ack: bool,
    exclusive: bool,
    /// A short string: its length comes first.
    pub(crate) short_tag: Box<[u8]>,
    /// Consumers with a higher priority are served first (x-priority).
    priority: i64,
    /// 0 means no limit.
    prefetch: u16,
    unacked: usize,
    /// True if it is in its queue's ring.
    in_ring: bool,
    /// True if the channel's common limit holds it back.
    is_held_back: bool,
    /// The tag of its last delivery, which tells when it was served.
    last_tag: u64,
}

impl Consumer {
    pub(crate) fn new(
        channel: ChannelId,
        queue: QueueId,
        consume: &basic::Consume,
        tag: &str,
        priority: i64,
        prefetch: u16,
    ) -> Self {
        Self {
            channel,
            queue,
            no_ack: consume.no_ack,
            exclusive: consume.exclusive,
            short_tag: short_string(tag).into(),
            priority,
            prefetch,
            unacked: 0,
            in_ring: false,
            is_held_back: false,
            last_tag: 0,
        }
    }

    pub(crate) fn tag(&self) -> &str {
        // It came as a short string, and those are parsed as UTF-8.
        str::from_utf8(&self.short_tag[1..]).unwrap_or_default()
    }

    pub(crate) fn last_tag(&self) -> u64 {
        self.last_tag
    }

    /// Returns true if its own limit allows one more message.
    fn has_room(&self) -> bool {
        self.no_ack || self.prefetch == 0 || self.unacked < usize::from(self.prefetch)
    }

    /// Begins its turn, after it was taken out of the ring. Returns false if it has no room for a message.
    #[inline]
    pub(crate) fn begin_turn(&mut self) -> bool {
        self.in_ring = false;
        self.has_room()
    }

    /// Keeps it out of the ring until its channel has room for it.
    pub(crate) fn set_held_back(&mut self, is_held_back: bool) {
        self.is_held_back = is_held_back;
    }
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

    pub(crate) fn counts(&self) -> QueueCounts {
        self.counts
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

    /// Starts its time to live again, which passes while it has no consumers (x-expires).
    pub(crate) fn touch(&mut self, now: u64) {
        self.used = now;
    }

    /// Marks it as waiting to be dispatched. Returns false if it waits already.
    #[inline]
    pub(crate) fn begin_wait(&mut self) -> bool {
        !mem::replace(&mut self.is_waiting, true)
    }

    pub(crate) fn end_wait(&mut self) {
        self.is_waiting = false;
    }

    pub(crate) fn consumer_count(&self) -> usize {
        self.consumers.len()
    }

    /// Takes the consumers of a deleted queue.
    pub(crate) fn into_consumers(self) -> BTreeSet<ConsumerId> {
        self.consumers
    }

    /// Returns true if it has no room for another consumer, which may want to be the only one.
    pub(crate) fn is_reserved(&self, for_one: bool) -> bool {
        self.has_exclusive_consumer
            || (for_one && (self.limits.single_active || !self.consumers.is_empty()))
    }

    pub(crate) fn add_consumer(&mut self, id: ConsumerId, consumer: &Consumer) {
        self.consumers.insert(id);
        self.has_exclusive_consumer = consumer.exclusive;
        if self.limits.single_active {
            self.active.get_or_insert(id);
        }
    }

    /// Removes a consumer. Its entry in the ring is skipped when its turn comes; if stale entries accumulate, they are
    /// removed.
    pub(crate) fn remove_consumer(&mut self, id: ConsumerId, consumer: &Consumer) {
        self.consumers.remove(&id);
        self.has_exclusive_consumer &= !consumer.exclusive;
        if self.ring.len() > 2 * self.consumers.len() + 16 {
            self.ring.retain(|(_, id)| self.consumers.contains(id));
        }
    }

    /// Selects another single active consumer if this one was it: the oldest of those with the highest priority.
    pub(crate) fn replace_active(
        &mut self,
        id: ConsumerId,
        consumers: &Arena<'u', Consumer>,
    ) -> Option<ConsumerId> {
        self.active.take_if(|active| *active == id)?;
        let rank = |id: &&ConsumerId| {
            let priority = consumers.get(**id).map(|consumer| consumer.priority);
            (priority, Reverse(id.serial))
        };
        self.active = self.consumers.iter().max_by_key(rank).copied();
        self.active
    }

    /// Adds a consumer to the ring, unless it must wait: for room, for its channel, or until the single active consumer
    /// is gone. Returns true if there is a message for it.
    pub(crate) fn wake(&mut self, id: ConsumerId, consumer: &mut Consumer) -> bool {
        let is_served = !self.limits.single_active || self.active == Some(id);
        if consumer.in_ring || consumer.is_held_back || !consumer.has_room() || !is_served {
            return false;
        }
        self.enter_ring(id, consumer);
        self.ready_count > 0
    }

    /// Inserts a consumer behind all of its priority and above.
    fn enter_ring(&mut self, id: ConsumerId, consumer: &mut Consumer) {
        consumer.in_ring = true;
        let priority = consumer.priority;
        let at = match self.ring.back() {
            Some((last, _)) if *last < priority => {
                self.ring.partition_point(|(other, _)| *other >= priority)
            }
            _ => self.ring.len(),
        };
        self.ring.insert(at, (priority, id));
    }

    /// Returns true if consumers may have room for a message.
    pub(crate) fn has_turns(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Takes the consumer whose turn it is out of the ring. It may no longer exist.
    #[inline]
    pub(crate) fn next_turn(&mut self) -> Option<ConsumerId> {
        self.ring.pop_front().map(|(_, id)| id)
    }

    /// Takes the first message for a consumer whose turn it is and whose channel has room.
    #[inline]
    pub(crate) fn take_for(&mut self, consumer: &mut Consumer) -> Option<Entry> {
        let entry = self.pop()?;
        self.counts.delivered += 1;
        if !consumer.no_ack {
            consumer.unacked += 1;
            self.counts.unacked += 1;
        }
        Some(entry)
    }

    /// Ends the turn of a consumer that was served with this tag: it has another one later, unless its channel holds it
    /// back.
    #[inline]
    pub(crate) fn end_turn(
        &mut self,
        id: ConsumerId,
        consumer: &mut Consumer,
        tag: u64,
        is_held_back: bool,
    ) {
        consumer.last_tag = tag;
        consumer.is_held_back = is_held_back;
        if !is_held_back {
            // Even if it is full now: it keeps its turn if it acknowledges before that comes.
            self.enter_ring(id, consumer);
        }
    }

    /// Takes the first message for basic.get.
    pub(crate) fn get(&mut self, no_ack: bool) -> Option<Entry> {
        let entry = self.pop()?;
        self.counts.got += 1;
        self.counts.unacked += usize::from(!no_ack);
        Some(entry)
    }

    /// Counts a delivery as settled, and wakes its consumer. Returns true if there is a message for it.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        consumer: Option<(ConsumerId, &mut Consumer)>,
        is_acked: bool,
    ) -> bool {
        self.counts.unacked -= 1;
        self.counts.acked += u64::from(is_acked);
        consumer.is_some_and(|(id, consumer)| {
            consumer.unacked -= 1;
            self.wake(id, consumer)
        })
    }

    /// Returns true if its persistent messages must be logged.
    pub(crate) fn is_stored(&self) -> bool {
        self.settings.durable && self.owner.is_none()
    }

    /// Returns true if it refuses one more message (x-overflow: reject-publish).
    pub(crate) fn refuses(&self, message: &Message) -> bool {
        let (count, bytes) = (self.ready_count as u64, self.ready_bytes);
        let length = message.body().len() as u64;
        self.limits.overflow != Overflow::DropHead
            && self.limits.are_exceeded_by(count + 1, bytes + length)
    }

    /// Returns true if it exceeds its limits.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        let count = self.ready_count as u64;
        self.limits.are_exceeded_by(count, self.ready_bytes)
    }

    /// Takes the first message if it is one too many (x-overflow: drop-head).
    pub(crate) fn pop_excess(&mut self) -> Option<Entry> {
        let drops = self.limits.overflow == Overflow::DropHead && self.is_over();
        drops.then(|| self.pop()).flatten()
    }

    /// Takes the first message if it has expired.
    pub(crate) fn pop_expired(&mut self, now: u64) -> Option<Entry> {
        let is_due = self.head().is_some_and(|head| head.expires <= now);
        is_due.then(|| self.pop()).flatten()
    }

    /// Returns when it expires without consumers: its time to live after its last use.
    fn deadline(&self) -> u64 {
        match self.limits.expires {
            Some(after) if self.consumers.is_empty() => self.used + after,
            _ => NEVER,
        }
    }

    pub(crate) fn is_expired(&self, now: u64) -> bool {
        self.deadline() <= now
    }

    /// Sets its timer to when it or its first message expires, unless that is later. Returns the times before and after.
    pub(crate) fn advance_timer(&mut self) -> Option<(u64, u64)> {
        let head = self.head().map_or(NEVER, |head| head.expires);
        let due = self.deadline().min(head);
        (due < self.timer).then(|| (mem::replace(&mut self.timer, due), due))
    }

    /// Ends its timer. Returns the time that it was set to.
    pub(crate) fn end_timer(&mut self) -> u64 {
        mem::replace(&mut self.timer, NEVER)
    }

    /// Appends a message, or inserts it before messages of a lower priority.
    pub(crate) fn push(&mut self, message: Rc<Message>, now: u64, is_stored: bool) {
        self.counts.published += 1;
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
        let facts = message.facts();
        let ttl = self.limits.time_to_live(facts.expiration);
        let rank = u64::from(self.limits.rank(facts.priority)) << RANK_SHIFT;
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
        self.ready.iter_mut().flat_map(mem::take).collect()
    }
}

#[cfg(test)]
mod tests {
    use amq_protocol::types::{AMQPValue, FieldTable};

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
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-priority".into(), AMQPValue::LongInt(5));
        let mut queue = queue(Limits::read(&arguments, "q").unwrap());
        for (body, priority) in [(0, 0), (1, 5), (2, 3), (3, 9), (4, 0), (5, 3)] {
            queue.push(message(body, priority), 0, false);
        }
        assert_eq!(bodies(&mut queue), [1, 3, 2, 5, 0, 4]);
    }

    /// Adds a consumer that waits for a message.
    fn consume(
        queue: &mut Queue,
        consumers: &mut Arena<'u', Consumer>,
        tag: &str,
        priority: i64,
    ) -> ConsumerId {
        let channel = ChannelId::new(Arena::<'c', _>::default().insert(()), 1);
        let id = Arena::<'q', _>::default().insert(());
        let consume = basic::Consume::default();
        let consumer = Consumer::new(channel, id, &consume, tag, priority, 0);
        let id = consumers.insert(consumer);
        queue.add_consumer(id, &consumers[id]);
        queue.wake(id, &mut consumers[id]);
        id
    }

    #[test]
    fn a_consumer_of_a_higher_priority_has_its_turn_before_others() {
        let mut queue = queue(Limits::default());
        let mut consumers = Arena::default();
        for (tag, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5), ("e", -1), ("f", 1)] {
            consume(&mut queue, &mut consumers, tag, priority);
        }
        let turns = std::iter::from_fn(|| queue.next_turn());
        let turns: Vec<&str> = turns.map(|id| consumers[id].tag()).collect();
        assert_eq!(turns, ["b", "d", "f", "a", "c", "e"]);
    }

    #[test]
    fn consumers_that_come_and_go_leave_no_turns_behind() {
        let mut queue = queue(Limits::default());
        let mut consumers = Arena::default();
        let stays = consume(&mut queue, &mut consumers, "stays", 0);
        for _ in 0..1000 {
            let id = consume(&mut queue, &mut consumers, "c", 0);
            queue.remove_consumer(id, &consumers.remove(id).unwrap());
        }
        assert!(queue.ring.len() < 20, "{}", queue.ring.len());
        assert_eq!(queue.next_turn(), Some(stays));
    }
}
