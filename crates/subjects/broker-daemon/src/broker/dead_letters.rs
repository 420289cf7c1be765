//! Messages that leave a queue unread and are published to its dead-letter exchange, if it has one (as RabbitMQ;
//! `x-death`).

use std::rc::Rc;

use amq_protocol::protocol::basic::{AMQPProperties, gen_properties, parse_properties};
use amq_protocol::types::{AMQPValue, FieldArray, FieldTable};

use super::Broker;
use crate::carbon_copies::{Key, open_keys};
use crate::exchange::QueueId;
use crate::frame::is_too_deep;
use crate::message::{HEADER_FIXED, Message, Properties, push_short, unix_ms};
use crate::queue::{Entry, Queue, integer};

/// The reason why a message left its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Rejected,
    Expired,
    MaxLength,
}

impl Reason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::MaxLength => "maxlen",
        }
    }
}

/// A message on its way to a dead-letter exchange.
#[derive(Debug)]
pub(super) struct DeadLetter {
    pub(super) queue: QueueId,
    pub(super) message: Rc<Message>,
    pub(super) reason: Reason,
    /// The entry that leaves the queue with it; `None` for a message that never entered the queue.
    pub(super) entry: Option<Entry>,
}

impl Broker {
    /// Dead-letters a message that leaves its queue unread.
    pub(super) fn queue_dead_letter(&mut self, queue: QueueId, entry: Entry, reason: Reason) {
        self.counts.messages_dropped += 1;
        if self.has_dead_letters(queue) {
            self.scheduler.dead_letters.push_back(DeadLetter {
                queue,
                message: Rc::clone(&entry.message),
                reason,
                entry: Some(entry),
            });
        } else {
            self.store.settle(queue, &entry);
        }
    }

    /// Dead-letters a message that a full queue refused (x-overflow: reject-publish-dlx).
    pub(super) fn queue_refused(&mut self, queue: QueueId, message: &Rc<Message>) {
        if self.has_dead_letters(queue) {
            self.scheduler.dead_letters.push_back(DeadLetter {
                queue,
                message: Rc::clone(message),
                reason: Reason::MaxLength,
                entry: None,
            });
        }
    }

    fn has_dead_letters(&self, queue: QueueId) -> bool {
        let queue = self.topology.queue(queue);
        queue.is_some_and(|queue| queue.limits.dead_letter_exchange.is_some())
    }

    /// Publishes all dead letters now: before their queue is deleted, or an exchange or binding on their way.
    pub(super) fn finish_dead_letters(&mut self) {
        while let Some(dead) = self.scheduler.dead_letters.pop_front() {
            self.dead_letter(dead);
        }
    }

    /// Publishes a dead letter, then removes it from its queue.
    pub(super) fn dead_letter(&mut self, dead: DeadLetter) {
        if let Some(queue) = self.topology.queue(dead.queue)
            && let Some(exchange) = queue.limits.dead_letter_exchange.clone()
            && let Some((message, deaths, copies)) = self.dead_message(queue, &exchange, &dead)
        {
            let vhost = self.topology.vhost(queue.vhost);
            let mut queues = Vec::new();
            vhost.route_from(&exchange, &message, &copies, &mut queues);
            queues.retain(|to| {
                let to = self.topology.queue(*to);
                to.is_some_and(|to| !is_cycle(&deaths, &to.name, dead.reason))
            });
            if !queues.is_empty() {
                self.counts.messages_dead_lettered += 1;
            }
            self.enqueue_all(&queues, &Rc::new(message));
        }
        if let Some(entry) = dead.entry {
            self.store.settle(dead.queue, &entry);
        }
    }

    /// Returns the message with its new address, its `x-death`, and the further routing keys. `None` if its properties
    /// cannot be read even without headers.
    fn dead_message(
        &self,
        queue: &Queue,
        exchange: &str,
        dead: &DeadLetter,
    ) -> Option<(Message, FieldArray, Vec<Key>)> {
        let old = &dead.message;
        let scanned = Properties::scan(old.properties()).ok()?;
        let properties = readable(&scanned.without_expiration(old.properties()))?;
        let mut headers = properties.headers().clone().unwrap_or_default();
        let mut copies = open_keys(&headers);
        let deaths = add_death(&headers, queue, dead, &scanned, &copies);
        if queue.limits.dead_letter_key.is_some() {
            // A dead-letter routing key replaces all keys.
            copies.clear();
            headers = without(&headers, "CC");
        }
        if !headers.contains_key("x-first-death-queue") {
            let exchange = &*String::from_utf8_lossy(old.exchange());
            for (name, value) in [
                ("x-first-death-reason", dead.reason.name()),
                ("x-first-death-queue", &queue.name),
                ("x-first-death-exchange", exchange),
            ] {
                headers.insert(name.into(), long(value));
            }
        }
        headers.insert("x-death".into(), AMQPValue::FieldArray(deaths.clone()));
        let properties = properties.with_headers(headers);
        let encoded = gen_properties(&properties)(Vec::new().into()).ok()?;
        let (encoded, _) = encoded.into_inner();

        let length = old.address().len() + encoded.len() + old.body().len() + 64;
        let mut data = Vec::with_capacity(length);
        push_short(&mut data, exchange.as_bytes());
        let key = queue.limits.dead_letter_key.as_deref();
        push_short(&mut data, key.unwrap_or(old.routing_key()));
        let address = data.len();
        data.extend_from_slice(&old.header()[..HEADER_FIXED]);
        data.extend_from_slice(&encoded);
        let head = data.len();
        data.extend_from_slice(old.body());
        let facts = Properties::scan(&encoded).ok()?.facts().ok()?;
        let message = Message::new(data, address, head, facts, &self.memory.meter);
        Some((message, deaths, copies))
    }
}

