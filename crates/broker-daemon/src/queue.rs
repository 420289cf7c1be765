//! A queue: messages in order, and who takes them in turn.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use amq_protocol::types::{AMQPValue, FieldTable};

use crate::arena::Id;
use crate::exchange::Name;
use crate::failure::{Result, precondition_failed};
use crate::message::{Held, Message};

pub(crate) type ConnectionId = Id;
pub(crate) type ConsumerId = Id;

/// Messages that consumers may be behind before publishers are read in smaller pieces.
const LAG: usize = 1000;

/// Where the priority stands in a position.
const RANK_SHIFT: u32 = 56;

/// No time: what never expires.
pub(crate) const NEVER: u64 = u64::MAX;

/// A message in a queue.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Held,
    /// Its place: where it goes back to when it is requeued.
    pub(crate) position: u64,
    /// When it expires, in milliseconds of the broker's clock.
    pub(crate) expires: u64,
    pub(crate) redelivered: bool,
    /// Whether the log knows of it.
    pub(crate) is_stored: bool,
}

/// What to do with a message that is one too many (x-overflow).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Overflow {
    #[default]
    DropHead,
    RejectPublish,
    RejectPublishDlx,
}

/// The arguments of queue.declare that mean something here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) max_length: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) overflow: Overflow,
    pub(crate) message_ttl: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) dead_letter_exchange: Option<Name>,
    pub(crate) dead_letter_key: Option<Box<[u8]>>,
    pub(crate) max_priority: u8,
}

/// What queue.declare says besides the name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueueTraits {
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) arguments: FieldTable,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Name,
    pub(crate) vhost: usize,
    pub(crate) traits: QueueTraits,
    pub(crate) limits: Limits,
    /// The connection that alone may use it.
    pub(crate) owner: Option<ConnectionId>,
    /// By priority, the highest first.
    ready: Vec<VecDeque<Entry>>,
    ready_count: usize,
    ready_bytes: u64,
    next_position: u64,
    /// Messages that consumers were given.
    pub(crate) delivered: u64,
    /// Delivered and not acknowledged.
    pub(crate) unacked: usize,
    pub(crate) consumers: BTreeSet<ConsumerId>,
    /// Those that may have room for more, in the order of their turns, and some that are gone.
    pub(crate) ring: VecDeque<ConsumerId>,
    pub(crate) has_exclusive_consumer: bool,
    /// The exchanges that it is bound to, with repetitions.
    pub(crate) sources: Vec<Name>,
    /// Whether it waits to be dispatched.
    pub(crate) is_active: bool,
    /// When the broker looks at it next, for what expires.
    pub(crate) timer: u64,
    /// When it was last used (x-expires).
    pub(crate) used: u64,
}

impl Queue {
    pub(crate) fn new(
        name: Name,
        vhost: usize,
        traits: QueueTraits,
        limits: Limits,
        owner: Option<ConnectionId>,
    ) -> Self {
        Self {
            name,
            vhost,
            traits,
            limits,
            owner,
            ready: vec![VecDeque::new()],
            ready_count: 0,
            ready_bytes: 0,
            next_position: 0,
            delivered: 0,
            unacked: 0,
            consumers: BTreeSet::new(),
            ring: VecDeque::new(),
            has_exclusive_consumer: false,
            sources: Vec::new(),
            is_active: false,
            timer: NEVER,
            used: 0,
        }
    }

    /// Messages that are ready.
    pub(crate) fn len(&self) -> usize {
        self.ready_count
    }

    pub(crate) fn head(&self) -> Option<&Entry> {
        self.ready.iter().find_map(VecDeque::front)
    }

    /// Whether it has consumers, and they do not keep up.
    pub(crate) fn is_lagging(&self) -> bool {
        self.ready_count > LAG && !self.consumers.is_empty()
    }

    /// Removes a consumer. Its place in the ring is skipped when its turn comes; but one that never comes is no reason to
    /// keep many.
    pub(crate) fn remove_consumer(&mut self, id: ConsumerId) {
        self.consumers.remove(&id);
        if self.ring.len() > 2 * self.consumers.len() + 16 {
            self.ring.retain(|id| self.consumers.contains(id));
        }
    }

    /// Whether its durable messages belong into the log.
    pub(crate) fn is_stored(&self) -> bool {
        self.traits.durable && self.owner.is_none()
    }

