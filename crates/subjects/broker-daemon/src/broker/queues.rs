//! The queue class (AMQP 0-9-1, queue; replies as RabbitMQ's).

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::rc::Rc;

use amq_protocol::protocol::{AMQPClass, basic, queue};
use amq_protocol::types::{AMQPValue, FieldTable};
use daemon_kit::quote;

use super::Broker;
use crate::channel::ChannelId;
use crate::exchange::{Destination, Name, QueueId};
use crate::failure::{
    Failure, Result, access_refused, not_found, precondition_failed, resource_locked, unknown_id,
};
use crate::incoming::REPLY_TO;
use crate::queue::{Consumer, Limits, Queue, QueueSettings, queue_type};
use crate::vhost::Vhost;

/// Arguments that must be equal when a queue is declared again.
const COMPARED: [&str; 19] = [
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-max-priority",
    "x-queue-mode",
    "x-queue-version",
    "x-queue-master-locator",
    "x-single-active-consumer",
    "x-delivery-limit",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
    "x-dead-letter-strategy",
];

/// Returns a name without line breaks: they are ignored when queues and exchanges are declared, deleted and bound (as
/// RabbitMQ).
pub(super) fn plain_name(name: &str) -> Cow<'_, str> {
    if name.contains(['\r', '\n']) {
        name.replace(['\r', '\n'], "").into()
    } else {
        name.into()
    }
}

/// Returns a unique name of 22 characters.
pub(super) fn random_name() -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut name = String::new();
    for _ in 0..2 {
        // Each call has a new key from the system's random numbers.
        let mut bits = RandomState::new().build_hasher().finish();
        for _ in 0..11 {
            name.push(char::from(LETTERS[(bits & 63) as usize]));
            bits >>= 6;
        }
    }
    name
}

impl Broker {
    pub(super) fn vhost_of(&self, id: ChannelId) -> usize {
        self.connections[id.connection].vhost
    }

    /// Returns the queue that a method names; an empty name means the last declared queue.
    ///
    /// # Errors
    /// 404 if it does not exist, 405 if it is exclusive to another connection.
    pub(super) fn queue_of(&mut self, id: ChannelId, name: &str) -> Result<QueueId> {
        let name = self.full_name(id, name)?;
        self.find_queue(id, &name)
    }

    pub(super) fn full_name(&mut self, id: ChannelId, name: &str) -> Result<Name> {
        if !name.is_empty() {
            return Ok(name.into());
        }
        let last = self.channel(id)?.last_queue.clone();
        last.ok_or_else(|| not_found("no previously declared queue"))
    }

    pub(super) fn find_queue(&self, id: ChannelId, name: &str) -> Result<QueueId> {
        let vhost = self.topology.vhost(self.vhost_of(id));
        let queue_id = vhost.queue(name).ok_or_else(|| vhost.no_queue(name))?;
        match self.topology.queue(queue_id).and_then(|queue| queue.owner) {
            Some(owner) if owner != id.connection => Err(locked(name, vhost)),
            _ => Ok(queue_id),
        }
    }

    pub(super) fn declare_queue(&mut self, id: ChannelId, declare: &queue::Declare) -> Result {
        let asked = plain_name(declare.queue.as_str());
        if asked.starts_with(REPLY_TO) {
            return self.declare_replies(id, &asked, declare.nowait);
        }
        let name: Name = match &*asked {
            "" if declare.passive => self.full_name(id, "")?,
            "" => format!("amq.gen-{}", random_name()).into(),
            name => name.into(),
        };
        let queue_id = match self.topology.vhost(self.vhost_of(id)).queue(&name) {
            _ if declare.passive => self.find_queue(id, &name)?,
            Some(existing) => self.check_same(id, existing, declare)?,
            None if asked.starts_with("amq.") => {
                return Err(access_refused(format_args!(
                    "queue name '{name}' contains reserved prefix 'amq.*'"
                )));
            }
            None => self.create_queue(id, &name, declare)?,
        };
        self.channel(id)?.last_queue = Some(Rc::clone(&name));
        let queue = self.topology.queue_mut(queue_id).ok_or_else(unknown_id)?;
        queue.touch(self.now);
        let ok = queue::AMQPMethod::DeclareOk(queue::DeclareOk {
            queue: (*name).into(),
            message_count: to_long(queue.len()),
            consumer_count: to_long(queue.consumer_count()),
        });
        let ticket = queue.ticket;
        self.answer_unless(declare.nowait, id, ticket, AMQPClass::Queue(ok))
    }