/// Decodes the properties; without the headers, if those are nested too deeply or are not a table.
fn readable(properties: &[u8]) -> Option<AMQPProperties> {
    if !is_too_deep(properties)
        && let Ok((_, found)) = parse_properties(properties)
    {
        return Some(found);
    }
    let rest = Properties::scan(properties)
        .ok()?
        .without_headers(properties);
    Some(parse_properties(&*rest).ok()?.1)
}

/// Returns `x-death` with this death first: either the count of the entry with the same queue and reason grows, or a
/// new entry is added.
fn add_death(
    headers: &FieldTable,
    queue: &Queue,
    dead: &DeadLetter,
    properties: &Properties<'_>,
    copies: &[Key],
) -> FieldArray {
    let reason = dead.reason;
    let before = headers.inner().get("x-death").and_then(AMQPValue::as_array);
    let mut others = before.map_or_else(Vec::new, |deaths| deaths.as_slice().to_vec());
    let is_same = |death: &AMQPValue| {
        let table = death.as_field_table();
        table.is_some_and(|table| {
            is_text(table, "queue", &queue.name) && is_text(table, "reason", reason.name())
        })
    };
    let same = others.iter().position(is_same).map(|at| others.remove(at));
    let mut death = match same {
        Some(AMQPValue::FieldTable(table)) => table,
        _ => new_death(queue, dead, properties, copies),
    };
    let count = death.inner().get("count").and_then(integer).unwrap_or(0);
    death.insert("count".into(), count.saturating_add(1).into());
    others.insert(0, AMQPValue::FieldTable(death));
    others.into()
}

fn new_death(
    queue: &Queue,
    dead: &DeadLetter,
    properties: &Properties<'_>,
    copies: &[Key],
) -> FieldTable {
    let DeadLetter {
        message, reason, ..
    } = dead;
    let keys = std::iter::once(message.routing_key()).chain(copies.iter().map(|key| &**key));
    let keys: Vec<_> = keys.map(long_lossy).collect();
    let mut death = FieldTable::default();
    death.insert("reason".into(), long(reason.name()));
    death.insert("queue".into(), long(&queue.name));
    death.insert("time".into(), AMQPValue::Timestamp(unix_ms() / 1000));
    death.insert("exchange".into(), long_lossy(message.exchange()));
    death.insert("routing-keys".into(), AMQPValue::FieldArray(keys.into()));
    if let Some(expiration) = properties.expiration() {
        death.insert("original-expiration".into(), long_lossy(expiration));
    }
    death
}

/// Returns true if a message would circulate without any rejection: it died in that queue before, and neither that
/// death nor a later one was a rejection.
fn is_cycle(deaths: &FieldArray, queue: &str, reason: Reason) -> bool {
    let tables: Vec<&FieldTable> = deaths
        .as_slice()
        .iter()
        .filter_map(AMQPValue::as_field_table)
        .collect();
    let before = tables
        .iter()
        .position(|death| is_text(death, "queue", queue));
    let is_rejection = |death: &&FieldTable| is_text(death, "reason", "rejected");
    reason != Reason::Rejected && before.is_some_and(|at| !tables[..=at].iter().any(is_rejection))
}

/// Returns the headers without the one named.
fn without(headers: &FieldTable, name: &str) -> FieldTable {
    let mut rest = headers.inner().clone();
    rest.remove(name);
    rest.into()
}

fn is_text(table: &FieldTable, name: &str, text: &str) -> bool {
    matches!(table.inner().get(name), Some(AMQPValue::LongString(found)) if found.as_bytes() == text.as_bytes())
}

fn long(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn long_lossy(text: &[u8]) -> AMQPValue {
    long(&String::from_utf8_lossy(text))
}
