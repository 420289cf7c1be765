//! Durable state: exchanges, queues and bindings, and persistent messages in durable queues.
//!
//! Without a log, nothing here has an effect.

use std::collections::HashMap;
use std::mem;
use std::rc::Rc;

use anyhow::Context as _;

use super::Broker;
use crate::channel::{Channel, ChannelId};
use crate::definitions::{Definition, End, Object};
use crate::exchange::{Binding, Destination, ExchangeSettings, QueueId};
use crate::failure::{Result, disk_failed, precondition_failed};
use crate::log::{self, Log, Recovered, State, Stored};
use crate::message::{HEADER_FIXED, Message, Properties, unix_ms};
use crate::queue::{Entry, Queue};

/// The log as it was at the last [`Store::watch`], and the channels that wait for it.
#[derive(Debug, Default)]
pub(super) struct Store {
    log: Option<Log>,
    /// The ticket up to which everything is on disk.
    synced: u64,
    /// The ticket of the last flush to the writer.
    flushed: u64,
    /// True while the disk is full or the log has failed.
    is_out: bool,
    /// Set once the log has failed for good.
    has_failed: bool,
    /// A change of these two that was not logged yet.
    news: Option<String>,
    /// True if too many bytes are on their way to the disk.
    is_congested: bool,
    /// Counts records about durable definitions, and purges of stored messages.
    recorded: u64,
    /// True if the log has made progress since the last [`Store::take_progress`].
    has_progress: bool,
    /// Channels with answers that wait for the log.
    pub(super) answering: Vec<ChannelId>,
    /// Channels with confirms that wait for the log.
    pub(super) confirming: Vec<ChannelId>,
}

impl Store {
    /// Updates the progress of the log, and the amount of data on its way to the disk.
    pub(super) fn watch(&mut self) {
        let Some(log) = &self.log else { return };
        let synced = log.synced();
        self.has_progress |= synced != self.synced;
        self.synced = synced;
        let state = log.state();
        let before = (self.is_out, self.has_failed);
        self.is_out = !matches!(state, State::Running);
        self.has_failed = matches!(state, State::Failed(_));
        if before != (self.is_out, self.has_failed) {
            self.news = Some(match state {
                State::Running => "the disk has room again: messages are stored".to_owned(),
                State::Full => "the disk is full: nothing is stored until it has room".to_owned(),
                State::Failed(error) => {
                    let error = anyhow::Error::new(error);
                    format!(
                        "the disk failed: nothing is stored until the broker is started again: {error:#}"
                    )
                }
            });
        }
        self.is_congested = log.congested();
    }

    pub(super) fn take_news(&mut self) -> Option<String> {
        self.news.take()
    }

    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    pub(super) fn is_out(&self) -> bool {
        self.is_out
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    pub(super) fn is_congested(&self) -> bool {
        self.is_congested
    }

    /// Returns the ticket of everything added to the log until now; 0 without a log.
    pub(super) fn ticket(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::ticket)
    }

    pub(super) fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Returns the ticket to wait for after a possible change of durable definitions; 0 if nothing changed. `before` is
    /// [`Store::recorded`] before the change.
    pub(super) fn ticket_since(&self, before: u64) -> u64 {
        if self.recorded == before {
            return 0;
        }
        self.ticket()
    }

    /// Checks if durable definitions can be stored now.
    ///
    /// # Errors
    /// 406 while the disk is full or failed.
    pub(super) fn check(&mut self) -> Result {
        self.watch();
        if self.has_failed {
            Err(disk_failed())
        } else if self.is_out {
            Err(precondition_failed(
                "the disk is full: nothing can be stored",
            ))
        } else {
            Ok(())
        }
    }

    /// Returns true if a published message can be stored.
    fn has_room(&self, message: &Message) -> bool {
        let length = message.header().len() + message.body().len();
        let log = self.log.as_ref();
        log.is_none_or(|log| !self.is_out && log.has_room(length))
    }

