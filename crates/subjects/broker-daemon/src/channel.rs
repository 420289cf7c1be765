//! A channel: the message being received, its consumers and their unacknowledged deliveries, and a transaction.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::carbon_copies::Key;
use crate::confirms::Confirms;
use crate::exchange::{Name, QueueId};
use crate::incoming::Incoming;
use crate::message::Message;
use crate::queue::{ConnectionId, ConsumerId, Entry};

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
    /// Set once channel.close was sent; everything is ignored until it is answered.
    pub(crate) is_closing: bool,
    pub(crate) incoming: Incoming,
    pub(crate) confirms: Option<Confirms>,
    pub(crate) tx: Option<Tx>,
    pub(crate) last_tag: u64,
    pub(crate) unacked: Unacked,
    /// The limit of each new consumer; 0 means none.
    pub(crate) prefetch: u16,
    /// The common limit of all consumers; 0 means none.
    pub(crate) global_prefetch: u16,
    /// Consumers by tag.
    pub(crate) consumers: BTreeMap<Box<str>, ConsumerId>,
    /// Unsettled deliveries to consumers. The common limit applies to them, and not to deliveries by basic.get (as
    /// RabbitMQ).
    pub(crate) unsettled: usize,
    /// Consumers held back by the common limit, in the order in which they were.
    pub(crate) passed_over: Vec<ConsumerId>,
    /// The consumer of direct replies.
    pub(crate) replies: Option<ReplyConsumer>,
    pub(crate) last_queue: Option<Name>,
    pub(crate) route: Route,
    /// Set while it waits for its confirms to be sent.
    pub(crate) is_confirming: bool,
}

impl Channel {
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

    /// Returns how many more deliveries the common limit allows.
    pub(crate) fn room(&self) -> usize {
        match usize::from(self.global_prefetch) {
            0 => usize::MAX,
            limit => limit.saturating_sub(self.unsettled),
        }
    }

    /// Subtracts settled deliveries from the common limit.
    pub(crate) fn count_settled<'a>(&mut self, settled: impl IntoIterator<Item = &'a Delivered>) {
        let settled = settled.into_iter();
        let to_consumers = settled.filter(|delivered| delivered.consumer.is_some());
        self.unsettled = self.unsettled.saturating_sub(to_consumers.count());
    }

    /// Returns its unsettled deliveries, including those settled only in an open transaction.
    pub(crate) fn held(&self) -> impl Iterator<Item = &Delivered> {
        let in_tx = self.tx.iter().flat_map(|tx| &tx.settled);
        let in_tx = in_tx.map(|(delivered, _)| delivered);
        let others = self.unacked.all.iter();
        others
            .filter_map(|(_, delivered)| delivered.as_ref())
            .chain(in_tx)
    }
}

/// The route of the last message: most publishers send to one address.
#[derive(Debug, Default)]
pub(crate) struct Route {
    pub(crate) address: Vec<u8>,
    /// True if it has the address of the message being received.
    pub(crate) is_current: bool,
    /// The version of exchanges, queues and bindings for which it is valid.
    pub(crate) version: u64,
    pub(crate) queues: Vec<QueueId>,
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

/// An unsettled delivery.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) tag: u64,
    pub(crate) queue: QueueId,
    /// `None` for basic.get.
    pub(crate) consumer: Option<ConsumerId>,
    pub(crate) entry: Entry,
}

/// Deliveries by tag in ascending order. Deliveries settled out of order leave gaps.
#[derive(Debug, Default)]
pub(crate) struct Unacked {
    all: VecDeque<(u64, Option<Delivered>)>,
    count: usize,
}

impl Unacked {
    pub(crate) fn push(&mut self, delivered: Delivered) {
        self.count += 1;
        self.all.push_back((delivered.tag, Some(delivered)));
    }

    fn position(&self, tag: u64) -> Option<usize> {
        // Most clients settle in order.
        let at = match self.all.front() {
            Some((first, _)) if *first == tag => 0,
            _ => self.all.binary_search_by_key(&tag, |(tag, _)| *tag).ok()?,
        };
        self.all[at].1.is_some().then_some(at)
    }

    pub(crate) fn take(&mut self, tag: u64) -> Option<Delivered> {
        let at = self.position(tag)?;
        let taken = self.all[at].1.take();
        self.count -= 1;
        self.tidy();
        taken
    }