    /// Whether one message more would be one too many.
    pub(crate) fn is_full_for(&self, message: &Message) -> bool {
        let bytes = self.ready_bytes + message.body().len() as u64;
        self.limits
            .max_length
            .is_some_and(|max| self.ready_count as u64 >= max)
            || self.limits.max_bytes.is_some_and(|max| bytes > max)
    }

    /// Whether there is one message too many.
    pub(crate) fn is_over(&self) -> bool {
        self.limits
            .max_length
            .is_some_and(|max| self.ready_count as u64 > max)
            || self
                .limits
                .max_bytes
                .is_some_and(|max| self.ready_bytes > max)
    }

    /// Appends a message, or inserts it before those of a lower priority.
    pub(crate) fn push(&mut self, message: Rc<Message>, now: u64, is_stored: bool) {
        let entry = self.entry(message, now, is_stored);
        self.insert(entry);
    }

    /// Appends a message from the log that was published `age` milliseconds ago. Whether it was delivered before is
    /// not known, so it may have been.
    pub(crate) fn push_restored(&mut self, message: Rc<Message>, now: u64, age: u64) {
        let mut entry = self.entry(message, now, true);
        entry.redelivered = true;
        if entry.expires != NEVER {
            entry.expires = entry.expires.saturating_sub(age);
        }
        self.insert(entry);
    }

    fn entry(&mut self, message: Rc<Message>, now: u64, is_stored: bool) -> Entry {
        let own = message.facts().expiration.map(u64::from);
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

    /// Puts a message where it belongs by its position: back at its old place when it is requeued.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.ready_bytes += entry.message.body().len() as u64;
        self.ready_count += 1;
        let rank = usize::try_from(entry.position >> RANK_SHIFT).expect("there are 256 ranks");
        if self.ready.len() <= rank {
            self.ready.resize_with(rank + 1, VecDeque::new);
        }
        let ready = &mut self.ready[rank];
        if ready
            .back()
            .is_none_or(|last| last.position < entry.position)
        {
            return ready.push_back(entry);
        }
        if ready
            .front()
            .is_some_and(|first| first.position > entry.position)
        {
            return ready.push_front(entry);
        }
        let at = ready.partition_point(|other| other.position < entry.position);
        ready.insert(at, entry);
    }

    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let ready = self.ready.iter_mut().find(|ready| !ready.is_empty())?;
        let entry = ready.pop_front()?;
        self.ready_count -= 1;
        self.ready_bytes -= entry.message.body().len() as u64;
        // A backlog that was worked off is no reason to keep its memory.
        if ready.is_empty() && ready.capacity() > 64 * 1024 {
            *ready = VecDeque::new();
        }
        Some(entry)
    }

    /// Removes everything that is ready.
    pub(crate) fn take_all(&mut self) -> Vec<Entry> {
        self.ready_bytes = 0;
        self.ready_count = 0;
        self.ready.iter_mut().flat_map(std::mem::take).collect()
    }
}