    /// Records that a message has left a queue for good.
    pub(super) fn settle(&mut self, queue: QueueId, entry: &Entry) {
        if entry.is_stored
            && let Some(log) = &mut self.log
        {
            log.settle(queue.serial, entry.message.log_id.get());
        }
    }

    /// Records that a queue was purged of these messages.
    pub(super) fn settle_all(&mut self, queue: QueueId, purged: &[Entry]) {
        self.recorded += u64::from(purged.iter().any(|entry| entry.is_stored));
        for entry in purged {
            self.settle(queue, entry);
        }
    }

    /// Records that a durable object of a virtual host was added or removed. Returns the ticket to wait for.
    fn record(&mut self, vhost: &str, object: Object, is_there: bool) -> u64 {
        let Some(log) = &mut self.log else { return 0 };
        let vhost = vhost.to_owned();
        let definition = Definition { vhost, object };
        if is_there {
            log.put_meta(&definition.key(), &definition.encode());
        } else {
            log.delete_meta(&definition.key());
        }
        self.recorded += 1;
        log.ticket()
    }

    /// Hands the gathered records to the disk.
    pub(super) fn flush(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
            self.flushed = log.ticket();
        }
    }

    /// Returns true if records were gathered since the last flush.
    pub(super) fn has_records(&self) -> bool {
        self.ticket() > self.flushed
    }

    /// Returns true if flushed records are on their way to the disk.
    pub(super) fn is_writing(&self) -> bool {
        self.synced < self.flushed && !self.has_failed
    }

    /// Returns the bytes of stored data, including data to be removed.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.usage().disk_bytes)
    }

    /// Returns true if channels that wait for the log must be checked. There may be thousands, so it is false in most
    /// turns.
    pub(super) fn take_progress(&mut self) -> bool {
        mem::take(&mut self.has_progress) || self.has_failed
    }

    #[cfg(test)]
    pub(super) fn log(&self) -> &Log {
        self.log.as_ref().expect("the test has opened a log")
    }
}

impl Broker {
    /// Takes over an opened log and restores its content. Returns how many messages of the log some queue holds.
    ///
    /// # Errors
    /// Content of the log that this version does not understand.
    pub(crate) fn open_store(
        &mut self,
        mut log: Log,
        recovered: Recovered,
    ) -> anyhow::Result<usize> {
        for (key, value) in &recovered.meta {
            let definition = Definition::decode(key, value).with_context(|| {
                format!("the log holds a definition that this version does not understand: {key:?}")
            })?;
            self.topology.restore(definition);
        }
        let ids = self.topology.queues().map(|(id, _)| (id.serial, id));
        let queues: HashMap<u32, QueueId> = ids.collect();
        let unix = unix_ms();
        let mut restored = 0;
        for stored in recovered.messages {
            let mut holding = Vec::new();
            for serial in stored.queues() {
                match queues.get(serial) {
                    Some(queue) => holding.push(*queue),
                    // Otherwise it would stay on disk for ever, and appear in the next queue with this number.
                    None => log.settle(*serial, stored.id),
                }
            }
            restored += usize::from(!holding.is_empty());
            self.restore_message(stored, unix, &holding);
        }
        self.store.log = Some(log);
        for id in queues.into_values() {
            self.set_timer(id);
        }
        Ok(restored)
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
        let message = Rc::new(Message::new(data, address, head, facts, &self.memory.meter));
        message.log_id.set(id);
        for id in queues {
            if let Some(queue) = self.topology.queue_mut(*id) {
                queue.push_restored(Rc::clone(&message), self.now, age);
            }
        }
    }

    /// Returns true if a published message can be stored, or need not be.
    pub(super) fn can_store(&self, queues: &[QueueId], message: &Message) -> bool {
        !message.facts().persistent
            || self.store.has_room(message)
            || !queues.iter().any(|id| self.topology.is_stored(*id))
    }