    /// Moves the deliveries with tags up to this one to `into`; 0 means all. Returns true if this tag exists.
    pub(crate) fn take_up_to(&mut self, tag: u64, into: &mut Vec<Delivered>) -> bool {
        let end = match tag {
            0 => self.all.len(),
            tag => match self.position(tag) {
                Some(at) => at + 1,
                None => return false,
            },
        };
        let before = into.len();
        into.extend(self.all.drain(..end).filter_map(|(_, delivered)| delivered));
        self.count -= into.len() - before;
        self.tidy();
        true
    }

    /// Puts a delivery back.
    pub(crate) fn restore(&mut self, delivered: Delivered) {
        self.count += 1;
        let tag = delivered.tag;
        match self.all.binary_search_by_key(&tag, |(tag, _)| *tag) {
            Ok(at) => self.all[at].1 = Some(delivered),
            Err(at) => self.all.insert(at, (tag, Some(delivered))),
        }
    }

    /// Drops the gaps at the front, and all gaps if they outnumber the rest.
    fn tidy(&mut self) {
        while matches!(self.all.front(), Some((_, None))) {
            self.all.pop_front();
        }
        if self.all.len() > 2 * self.count + 64 {
            self.all.retain(|(_, delivered)| delivered.is_some());
        }
    }
}

#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) channel: ChannelId,
    pub(crate) queue: QueueId,
    /// A short string: its length comes first.
    pub(crate) tag: Box<[u8]>,
    pub(crate) no_ack: bool,
    pub(crate) exclusive: bool,
    /// Consumers with a higher priority are served first (x-priority).
    pub(crate) priority: i64,
    /// 0 means no limit.
    pub(crate) prefetch: u16,
    pub(crate) unacked: usize,
    /// True if it is in its queue's ring.
    pub(crate) in_ring: bool,
    /// True if the channel's common limit holds it back.
    pub(crate) is_passed_over: bool,
    /// The tag of its last delivery, which tells when it was served.
    pub(crate) last_tag: u64,
}

impl Consumer {
    pub(crate) fn tag(&self) -> &str {
        // It came as a short string, and those are parsed as UTF-8.
        std::str::from_utf8(&self.tag[1..]).unwrap_or_default()
    }

    /// Returns true if its own limit allows one more message.
    pub(crate) fn has_room(&self) -> bool {
        self.no_ack || self.prefetch == 0 || self.unacked < usize::from(self.prefetch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use crate::message::{Facts, Held};
    use crate::queue::NEVER;

    fn unacked(tags: &[u64]) -> Unacked {
        let mut unacked = Unacked::default();
        let queue = Arena::<'q', _>::default().insert(());
        for tag in tags {
            let message = Rc::new(Message::new(
                vec![0, 0],
                2,
                2,
                Facts::default(),
                &Rc::default(),
            ));
            let entry = Entry {
                message: Held::new(message),
                position: *tag,
                expires: NEVER,
                redelivered: false,
                is_stored: false,
            };
            unacked.push(Delivered {
                tag: *tag,
                queue,
                consumer: None,
                entry,
            });
        }
        unacked
    }

    #[test]
    fn a_tag_is_settled_once_in_whatever_order() {
        let mut unacked = unacked(&[1, 2, 5, 6]);
        assert!(unacked.take(3).is_none());
        assert_eq!(unacked.take(5).unwrap().tag, 5);
        assert!(unacked.take(5).is_none());
        let mut taken = Vec::new();
        assert!(!unacked.take_up_to(5, &mut taken));
        assert!(unacked.take_up_to(2, &mut taken));
        assert_eq!((taken.len(), unacked.count), (2, 1));
        unacked.restore(taken.pop().unwrap());
        taken.clear();
        assert!(unacked.take_up_to(0, &mut taken));
        let tags: Vec<u64> = taken.iter().map(|delivered| delivered.tag).collect();
        assert_eq!(tags, [2, 6]);
        assert!(unacked.all.is_empty());
    }

    #[test]
    fn gaps_do_not_pile_up_behind_a_delivery_that_is_never_settled() {
        let tags: Vec<u64> = (1..=10_000).collect();
        let mut unacked = unacked(&tags);
        for tag in 2..=10_000 {
            unacked.take(tag).unwrap();
        }
        assert_eq!(unacked.count, 1);
        assert!(unacked.all.len() < 100);
    }
}