impl Limits {
    /// Reads the arguments of queue.declare.
    ///
    /// # Errors
    /// 406 for a value that makes no sense, as RabbitMQ's `rabbit_amqqueue:check_declare_arguments`.
    pub(crate) fn read(arguments: &FieldTable, queue: &str, vhost: &str) -> Result<Self> {
        let invalid = |name: &str, why: &str| {
            precondition_failed(format_args!(
                "invalid arg '{name}' for queue '{queue}' in vhost '{vhost}': {why}"
            ))
        };
        let number = |name: &str| match arguments.inner().get(name) {
            None => Ok(None),
            Some(value) => match integer(value) {
                Some(number) => match u64::try_from(number) {
                    Ok(number) => Ok(Some(number)),
                    Err(_) => Err(invalid(name, &format!("{{value_negative,{number}}}"))),
                },
                None => Err(invalid(name, "{unacceptable_type}")),
            },
        };
        let text = |name: &str| match arguments.inner().get(name) {
            None => Ok(None),
            Some(AMQPValue::LongString(text)) => match std::str::from_utf8(text.as_bytes()) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(invalid(name, "it is no UTF-8")),
            },
            Some(_) => Err(invalid(name, "{unacceptable_type}")),
        };
        let limits = Self {
            max_length: number("x-max-length")?,
            max_bytes: number("x-max-length-bytes")?,
            overflow: match text("x-overflow")? {
                None | Some("drop-head") => Overflow::DropHead,
                Some("reject-publish") => Overflow::RejectPublish,
                Some("reject-publish-dlx") => Overflow::RejectPublishDlx,
                Some(other) => {
                    return Err(invalid("x-overflow", &format!("'{other}' is not allowed")));
                }
            },
            message_ttl: number("x-message-ttl")?,
            expires: number("x-expires")?,
            dead_letter_exchange: text("x-dead-letter-exchange")?.map(Name::from),
            dead_letter_key: text("x-dead-letter-routing-key")?.map(|key| key.as_bytes().into()),
            max_priority: match number("x-max-priority")?.map(u8::try_from) {
                None => 0,
                Some(Ok(max)) => max,
                Some(Err(_)) => return Err(invalid("x-max-priority", "{max_value_exceeded,255}")),
            },
        };
        if limits.expires == Some(0) {
            return Err(invalid("x-expires", "{value_zero,0}"));
        }
        for (name, value) in [
            ("x-expires", limits.expires),
            ("x-message-ttl", limits.message_ttl),
        ] {
            if value.is_some_and(|value| value > u64::from(u32::MAX)) {
                return Err(invalid(name, "{value_too_large}"));
            }
        }
        if limits.dead_letter_key.is_some() && limits.dead_letter_exchange.is_none() {
            return Err(invalid(
                "x-dead-letter-routing-key",
                "routing_key_but_no_dlx_defined",
            ));
        }
        // Both become short strings of a message.
        for name in ["x-dead-letter-exchange", "x-dead-letter-routing-key"] {
            if text(name)?.is_some_and(|text| text.len() > 255) {
                return Err(invalid(name, "it is longer than 255 bytes"));
            }
        }
        match text("x-queue-type")? {
            None | Some("classic") => Ok(limits),
            Some(other) => Err(invalid(
                "x-queue-type",
                &format!("'{other}' is not supported, only 'classic' is"),
            )),
        }
    }
}

/// A field value as a number, whatever its width.
pub(crate) fn integer(value: &AMQPValue) -> Option<i64> {
    Some(match *value {
        AMQPValue::ShortShortInt(number) => number.into(),
        AMQPValue::ShortShortUInt(number) => number.into(),
        AMQPValue::ShortInt(number) => number.into(),
        AMQPValue::ShortUInt(number) => number.into(),
        AMQPValue::LongInt(number) => number.into(),
        AMQPValue::LongUInt(number) => number.into(),
        AMQPValue::LongLongInt(number) => number,
        AMQPValue::Timestamp(number) => i64::try_from(number).ok()?,
        _ => return None,
    })
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
        let traits = QueueTraits {
            durable: false,
            auto_delete: false,
            arguments: FieldTable::default(),
        };
        Queue::new("q".into(), 0, traits, limits, None)
    }

    fn bodies(queue: &mut Queue) -> Vec<u8> {
        std::iter::from_fn(|| queue.pop())
            .map(|entry| entry.message.body()[0])
            .collect()
    }

    #[test]
    fn what_is_requeued_goes_back_to_its_place() {
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
    fn arguments_that_make_no_sense_are_refused() {
        let read = |name: &str, value: AMQPValue| {
            let mut table = FieldTable::default();
            table.insert(name.into(), value);
            Limits::read(&table, "q", "/").map_err(|failure| failure.code)
        };
        let text = |text: &str| AMQPValue::LongString(text.into());
        assert_eq!(read("x-expires", AMQPValue::LongInt(0)), Err(406));
        assert_eq!(read("x-message-ttl", AMQPValue::LongInt(-1)), Err(406));
        assert_eq!(read("x-message-ttl", text("1")), Err(406));
        assert_eq!(read("x-overflow", text("burst")), Err(406));
        assert_eq!(read("x-dead-letter-routing-key", text("k")), Err(406));
        assert_eq!(read("x-queue-type", text("quorum")), Err(406));
        let long = "x".repeat(256);
        assert_eq!(read("x-dead-letter-exchange", text(&long)), Err(406));
        assert_eq!(
            read("x-max-length", AMQPValue::ShortShortUInt(3))
                .unwrap()
                .max_length,
            Some(3)
        );
    }
}
