//! The deliveries of a channel: their tags, those that are not settled, and the consumers that wait for room.

use std::collections::VecDeque;
use std::mem;

use crate::exchange::QueueId;
use crate::queue::{ConsumerId, Entry};

/// An unsettled delivery.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) tag: u64,
    pub(crate) queue: QueueId,
    /// `None` for basic.get.
    pub(crate) consumer: Option<ConsumerId>,
    pub(crate) entry: Entry,
}

/// The deliveries of a channel. Their room is what the common limit of its consumers leaves.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    last_tag: u64,
    unacked: Unacked,
    /// The common limit of all consumers; 0 means none.
    limit: u16,
    /// Unsettled deliveries to consumers. The common limit applies to them, and not to deliveries by basic.get (as
    /// RabbitMQ).
    unsettled: usize,
    /// Consumers held back by the common limit, in the order in which they were.
    held_back: Vec<ConsumerId>,
}

impl Deliveries {
    pub(crate) fn set_limit(&mut self, limit: u16) {
        self.limit = limit;
    }

    /// Returns how many more deliveries the common limit allows.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        match usize::from(self.limit) {
            0 => usize::MAX,
            limit => limit.saturating_sub(self.unsettled),
        }
    }

    /// Returns the tag of the next delivery.
    #[inline]
    pub(crate) fn next_tag(&mut self) -> u64 {
        self.last_tag += 1;
        self.last_tag
    }

    /// Adds a delivery that the client must settle.
    #[inline]
    pub(crate) fn push(&mut self, delivered: Delivered) {
        self.unsettled += usize::from(delivered.consumer.is_some());
        self.unacked.push(delivered);
    }

    /// Moves a delivery, or with `multiple` all up to it, to `into`; they take room until they are counted as settled.
    /// A tag of 0 means all. Returns true if the tag exists.
    pub(crate) fn take(&mut self, tag: u64, multiple: bool, into: &mut Vec<Delivered>) -> bool {
        if multiple {
            return self.unacked.take_up_to(tag, into);
        }
        let taken = self.unacked.take(tag);
        let is_known = taken.is_some();
        into.extend(taken);
        is_known
    }

    /// Puts a delivery back that was taken.
    pub(crate) fn restore(&mut self, delivered: Delivered) {
        self.unacked.restore(delivered);
    }

    /// Frees the room of settled deliveries.
    pub(crate) fn count_settled<'a>(&mut self, settled: impl IntoIterator<Item = &'a Delivered>) {
        let settled = settled.into_iter();
        let to_consumers = settled.filter(|delivered| delivered.consumer.is_some());
        self.unsettled = self.unsettled.saturating_sub(to_consumers.count());
    }

    /// Returns the deliveries that are neither settled nor taken.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Delivered> {
        let all = self.unacked.all.iter();
        all.filter_map(|(_, delivered)| delivered.as_ref())
    }

    /// Makes a consumer wait for room.
    pub(crate) fn hold_back(&mut self, consumer: ConsumerId) {
        self.held_back.push(consumer);
    }

    /// Makes a consumer wait behind those that wait for room. Returns false if there are none.
    #[inline]
    pub(crate) fn give_way(&mut self, consumer: ConsumerId) -> bool {
        let others_wait = !self.held_back.is_empty();
        if others_wait {
            self.held_back.push(consumer);
        }
        others_wait
    }

    /// Takes the consumers that wait for room, if there is some.
    pub(crate) fn take_held_back(&mut self) -> Vec<ConsumerId> {
        if self.room() == 0 {
            return Vec::new();
        }
        mem::take(&mut self.held_back)
    }

    /// Forgets a consumer that may be waiting for room.
    pub(crate) fn forget(&mut self, consumer: ConsumerId) {
        self.held_back.retain(|other| *other != consumer);
    }
}

/// Deliveries by tag in ascending order. Deliveries settled out of order leave gaps.
#[derive(Debug, Default)]
struct Unacked {
    all: VecDeque<(u64, Option<Delivered>)>,
    count: usize,
}

impl Unacked {
    fn push(&mut self, delivered: Delivered) {
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

    fn take(&mut self, tag: u64) -> Option<Delivered> {
        let at = self.position(tag)?;
        let taken = self.all[at].1.take();
        self.count -= 1;
        self.tidy();
        taken
    }

    /// Moves the deliveries with tags up to this one to `into`; 0 means all. Returns true if this tag exists.
    fn take_up_to(&mut self, tag: u64, into: &mut Vec<Delivered>) -> bool {
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
    fn restore(&mut self, delivered: Delivered) {
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::arena::Arena;
    use crate::message::{Facts, Held, Message};
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