    /// Stores a message for its durable queues. Returns the ticket to wait for.
    ///
    /// This also applies while the disk is full: a dead letter is no larger than its original, which is settled after
    /// it, so that one of the two survives.
    pub(super) fn store_message(&mut self, queues: &[QueueId], message: &Message) -> Option<u64> {
        let log = self.store.log.as_mut()?;
        if !message.facts().persistent {
            return None;
        }
        let stored = queues.iter().filter(|id| self.topology.is_stored(**id));
        let serials: Vec<u32> = stored.map(|id| id.serial).collect();
        if serials.is_empty() {
            return None;
        }
        let id = log.publish(
            &serials,
            &log::NewMessage {
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

    /// Records a new queue.
    pub(super) fn store_queue(&mut self, id: QueueId) {
        let queue = self.topology.queue(id).filter(|queue| queue.is_stored());
        let Some(queue) = queue else { return };
        let vhost = &self.topology.vhost(queue.vhost).name;
        let ticket = self.store.record(vhost, queue_object(id, queue), true);
        if let Some(queue) = self.topology.queue_mut(id) {
            queue.ticket = ticket;
        }
    }

    /// Records that a queue is deleted together with its ready messages; its unacknowledged ones are still with
    /// consumers.
    pub(super) fn unstore_queue(&mut self, id: QueueId, queue: &Queue) {
        if !queue.is_stored() {
            return;
        }
        let unacked = match queue.counts().unacked {
            0 => Vec::new(),
            _ => self.stored_unacked(id),
        };
        if let Some(log) = &mut self.store.log {
            log.delete_queue(id.serial, unacked);
        }
        let vhost = &self.topology.vhost(queue.vhost).name;
        self.store.record(vhost, queue_object(id, queue), false);
    }

    /// Returns the log's ids of a queue's messages that channels hold unacknowledged.
    fn stored_unacked(&self, id: QueueId) -> Vec<u64> {
        let connections = self.connections.iter();
        let channels = connections.flat_map(|(_, connection)| connection.channels());
        let delivered = channels.flat_map(Channel::unsettled);
        let of_queue = delivered.filter(|held| held.queue == id && held.entry.is_stored);
        of_queue
            .map(|held| held.entry.message.log_id.get())
            .collect()
    }

    /// Records that an exchange was created or deleted. Returns the ticket to wait for; 0 if it is not durable.
    pub(super) fn store_exchange(
        &mut self,
        vhost: usize,
        name: &str,
        exchange: &ExchangeSettings,
        is_there: bool,
    ) -> u64 {
        if !exchange.durable {
            return 0;
        }
        let object = Object::Exchange(name.to_owned(), exchange.clone());
        self.store
            .record(&self.topology.vhost(vhost).name, object, is_there)
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
        if !self.topology.is_durable(vhost, source, to) {
            return;
        }
        let to = match to {
            Destination::Exchange(name) => End::Exchange(name.to_string()),
            Destination::Queue(id) => match self.topology.queue(*id) {
                Some(queue) => End::Queue(queue.name.to_string()),
                None => return,
            },
        };
        let object = Object::Binding(source.to_owned(), to, binding.clone());
        self.store
            .record(&self.topology.vhost(vhost).name, object, is_there);
    }

    /// Hands the gathered records to the disk.
    pub(crate) fn flush_log(&mut self) {
        self.store.flush();
    }

    /// Writes the remaining records.
    ///
    /// # Errors
    /// Errors of the log: not everything is on disk.
    pub(crate) fn close_store(&mut self) -> anyhow::Result<()> {
        let closed = self.store.log.take().map(Log::close).transpose();
        closed.context("cannot write the rest of the log")?;
        Ok(())
    }
}

fn queue_object(id: QueueId, queue: &Queue) -> Object {
    Object::Queue(queue.name.to_string(), id.serial, queue.settings.clone())
}
