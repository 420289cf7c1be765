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
    /// The common limit of all consumers; 0 means none.
    pub(crate) limit: u16,
    /// The limit of each new consumer; 0 means none.
    pub(crate) prefetch: u16,
    last_tag: u64,
    /// Unsettled deliveries by tag in ascending order. Deliveries settled out of order leave gaps.
    unacked: VecDeque<(u64, Option<Delivered>)>,
    /// Unsettled deliveries without the gaps.
    count: usize,
    /// Deliveries to consumers that are not settled, or only in an open transaction. The common limit applies to them,
    /// and not to deliveries by basic.get (as RabbitMQ).
    unsettled: usize,
    /// Consumers held back by the common limit, in the order in which they were.
    held_back: Vec<ConsumerId>,
}

impl Deliveries {
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
        self.count += 1;
        self.unsettled += usize::from(delivered.consumer.is_some());
        self.unacked.push_back((delivered.tag, Some(delivered)));
    }

    fn position(&self, tag: u64) -> Option<usize> {
        // Most clients settle in order.
        let at = match self.unacked.front() {
            Some((first, _)) if *first == tag => 0,
            _ => self
                .unacked
                .binary_search_by_key(&tag, |(tag, _)| *tag)
                .ok()?,
        };
        self.unacked[at].1.is_some().then_some(at)
    }

    /// Returns true if its oldest unsettled deliveries are `count` ones with consecutive tags from `first` on.
    pub(crate) fn begins_with(&self, first: u64, count: usize) -> bool {
        let mut oldest = self.unacked.iter().zip(0..).take(count);
        self.unacked.len() >= count
            && oldest.all(|((tag, delivered), distance)| {
                *tag == first.wrapping_add(distance) && delivered.is_some()
            })
    }

    /// Moves a delivery, or with `multiple` all up to it, to `into`; a tag of 0 then means all. They take room until
    /// [`Deliveries::count_settled`]. Returns true if the tag exists.
    pub(crate) fn take(&mut self, tag: u64, multiple: bool, into: &mut Vec<Delivered>) -> bool {
        let end = match self.position(tag) {
            Some(at) => at + 1,
            None if multiple && tag == 0 => self.unacked.len(),
            None => return false,
        };
        let before = into.len();
        if multiple {
            into.extend(
                self.unacked
                    .drain(..end)
                    .filter_map(|(_, delivered)| delivered),
            );
        } else {
            into.extend(self.unacked[end - 1].1.take());
        }
        self.count -= into.len() - before;
        self.tidy();
        true
    }

    /// Puts a delivery back that was taken.
    pub(crate) fn restore(&mut self, delivered: Delivered) {
        self.count += 1;
        let tag = delivered.tag;
        match self.unacked.binary_search_by_key(&tag, |(tag, _)| *tag) {
            Ok(at) => self.unacked[at].1 = Some(delivered),
            Err(at) => self.unacked.insert(at, (tag, Some(delivered))),
        }
    }

    /// Drops the gaps at the front, and all gaps if they outnumber the rest.
    fn tidy(&mut self) {
        while matches!(self.unacked.front(), Some((_, None))) {
            self.unacked.pop_front();
        }
        if self.unacked.len() > 2 * self.count + 64 {
            self.unacked.retain(|(_, delivered)| delivered.is_some());
        }
    }

    /// Frees the room of settled deliveries.
    pub(crate) fn count_settled<'a>(&mut self, settled: impl IntoIterator<Item = &'a Delivered>) {
        let settled = settled.into_iter();
        let to_consumers = settled.filter(|delivered| delivered.consumer.is_some());
        self.unsettled = self.unsettled.saturating_sub(to_consumers.count());
    }

    /// Returns the deliveries that are neither settled nor taken.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Delivered> {
        let all = self.unacked.iter();
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::arena::Arena;
    use crate::message::{Facts, Held, Message};
    use crate::queue::NEVER;

    fn delivered(tags: &[u64]) -> Deliveries {
        let mut deliveries = Deliveries::default();
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
            deliveries.push(Delivered {
                tag: *tag,
                queue,
                consumer: None,
                entry,
            });
        }
        deliveries
    }

    #[test]
    fn a_tag_is_settled_once_in_whatever_order() {
        let mut deliveries = delivered(&[1, 2, 5, 6]);
        let mut taken = Vec::new();
        assert!(!deliveries.take(3, false, &mut taken));
        assert!(deliveries.take(5, false, &mut taken));
        assert!(!deliveries.take(5, false, &mut taken));
        assert!(!deliveries.take(5, true, &mut taken));
        assert!(deliveries.take(2, true, &mut taken));
        assert_eq!((taken.len(), deliveries.count), (3, 1));
        deliveries.restore(taken.pop().unwrap());
        taken.clear();
        assert!(deliveries.take(0, true, &mut taken));
        let tags: Vec<u64> = taken.iter().map(|delivered| delivered.tag).collect();
        assert_eq!(tags, [2, 6]);
        assert!(deliveries.unacked.is_empty());
    }

    #[test]
    fn gaps_do_not_pile_up_behind_a_delivery_that_is_never_settled() {
        let tags: Vec<u64> = (1..=10_000).collect();
        let mut deliveries = delivered(&tags);
        for tag in 2..=10_000 {
            assert!(deliveries.take(tag, false, &mut Vec::new()));
        }
        assert_eq!(deliveries.count, 1);
        assert!(deliveries.unacked.len() < 100);
    }
}