    /// # Errors
    /// 405 if the queue is exclusive to another connection, 406 if anything else differs.
    fn check_same(
        &self,
        id: ChannelId,
        existing: QueueId,
        declare: &queue::Declare,
    ) -> Result<QueueId> {
        let queue = self.topology.queue(existing).ok_or_else(unknown_id)?;
        if queue.owner != declare.exclusive.then_some(id.connection) {
            return Err(locked(&queue.name, self.topology.vhost(queue.vhost)));
        }
        let what = self.topology.describe(queue);
        let settings = &queue.settings;
        same("durable", &what, is_durable(declare), settings.durable)?;
        let auto_delete = declare.auto_delete;
        same("auto_delete", &what, auto_delete, settings.auto_delete)?;
        let (received, current) = (&declare.arguments, &settings.arguments);
        for name in COMPARED {
            same_argument(name, &what, received, current)?;
        }
        // Without a type it is a classic queue.
        if queue_type(received) != queue_type(current) {
            same_argument("x-queue-type", &what, received, current)?;
        }
        Ok(existing)
    }

    fn create_queue(
        &mut self,
        id: ChannelId,
        name: &Name,
        declare: &queue::Declare,
    ) -> Result<QueueId> {
        let vhost = self.vhost_of(id);
        let what = self.topology.vhost(vhost).describe("queue", name);
        let limits = Limits::read(&declare.arguments, &what)?;
        let settings = QueueSettings {
            durable: is_durable(declare),
            auto_delete: declare.auto_delete,
            arguments: declare.arguments.clone(),
        };
        let as_classic = self.config.quorum_as_classic;
        let warning = settings.check_type(&what, declare.exclusive, as_classic)?;
        let owner = declare.exclusive.then_some(id.connection);
        if settings.durable {
            self.store.check()?;
        }
        let mut queue = Queue::new(Rc::clone(name), vhost, settings, limits);
        queue.owner = owner;
        queue.touch(self.now);
        let queue_id = self.topology.add_queue(queue);
        self.store_queue(queue_id);
        if owner.is_some() {
            let connection = &mut self.connections[id.connection];
            connection.exclusive.push(queue_id);
        }
        self.set_timer(queue_id);
        if let Some(warning) = warning {
            let line = format_args!("warning: queue {}: {warning}", quote(name));
            self.operator_log.warn(line);
        }
        Ok(queue_id)
    }

    pub(super) fn purge_queue(&mut self, id: ChannelId, purge: &queue::Purge) -> Result {
        let queue_id = self.queue_of(id, purge.queue.as_str())?;
        let before = self.store.recorded();
        let message_count = self.drop_ready(queue_id);
        let ticket = self.store.ticket_since(before);
        let ok = queue::AMQPMethod::PurgeOk(queue::PurgeOk { message_count });
        self.answer_unless(purge.nowait, id, ticket, AMQPClass::Queue(ok))
    }

    /// Drops all ready messages. Returns their number.
    fn drop_ready(&mut self, id: QueueId) -> u32 {
        let dropped = self.topology.queue_mut(id).map(Queue::take_all);
        let dropped = dropped.unwrap_or_default();
        self.counts.messages_dropped += dropped.len() as u64;
        self.store.settle_all(id, &dropped);
        to_long(dropped.len())
    }

    /// Handles queue.delete. A missing queue is no error (as RabbitMQ since 3.2).
    pub(super) fn delete_queue(&mut self, id: ChannelId, delete: &queue::Delete) -> Result {
        let name = self.full_name(id, &plain_name(delete.queue.as_str()))?;
        let mut message_count = 0;
        let mut cancelled = Vec::new();
        // Even if it is missing: the record of its deletion may still be on its way to the disk.
        let mut ticket = self.store.ticket();
        let vhost = self.topology.vhost(self.vhost_of(id));
        if vhost.queue(&name).is_some() {
            let queue_id = self.find_queue(id, &name)?;
            let queue = self.topology.queue(queue_id).ok_or_else(unknown_id)?;
            for (is_required, is_met, problem) in [
                (delete.if_unused, queue.consumer_count() == 0, "in use"),
                (delete.if_empty, queue.len() == 0, "not empty"),
            ] {
                if is_required && !is_met {
                    let what = self.topology.describe(queue);
                    return Err(precondition_failed(format_args!("{what} {problem}")));
                }
            }
            message_count = to_long(queue.len());
            let before = self.store.recorded();
            cancelled = self.take_queue(queue_id);
            ticket = self.store.ticket_since(before);
        }
        let ok = queue::AMQPMethod::DeleteOk(queue::DeleteOk { message_count });
        let answered = self.answer_unless(delete.nowait, id, ticket, AMQPClass::Queue(ok));
        // In RabbitMQ's order: a client that deletes the queue it consumes from reads the answer first.
        self.announce_cancelled(&cancelled);
        answered
    }

