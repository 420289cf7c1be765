//! The queue class (AMQP 0-9-1, queue; replies as RabbitMQ's).

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::rc::Rc;

use amq_protocol::protocol::{AMQPClass, basic, queue};
use amq_protocol::types::FieldTable;

use daemon_kit::quote;

use super::Broker;
use super::replies::REPLY_TO;
use crate::channel::Consumer;
use crate::exchange::{Destination, Name, QueueId};
use crate::failure::{
    Failure, Result, access_refused, not_found, precondition_failed, resource_locked,
};
use crate::queue::{ConnectionId, Limits, Queue, QueueTraits, queue_type};

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
    match name.contains(['\r', '\n']) {
        true => name.replace(['\r', '\n'], "").into(),
        false => name.into(),
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
    pub(super) fn vhost_of(&self, id: ConnectionId) -> usize {
        self.connections
            .get(id)
            .map_or(0, |connection| connection.vhost)
    }

    /// Returns the queue that a method names; an empty name means the last declared queue.
    ///
    /// # Errors
    /// 404 if it does not exist, 405 if it is exclusive to another connection.
    pub(super) fn queue_of(
        &mut self,
        id: ConnectionId,
        number: u16,
        name: &str,
    ) -> Result<QueueId> {
        let name = self.full_name(id, number, name)?;
        self.find_queue(id, &name)
    }

    fn full_name(&mut self, id: ConnectionId, number: u16, name: &str) -> Result<Name> {
        if !name.is_empty() {
            return Ok(name.into());
        }
        let channel = self
            .connections
            .get_mut(id)
            .and_then(|connection| connection.channel(number));
        let last = channel.and_then(|channel| channel.last_queue.clone());
        last.ok_or_else(|| not_found("no previously declared queue"))
    }

    fn find_queue(&self, id: ConnectionId, name: &str) -> Result<QueueId> {
        let vhost = &self.vhosts[self.vhost_of(id)];
        let queue_id = *vhost.queues.get(name).ok_or_else(|| vhost.no_queue(name))?;
        match self.queues.get(queue_id).and_then(|queue| queue.owner) {
            Some(owner) if owner != id => Err(locked(name, &vhost.name)),
            _ => Ok(queue_id),
        }
    }

    /// Handles queue.declare.
    pub(super) fn declare_queue(
        &mut self,
        id: ConnectionId,
        number: u16,
        declare: &queue::Declare,
    ) -> Result {
        let nowait = declare.nowait;
        let asked = plain_name(declare.queue.as_str());
        if asked.starts_with(REPLY_TO) {
            return self.declare_replies(id, number, &asked, nowait);
        }
        let name: Name = match &*asked {
            "" if declare.passive => self.full_name(id, number, "")?,
            "" => format!("amq.gen-{}", random_name()).into(),
            name => name.into(),
        };
        let queue_id = match self.vhosts[self.vhost_of(id)].queues.get(&name) {
            _ if declare.passive => self.find_queue(id, &name)?,
            Some(existing) => self.check_same(id, *existing, declare)?,
            None if asked.starts_with("amq.") => {
                return Err(access_refused(format_args!(
                    "queue name '{name}' contains reserved prefix 'amq.*'"
                )));
            }
            None => self.create_queue(id, &name, declare)?,
        };
        if let Some(channel) = self.channel(id, number)? {
            channel.last_queue = Some(Rc::clone(&name));
        }
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return Ok(());
        };
        queue.used = self.now;
        let ok = queue::DeclareOk {
            queue: (*name).into(),
            message_count: u32::try_from(queue.len()).unwrap_or(u32::MAX),
            consumer_count: u32::try_from(queue.consumers.len()).unwrap_or(u32::MAX),
        };
        let ticket = queue.ticket;
        if !nowait {
            let ok = queue::AMQPMethod::DeclareOk(ok);
            self.answer(id, number, ticket, AMQPClass::Queue(ok))?;
        }
        Ok(())
    }

    /// # Errors
    /// 405 if the queue is exclusive to another connection, 406 if anything else differs.
    fn check_same(
        &self,
        id: ConnectionId,
        existing: QueueId,
        declare: &queue::Declare,
    ) -> Result<QueueId> {
        let queue = self
            .queues
            .get(existing)
            .expect("the name of a queue leads to it");
        let vhost = &self.vhosts[queue.vhost].name;
        if queue.owner != declare.exclusive.then_some(id) {
            return Err(locked(&queue.name, vhost));
        }
        let what = format!("queue '{}' in vhost '{vhost}'", queue.name);
        same("durable", &what, is_durable(declare), queue.traits.durable)?;
        same(
            "auto_delete",
            &what,
            declare.auto_delete,
            queue.traits.auto_delete,
        )?;
        for name in COMPARED {
            same_argument(name, &what, &declare.arguments, &queue.traits.arguments)?;
        }
        let (received, current) = (&declare.arguments, &queue.traits.arguments);
        // Without a type it is a classic queue.
        if queue_type(received) != queue_type(current) {
            same_argument("x-queue-type", &what, received, current)?;
        }
        Ok(existing)
    }

    fn create_queue(
        &mut self,
        id: ConnectionId,
        name: &Name,
        declare: &queue::Declare,
    ) -> Result<QueueId> {
        let vhost = self.vhost_of(id);
        let limits = Limits::read(&declare.arguments, name, &self.vhosts[vhost].name)?;
        let traits = QueueTraits {
            durable: is_durable(declare),
            auto_delete: declare.auto_delete,
            arguments: declare.arguments.clone(),
        };
        let what = format!("queue '{name}' in vhost '{}'", self.vhosts[vhost].name);
        let as_classic = self.config.quorum_as_classic;
        let warning = traits.check_type(&what, declare.exclusive, as_classic)?;
        let owner = declare.exclusive.then_some(id);
        if traits.durable {
            self.check_store()?;
        }
        let mut queue = Queue::new(Rc::clone(name), vhost, traits, limits, owner);
        queue.used = self.now;
        let queue_id = self.queues.insert(queue);
        self.vhosts[vhost].queues.insert(Rc::clone(name), queue_id);
        self.store_queue(queue_id);
        self.topology += 1;
        if owner.is_some()
            && let Some(connection) = self.connections.get_mut(id)
        {
            connection.exclusive.push(queue_id);
        }
        self.set_timer(queue_id);
        if let Some(warning) = warning {
            let line = format_args!("warning: queue {}: {warning}", quote(name));
            self.log_lines.warn(line);
        }
        Ok(queue_id)
    }

    /// Handles queue.purge.
    pub(super) fn purge_queue(
        &mut self,
        id: ConnectionId,
        number: u16,
        purge: &queue::Purge,
    ) -> Result {
        let queue_id = self.queue_of(id, number, purge.queue.as_str())?;
        let before = self.recorded;
        let count = self.drop_ready(queue_id);
        let ticket = self.ticket_since(before);
        if !purge.nowait {
            let ok = queue::PurgeOk {
                message_count: count,
            };
            let ok = queue::AMQPMethod::PurgeOk(ok);
            self.answer(id, number, ticket, AMQPClass::Queue(ok))?;
        }
        Ok(())
    }

    /// Drops all ready messages. Returns their number.
    fn drop_ready(&mut self, id: QueueId) -> u32 {
        let dropped = self
            .queues
            .get_mut(id)
            .map(Queue::take_all)
            .unwrap_or_default();
        self.counts.messages_dropped += dropped.len() as u64;
        self.recorded += u64::from(dropped.iter().any(|entry| entry.is_stored));
        for entry in &dropped {
            self.on_removed(id, entry);
        }
        u32::try_from(dropped.len()).unwrap_or(u32::MAX)
    }

    /// Handles queue.delete. A missing queue is no error (as RabbitMQ since 3.2).
    pub(super) fn delete_queue(
        &mut self,
        id: ConnectionId,
        number: u16,
        delete: &queue::Delete,
    ) -> Result {
        let name = self.full_name(id, number, &plain_name(delete.queue.as_str()))?;
        let mut count = 0;
        let mut cancelled = Vec::new();
        // Even if it is missing: the record of its deletion may still be on its way to the disk.
        let mut ticket = self.ticket();
        if self.vhosts[self.vhost_of(id)].queues.contains_key(&name) {
            let queue_id = self.find_queue(id, &name)?;
            let queue = self
                .queues
                .get(queue_id)
                .expect("the name of a queue leads to it");
            let vhost = &self.vhosts[queue.vhost].name;
            if delete.if_unused && !queue.consumers.is_empty() {
                return Err(precondition_failed(format_args!(
                    "queue '{name}' in vhost '{vhost}' in use"
                )));
            }
            if delete.if_empty && queue.len() > 0 {
                return Err(precondition_failed(format_args!(
                    "queue '{name}' in vhost '{vhost}' not empty"
                )));
            }
            count = u32::try_from(queue.len()).unwrap_or(u32::MAX);
            let before = self.recorded;
            cancelled = self.take_queue(queue_id);
            ticket = self.ticket_since(before);
        }
        let mut answered = Ok(());
        if !delete.nowait {
            let ok = queue::DeleteOk {
                message_count: count,
            };
            let ok = queue::AMQPMethod::DeleteOk(ok);
            answered = self.answer(id, number, ticket, AMQPClass::Queue(ok));
        }
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
            let connection = self.connections.get(consumer.connection);
            if connection.is_some_and(|found| found.capabilities.consumer_cancel_notify) {
                let cancel = basic::Cancel {
                    consumer_tag: consumer.tag().into(),
                    nowait: true,
                };
                self.send_basic(
                    consumer.connection,
                    consumer.channel,
                    basic::AMQPMethod::Cancel(cancel),
                );
            }
        }
    }

    /// Removes a queue with its messages, bindings and consumers. Returns the consumers whose channels are still open.
    fn take_queue(&mut self, id: QueueId) -> Vec<Consumer> {
        self.finish_dead_letters();
        self.drop_ready(id);
        let Some((vhost, sources)) = self
            .queues
            .get_mut(id)
            .map(|queue| (queue.vhost, std::mem::take(&mut queue.sources)))
        else {
            return Vec::new();
        };
        for source in &sources {
            self.forget_destination(vhost, source, &Destination::Queue(id));
        }
        let Some(queue) = self.queues.remove(id) else {
            return Vec::new();
        };
        self.topology += 1;
        self.unstore_queue(id, &queue);
        self.vhosts[vhost].queues.remove(&queue.name);
        if let Some(owner) = queue
            .owner
            .and_then(|owner| self.connections.get_mut(owner))
        {
            owner.exclusive.retain(|other| *other != id);
        }
        let mut cancelled = Vec::new();
        for consumer_id in queue.consumers {
            let Some(consumer) = self.consumers.remove(consumer_id) else {
                continue;
            };
            let connection = self.connections.get_mut(consumer.connection);
            if let Some(channel) = connection.and_then(|found| found.channel(consumer.channel)) {
                channel.consumers.remove(consumer.tag());
                channel.passed_over.retain(|other| *other != consumer_id);
                cancelled.push(consumer);
            }
        }
        cancelled
    }
}

fn locked(name: &str, vhost: &str) -> Failure {
    resource_locked(format_args!(
        "cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. It could be originally declared \
        on another connection or the exclusive property value does not match that of the original declaration."
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

fn show_value(value: &amq_protocol::types::AMQPValue) -> String {
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
