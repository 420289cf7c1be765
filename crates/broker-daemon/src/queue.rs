//! A queue: messages in order, and the consumers that take them in turn.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use amq_protocol::types::{AMQPValue, FieldTable};

use crate::arena::Id;
use crate::exchange::Name;
use crate::failure::{Result, precondition_failed};
use crate::message::{Held, LONGEST_TTL, Message};

pub(crate) type ConnectionId = Id;
pub(crate) type ConsumerId = Id;

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

/// The handling of messages beyond the limits (x-overflow).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Overflow {
    #[default]
    DropHead,
    RejectPublish,
    RejectPublishDlx,
}

/// The arguments of queue.declare that have an effect here.
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
    /// Delivers to a single consumer until it is gone (x-single-active-consumer).
    pub(crate) single_active: bool,
}

/// The properties of queue.declare besides the name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QueueTraits {
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) arguments: FieldTable,
}

/// A queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) name: Name,
    pub(crate) vhost: usize,
    pub(crate) traits: QueueTraits,
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
    pub(crate) fn new(name: Name, vhost: usize, traits: QueueTraits, limits: Limits) -> Self {
        Self {
            name,
            vhost,
            traits,
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

    /// Inserts a consumer behind those of its priority and above.
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
        self.traits.durable && self.owner.is_none()
    }

    /// Returns true if one more message would exceed its limits.
    pub(crate) fn is_full_for(&self, message: &Message) -> bool {
        let bytes = self.ready_bytes + message.body().len() as u64;
        self.limits
            .max_length
            .is_some_and(|max| self.ready_count as u64 >= max)
            || self.limits.max_bytes.is_some_and(|max| bytes > max)
    }

    /// Returns true if it exceeds its limits.
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

impl Limits {
    /// Parses the arguments of queue.declare.
    ///
    /// # Errors
    /// 406 for an invalid value, as RabbitMQ's `rabbit_amqqueue:check_declare_arguments`.
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
            single_active: match arguments.inner().get("x-single-active-consumer") {
                None => false,
                Some(AMQPValue::Boolean(is_on)) => *is_on,
                Some(_) => return Err(invalid("x-single-active-consumer", "it is no boolean")),
            },
        };
        if limits.expires == Some(0) {
            return Err(invalid("x-expires", "{value_zero,0}"));
        }
        for (name, value) in [
            ("x-expires", limits.expires),
            ("x-message-ttl", limits.message_ttl),
        ] {
            if value.is_some_and(|value| value > LONGEST_TTL) {
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
        Ok(limits)
    }
}

/// Arguments of other queue types, which a classic queue refuses, as in RabbitMQ.
const OF_OTHER_TYPES: [&str; 9] = [
    "x-delivery-limit",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
    "x-dead-letter-strategy",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
];

/// Returns the queue type that these arguments declare; `None` if it is unknown.
pub(crate) fn queue_type(arguments: &FieldTable) -> Option<&str> {
    match arguments.inner().get("x-queue-type") {
        None => Some("classic"),
        Some(AMQPValue::LongString(name)) => std::str::from_utf8(name.as_bytes()).ok(),
        Some(_) => None,
    }
}

impl QueueTraits {
    /// Checks arguments that configure how RabbitMQ stores messages and have no effect visible to clients.
    ///
    /// # Errors
    /// 406 for a value that RabbitMQ does not accept.
    fn check_hints(&self, what: &str) -> Result {
        let get = |name: &str| self.arguments.inner().get(name);
        let is_mode = match get("x-queue-mode") {
            None => true,
            Some(AMQPValue::LongString(mode)) => matches!(mode.as_bytes(), b"default" | b"lazy"),
            Some(_) => false,
        };
        let version = get("x-queue-version").map(integer);
        let is_version = matches!(version, None | Some(Some(1 | 2)));
        for (name, is_known) in [("x-queue-mode", is_mode), ("x-queue-version", is_version)] {
            if !is_known {
                return Err(precondition_failed(format_args!(
                    "invalid arg '{name}' for {what}: unsupported value"
                )));
            }
        }
        Ok(())
    }

    /// Checks the type of a queue. Returns a warning if it runs as another type than declared.
    ///
    /// # Errors
    /// 406 for an unsupported type, for a quorum queue unless it may run as a classic one, and for arguments of other
    /// types.
    pub(crate) fn check_type(
        &self,
        what: &str,
        is_exclusive: bool,
        quorum_as_classic: bool,
    ) -> Result<Option<String>> {
        let refused = |text: &str| {
            Err(precondition_failed(format_args!(
                "invalid arg 'x-queue-type' for {what}: {text}"
            )))
        };
        let of_others = || {
            let is_there = |name: &&str| self.arguments.inner().contains_key(*name);
            OF_OTHER_TYPES.iter().copied().filter(is_there)
        };
        self.check_hints(what)?;
        match queue_type(&self.arguments) {
            Some("classic") => match of_others().next() {
                None => Ok(None),
                Some(name) => Err(precondition_failed(format_args!(
                    "invalid arg '{name}' for {what} of queue type classic"
                ))),
            },
            Some("quorum") if quorum_as_classic => {
                for (property, is_wrong) in [
                    ("non-durable", !self.durable),
                    ("exclusive-owner", is_exclusive),
                    ("auto-delete", self.auto_delete),
                ] {
                    if is_wrong {
                        return Err(precondition_failed(format_args!(
                            "invalid property '{property}' for {what}"
                        )));
                    }
                }
                let ignored: Vec<&str> = of_others().collect();
                let without = match &ignored[..] {
                    [] => String::new(),
                    names => format!("; without effect: {}", names.join(", ")),
                };
                Ok(Some(format!(
                    "declared as a quorum queue, runs as a durable classic queue{without}"
                )))
            }
            Some("quorum") => refused(
                "'quorum' is not supported; with --quorum-as-classic (BROKER_QUORUM_AS_CLASSIC=true) such queues run as \
                 durable classic ones",
            ),
            Some(other) => refused(&format!("'{other}' is not supported, only 'classic' is")),
            None => refused("it is no text"),
        }
    }
}

/// Returns a field value as a number, whatever its width.
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
        Queue::new("q".into(), 0, QueueTraits::default(), limits)
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
    fn a_consumer_of_a_higher_priority_has_its_turn_before_others() {
        let mut queue = queue(Limits::default());
        let mut arena = crate::arena::Arena::default();
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

    #[test]
    fn a_quorum_queue_is_refused_or_runs_as_a_classic_one_and_says_so() {
        let mut arguments = FieldTable::default();
        for (name, value) in [("x-queue-type", "quorum"), ("x-delivery-limit", "3")] {
            arguments.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let mut traits = QueueTraits {
            durable: true,
            auto_delete: false,
            arguments,
        };
        let refused = traits.check_type("queue 'q'", false, false).unwrap_err();
        assert!(refused.text.contains("--quorum-as-classic"), "{refused:?}");
        let said = traits.check_type("queue 'q'", false, true).unwrap();
        assert!(said.unwrap().contains("x-delivery-limit"));
        assert_eq!(traits.check_type("", true, true).unwrap_err().code, 406);
        traits.durable = false;
        assert_eq!(traits.check_type("", false, true).unwrap_err().code, 406);
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
        for name in ["x-message-ttl", "x-expires"] {
            let read = |ttl| read(name, AMQPValue::LongLongInt(ttl)).is_ok();
            assert!(read(315_360_000_000) && !read(315_360_000_001), "{name}");
        }
        assert_eq!(read("x-message-ttl", text("1")), Err(406));
        assert_eq!(read("x-overflow", text("burst")), Err(406));
        assert_eq!(read("x-dead-letter-routing-key", text("k")), Err(406));
        assert_eq!(read("x-single-active-consumer", text("true")), Err(406));
        for (name, value) in [
            ("x-queue-mode", text("fast")),
            ("x-queue-version", AMQPValue::LongInt(3)),
        ] {
            let mut arguments = FieldTable::default();
            arguments.insert(name.into(), value);
            let traits = QueueTraits {
                arguments,
                ..QueueTraits::default()
            };
            assert_eq!(traits.check_type("q", false, false).unwrap_err().code, 406);
        }
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
