//! A channel: the message being received, its consumers and deliveries, and confirms or a transaction.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::carbon_copies::Key;
use crate::confirms::Confirms;
use crate::deliveries::{Delivered, Deliveries};
use crate::exchange::{Name, QueueId};
use crate::failure::{Result, precondition_failed};
use crate::incoming::Incoming;
use crate::message::Message;
use crate::queue::{ConnectionId, ConsumerId};
use crate::vhost::Vhost;

/// The number of a channel, and its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChannelId {
    pub(crate) connection: ConnectionId,
    pub(crate) number: u16,
}

impl ChannelId {
    pub(crate) fn new(connection: ConnectionId, number: u16) -> Self {
        Self { connection, number }
    }
}

/// A channel of a connection.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) last_queue: Option<Name>,
    pub(crate) incoming: Incoming,
    pub(crate) route: Route,
    pub(crate) mode: Mode,
    pub(crate) deliveries: Deliveries,
    /// The consumer of direct replies.
    pub(crate) replies: Option<ReplyConsumer>,
    /// Consumers by tag.
    consumers: BTreeMap<Box<str>, ConsumerId>,
}

impl Channel {
    /// Begins a message with the payload of basic.publish.
    pub(crate) fn begin_message(&mut self, payload: &[u8]) -> Result {
        self.route.is_current = self.incoming.begin(payload)? == self.route.address;
        Ok(())
    }

    pub(crate) fn add_consumer(&mut self, tag: &str, id: ConsumerId) {
        self.consumers.insert(tag.into(), id);
    }

    pub(crate) fn remove_consumer(&mut self, tag: &str) -> Option<ConsumerId> {
        let id = self.consumers.remove(tag)?;
        self.deliveries.forget(id);
        Some(id)
    }

    /// Returns its consumers, the oldest first.
    pub(crate) fn consumer_ids(&self) -> Vec<ConsumerId> {
        let mut ids: Vec<_> = self.consumers.values().copied().collect();
        ids.sort_unstable_by_key(|id| id.serial);
        ids
    }

    /// Returns true if one of its consumers has this tag.
    pub(crate) fn has_consumer(&self, tag: &str) -> bool {
        let replies = self.replies.as_ref();
        self.consumers.contains_key(tag) || replies.is_some_and(|replies| replies.has_tag(tag))
    }

    /// Returns its unsettled deliveries, including those settled only in an open transaction.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = &Delivered> {
        let settled = match &self.mode {
            Mode::Tx(tx) => tx.settled.as_slice(),
            Mode::Plain | Mode::Confirm(_) | Mode::Closing => &[],
        };
        let in_tx = settled.iter().map(|(delivered, _)| delivered);
        self.deliveries.iter().chain(in_tx)
    }

    /// Takes its unsettled deliveries in the order of their tags, as it ends.
    pub(crate) fn take_unsettled(&mut self) -> Vec<Delivered> {
        let mut unsettled = Vec::new();
        self.deliveries.take(0, true, &mut unsettled);
        if let Mode::Tx(tx) = &mut self.mode {
            let settled = tx.settled.drain(..);
            unsettled.extend(settled.map(|(delivered, _)| delivered));
        }
        unsettled.sort_by_key(|delivered| delivered.tag);
        unsettled
    }

    /// Chooses how it answers publishes. The same choice again has no effect.
    ///
    /// # Errors
    /// 406 if it has chosen another.
    pub(crate) fn select(&mut self, mode: Mode) -> Result {
        match (&self.mode, &mode) {
            (Mode::Plain, _) => self.mode = mode,
            (Mode::Tx(_), Mode::Confirm(_)) => {
                return Err(precondition_failed("cannot switch from tx to confirm mode"));
            }
            (Mode::Confirm(_), Mode::Tx(_)) => {
                return Err(precondition_failed("cannot switch from confirm to tx mode"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns its transaction.
    ///
    /// # Errors
    /// 406 if it has none.
    pub(crate) fn tx(&mut self) -> Result<&mut Tx> {
        match &mut self.mode {
            Mode::Tx(tx) => Ok(tx),
            _ => Err(precondition_failed("channel is not transactional")),
        }
    }
}

/// The way in which a channel handles publishes and settlements. A client chooses it once (confirm.select, tx.select).
#[derive(Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Plain,
    Confirm(Confirms),
    Tx(Tx),
    /// The broker has sent channel.close. Everything is ignored until it is answered.
    Closing,
}

/// The route of the last message: most publishers send to one address.
#[derive(Debug, Default)]
pub(crate) struct Route {
    address: Vec<u8>,
    /// True if it has the address of the message being received.
    is_current: bool,
    /// The version of exchanges, queues and bindings for which it is valid.
    version: u64,
    pub(crate) queues: Vec<QueueId>,
}

impl Route {
    /// Returns true if it is the route of the message that was just received.
    #[inline]
    pub(crate) fn is_valid(&self, version: u64, pending: &Pending) -> bool {
        self.is_current && self.version == version && pending.copies.is_empty()
    }

    /// Computes the route of a message, unless it is the route of the last one.
    ///
    /// # Errors
    /// 404 or 403 for the exchange.
    pub(crate) fn find(&mut self, vhost: &Vhost, version: u64, pending: &Pending) -> Result {
        let Pending {
            message, copies, ..
        } = pending;
        let is_known = self.version == version && self.address == message.address();
        if is_known && copies.is_empty() {
            return Ok(());
        }
        self.queues.clear();
        // Not valid for any other message, unless it turns out to depend on the address alone.
        self.version = 0;
        let by_address = vhost.route(message, copies, &mut self.queues)?;
        if by_address && copies.is_empty() {
            self.version = version;
            self.address.clear();
            self.address.extend_from_slice(message.address());
        }
        Ok(())
    }
}

/// A message to publish, at once or when a transaction commits.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) message: Rc<Message>,
    pub(crate) mandatory: bool,
    pub(crate) copies: Vec<Key>,
}

/// A consumer of direct replies.
#[derive(Debug)]
pub(crate) struct ReplyConsumer {
    /// A short string: its length comes first.
    pub(crate) tag: Rc<[u8]>,
    /// The address that replies are published to.
    pub(crate) address: Name,
}

impl ReplyConsumer {
    pub(crate) fn has_tag(&self, tag: &str) -> bool {
        self.tag[1..] == *tag.as_bytes()
    }
}

/// The way in which a delivery is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    Acked,
    Requeued,
    Rejected,
}

impl Settlement {
    /// Returns how basic.reject and basic.nack settle a delivery.
    pub(crate) fn refusal(requeue: bool) -> Self {
        if requeue {
            Self::Requeued
        } else {
            Self::Rejected
        }
    }
}

/// Publishes and settlements of an open transaction.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    pub(crate) published: Vec<Pending>,
    pub(crate) settled: Vec<(Delivered, Settlement)>,
}
