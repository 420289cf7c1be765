//! Durable state: exchanges, queues and bindings, and persistent messages in durable queues.
//!
//! Without a log, nothing here has an effect.

use std::collections::HashMap;
use std::rc::Rc;

use super::Broker;
use anyhow::Context as _;

use crate::channel::Channel;
use crate::definitions::{Definition, End, Object};
use crate::exchange::{Binding, Destination, Exchange, Name, QueueId, Traits};
use crate::failure::{Result, disk_failed, precondition_failed};
use crate::log::{self, Log, Recovered, State, Stored};
use crate::message::{HEADER_FIXED, Message, Properties, unix_ms};
use crate::queue::{Entry, Limits, Queue};
use crate::vhost::Vhost;

impl Broker {
    /// Takes over an opened log and restores its content.
    ///
    /// # Errors
    /// Content of the log that this version does not understand.
    pub(crate) fn open_store(&mut self, mut log: Log, recovered: Recovered) -> anyhow::Result<()> {
        for (key, value) in &recovered.meta {
            let definition = Definition::decode(key, value).with_context(|| {
                format!("the log holds a definition that this version does not understand: {key:?}")
            })?;
            self.restore(definition);
        }
        let ids = self.queues.ids().into_iter();
        let queues: HashMap<u32, QueueId> = ids.map(|id| (id.serial, id)).collect();
        let unix = unix_ms();
        self.restored = 0;
        for stored in recovered.messages {
            let mut holding = Vec::new();
            for serial in stored.queues() {
                match queues.get(serial) {
                    Some(queue) => holding.push(*queue),
                    // Otherwise it would stay on disk for ever, and appear in the next queue with this number.
                    None => log.settle(*serial, stored.id),
                }
            }
            self.restored += usize::from(!holding.is_empty());
            self.restore_message(stored, unix, &holding);
        }
        self.log = Some(log);
        for id in queues.into_values() {
            self.set_timer(id);
        }
        Ok(())
    }

    fn restore(&mut self, definition: Definition) {
        let index = self.vhost_named(&definition.vhost);
        let vhost = &mut self.vhosts[index];
        match definition.object {
            Object::Exchange(name, traits) => {
                vhost.exchanges.insert(name.into(), Exchange::new(traits));
            }
            Object::Queue(name, serial, traits) => {
                let limits = Limits::read(&traits.arguments, &name).unwrap_or_default();
                let name: Name = name.into();
                let queue = Queue::new(Rc::clone(&name), index, traits, limits);
                let id = self.queues.insert_as(serial, queue);
                vhost.queues.insert(name, id);
            }
            Object::Binding(source, to, binding) => {
                let to = match to {
                    End::Queue(name) => vhost.queues.get(&*name).copied().map(Destination::Queue),
                    End::Exchange(name) => Some(Destination::Exchange(name.into())),
                };
                if let Some(to) = to {
                    self.add_binding(index, &source, &to, &binding);
                }
            }
        }
    }

    pub(crate) fn vhost_index(&self, name: &str) -> Option<usize> {
        self.vhosts.iter().position(|vhost| &*vhost.name == name)
    }

    /// Returns the index of a virtual host. One that is no longer among the options keeps its content.
    fn vhost_named(&mut self, name: &str) -> usize {
        self.vhost_index(name).unwrap_or_else(|| {
            self.vhosts.push(Vhost::new(name));
            self.vhosts.len() - 1
        })
    }

    fn restore_message(&mut self, stored: Stored, unix: u64, queues: &[QueueId]) {
        // They were valid when they were published.
        let facts = Properties::scan(&stored.properties()[HEADER_FIXED..])
            .and_then(|properties| properties.facts())
            .unwrap_or_default();
        let (id, age) = (stored.id, unix.saturating_sub(stored.published_ms));
        let Stored {
            data,
            address,
            head,
            ..
        } = stored;
        let message = Rc::new(Message::new(data, address, head, facts, &self.memory));
        message.log_id.set(id);
        for id in queues {
            if let Some(queue) = self.queues.get_mut(*id) {
                queue.push_restored(Rc::clone(&message), self.now, age);
            }
        }
    }

    /// Checks if durable definitions can be stored now.
    ///
    /// # Errors
    /// 406 while the disk is full or failed.
    pub(super) fn check_store(&mut self) -> Result {
        let state = self.log.as_ref().map(Log::state);
        self.log_takes = matches!(state, Some(State::Running) | None);
        match state {
            Some(State::Full) => Err(precondition_failed(
                "the disk is full: nothing can be stored",
            )),
            Some(State::Failed(_)) => Err(disk_failed()),
            Some(State::Running) | None => Ok(()),
        }
    }

    /// Returns true if a published message can be stored, or need not be.
    pub(super) fn can_store(&self, queues: &[QueueId], message: &Message) -> bool {
        let is_stored = |id: &QueueId| self.queues.get(*id).is_some_and(Queue::is_stored);
        let length = message.header().len() + message.body().len();
        let has_room = |log: &Log| self.log_takes && log.has_room(length);
        !message.facts().persistent
            || self.log.as_ref().is_none_or(has_room)
            || !queues.iter().any(is_stored)
    }

    /// Stores a message for its durable queues. Returns the ticket to wait for.
    ///
    /// This also applies while the disk is full: a dead letter is no larger than its original, which is settled after
    /// it, so that one of the two survives.
    pub(super) fn store(&mut self, queues: &[QueueId], message: &Message) -> Option<u64> {
        let log = self.log.as_mut()?;
        if !message.facts().persistent {
            return None;
        }
        let is_stored = |id: &&QueueId| self.queues.get(**id).is_some_and(Queue::is_stored);
        let stored = queues.iter().filter(is_stored);
        let serials: Vec<u32> = stored.map(|id| id.serial).collect();
        if serials.is_empty() {
            return None;
        }
        let id = log.publish(
            &serials,
            &log::Message {
                published_ms: unix_ms(),
                exchange: message.exchange(),
                routing_key: message.routing_key(),
                properties: message.header(),
                body: message.body(),
            },
        );
        message.log_id.set(id);
        Some(log.ticket())
    }