    /// Removes a queue with its messages, bindings and consumers, and notifies the consumers' clients.
    pub(super) fn remove_queue(&mut self, id: QueueId) {
        let cancelled = self.take_queue(id);
        self.announce_cancelled(&cancelled);
    }

    /// Sends basic.cancel for consumers of a deleted queue to the clients that support it.
    fn announce_cancelled(&mut self, cancelled: &[Consumer]) {
        for consumer in cancelled {
            let connection = self.connections.get(consumer.channel.connection);
            if connection.is_some_and(|found| found.capabilities().consumer_cancel_notify) {
                let cancel = basic::AMQPMethod::Cancel(basic::Cancel {
                    consumer_tag: consumer.tag().into(),
                    nowait: true,
                });
                self.send_basic(consumer.channel, cancel);
            }
        }
    }

    /// Removes a queue with its messages, bindings and consumers. Returns the consumers whose channels are still open.
    fn take_queue(&mut self, id: QueueId) -> Vec<Consumer> {
        self.finish_dead_letters();
        self.drop_ready(id);
        if let Some(queue) = self.topology.queue(id) {
            let vhost = queue.vhost;
            let to = Destination::Queue(id);
            for source in self.topology.take_sources(vhost, &to) {
                self.forget_destination(vhost, &source, &to);
            }
        }
        let Some(mut queue) = self.topology.remove_queue(id) else {
            return Vec::new();
        };
        self.scheduler.end_timer(id, queue.end_timer());
        self.unstore_queue(id, &queue);
        let owner = queue.owner.and_then(|id| self.connections.get_mut(id));
        if let Some(owner) = owner {
            owner.exclusive.retain(|other| *other != id);
        }
        let mut cancelled = Vec::new();
        for consumer_id in queue.into_consumers() {
            let Some(consumer) = self.topology.remove_consumer(consumer_id) else {
                continue;
            };
            if let Some(channel) = self.find_channel(consumer.channel) {
                channel.remove_consumer(consumer.tag());
                cancelled.push(consumer);
            }
        }
        cancelled
    }
}

/// Converts a count to a long integer of AMQP.
pub(super) fn to_long(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn locked(name: &str, vhost: &Vhost) -> Failure {
    resource_locked(format_args!(
        "cannot obtain exclusive access to locked {}. It could be originally declared on another connection or the \
         exclusive property value does not match that of the original declaration.",
        vhost.describe("queue", name)
    ))
}

/// # Errors
/// 406 if the values differ.
pub(super) fn same<T: Copy + PartialEq + std::fmt::Display>(
    name: &str,
    what: &str,
    received: T,
    current: T,
) -> Result {
    if received == current {
        return Ok(());
    }
    Err(precondition_failed(format_args!(
        "inequivalent arg '{name}' for {what}: received '{received}' but current is '{current}'"
    )))
}

/// # Errors
/// 406 if the values differ. Numbers are compared by value.
pub(super) fn same_argument(
    name: &str,
    what: &str,
    received: &FieldTable,
    current: &FieldTable,
) -> Result {
    let show = |table: &FieldTable| table.inner().get(name).map(show_value);
    let (received, current) = (show(received), show(current));
    if received == current {
        return Ok(());
    }
    let or_none = |value: Option<String>| {
        value.map_or("none".to_owned(), |value| format!("the value {value}"))
    };
    Err(precondition_failed(format_args!(
        "inequivalent arg '{name}' for {what}: received {} but current is {}",
        or_none(received),
        or_none(current)
    )))
}

fn show_value(value: &AMQPValue) -> String {
    if let Some(number) = crate::queue::integer(value) {
        return format!("'{number}' of type 'signedint'");
    }
    match value.as_long_string() {
        Some(text) => format!("'{text}' of type 'longstr'"),
        None => format!("{value:?}"),
    }
}

/// Returns true if a queue survives a restart. An exclusive queue does not, even if it is declared durable (as
/// RabbitMQ).
fn is_durable(declare: &queue::Declare) -> bool {
    declare.durable && !declare.exclusive
}