    /// Records that a message has left a queue for good.
    pub(super) fn on_removed(&mut self, queue: QueueId, entry: &Entry) {
        if entry.is_stored
            && let Some(log) = &mut self.log
        {
            log.settle(queue.serial, entry.message.log_id.get());
        }
    }

    /// Records a new queue.
    pub(super) fn store_queue(&mut self, id: QueueId) {
        let (Some(queue), Some(log)) = (self.queues.get_mut(id), &mut self.log) else {
            return;
        };
        if queue.is_stored() {
            let definition = queue_definition(&self.vhosts[queue.vhost], id, queue);
            log.put_meta(&definition.key(), &definition.encode());
            queue.ticket = log.ticket();
            self.recorded += 1;
        }
    }

    /// Records that a queue is deleted together with its ready messages; its unacknowledged ones are still with
    /// consumers.
    pub(super) fn unstore_queue(&mut self, id: QueueId, queue: &Queue) {
        let unacked = match queue.unacked {
            0 => Vec::new(),
            _ => self.stored_unacked(id),
        };
        if let Some(log) = &mut self.log
            && queue.is_stored()
        {
            self.recorded += 1;
            log.delete_queue(id.serial, unacked);
            log.delete_meta(&queue_definition(&self.vhosts[queue.vhost], id, queue).key());
        }
    }

    /// Returns the log's ids of a queue's messages that channels hold unacknowledged.
    fn stored_unacked(&self, id: QueueId) -> Vec<u64> {
        let connections = self.connections.iter();
        let channels = connections.flat_map(|(_, connection)| connection.channels());
        let delivered = channels.flat_map(Channel::held);
        let of_queue = delivered.filter(|held| held.queue == id && held.entry.is_stored);
        of_queue
            .map(|held| held.entry.message.log_id.get())
            .collect()
    }

    /// Records that an exchange was created or deleted.
    pub(super) fn store_exchange(
        &mut self,
        vhost: usize,
        name: &str,
        exchange: &Traits,
        is_there: bool,
    ) {
        let Some(log) = &mut self.log else { return };
        if !exchange.durable {
            return;
        }
        let definition = Definition {
            vhost: self.vhosts[vhost].name.to_string(),
            object: Object::Exchange(name.to_owned(), exchange.clone()),
        };
        keep(log, &definition, is_there);
        self.recorded += 1;
    }

    /// Returns true if a binding is durable, which means that both of its ends are.
    pub(super) fn is_durable_binding(&self, vhost: usize, source: &str, to: &Destination) -> bool {
        let exchanges = &self.vhosts[vhost].exchanges;
        let is_durable = |name: &str| {
            let exchange = exchanges.get(name);
            exchange.is_none_or(|exchange| exchange.traits.durable)
        };
        is_durable(source)
            && match to {
                Destination::Exchange(name) => is_durable(name),
                Destination::Queue(id) => self.queues.get(*id).is_some_and(Queue::is_stored),
            }
    }

    /// Records that a binding was created or removed.
    pub(super) fn store_binding(
        &mut self,
        vhost: usize,
        source: &str,
        to: &Destination,
        binding: &Binding,
        is_there: bool,
    ) {
        let is_durable = self.is_durable_binding(vhost, source, to);
        let Some(log) = self.log.as_mut().filter(|_| is_durable) else {
            return;
        };
        let to = match to {
            Destination::Exchange(name) => End::Exchange(name.to_string()),
            Destination::Queue(id) => match self.queues.get(*id) {
                Some(queue) => End::Queue(queue.name.to_string()),
                None => return,
            },
        };
        let definition = Definition {
            vhost: self.vhosts[vhost].name.to_string(),
            object: Object::Binding(source.to_owned(), to, binding.clone()),
        };
        keep(log, &definition, is_there);
        self.recorded += 1;
    }

    /// Hands the gathered records to the disk.
    pub(crate) fn flush_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
            self.flushed = log.ticket();
        }
    }

    /// Returns true if records were gathered since the last flush.
    pub(super) fn has_records(&self) -> bool {
        self.log
            .as_ref()
            .is_some_and(|log| log.ticket() > self.flushed)
    }

    /// Updates the progress of the log, and the amount of data on its way to the disk.
    pub(super) fn watch_log(&mut self) {
        let Some(log) = &self.log else { return };
        self.synced = log.synced();
        let state = log.state();
        self.log_takes = matches!(state, State::Running);
        self.log_failed = matches!(state, State::Failed(_));
        self.is_congested = log.congested();
        self.send_answers();
    }

    /// Writes the remaining records.
    ///
    /// # Errors
    /// Errors of the log: not everything is on disk.
    pub(crate) fn close_store(&mut self) -> anyhow::Result<()> {
        let closed = self.log.take().map(Log::close).transpose();
        closed.context("cannot write the rest of the log")?;
        Ok(())
    }
}

fn keep(log: &mut Log, definition: &Definition, is_there: bool) {
    if is_there {
        log.put_meta(&definition.key(), &definition.encode());
    } else {
        log.delete_meta(&definition.key());
    }
}

fn queue_definition(vhost: &Vhost, id: QueueId, queue: &Queue) -> Definition {
    let (name, traits) = (queue.name.to_string(), queue.traits.clone());
    Definition {
        vhost: vhost.name.to_string(),
        object: Object::Queue(name, id.serial, traits),
    }
}
