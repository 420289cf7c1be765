//! The times at which a worker's sessions are pinged. All sessions have the same interval, so queues in the order of
//! time replace their timers.

use std::cell::RefCell;
use std::collections::VecDeque;

use tokio::sync::Notify;

use crate::server::slots::Slot;

/// The times at which sessions are to be pinged, or must have answered.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    queues: RefCell<Queues>,
    /// Notified when an entry precedes all others.
    pub(crate) changed: Notify,
}

/// A queue for each [`Due`]: sessions and times of the engine's clock, in their order.
type Queues = [VecDeque<(u64, Slot)>; 3];

/// Something that is due for a session at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    /// A ping is sent.
    Ping,
    /// The last ping must have been answered.
    Answer,
    /// The client must have connected to a namespace.
    Connect,
}

impl Heartbeats {
    /// Adds what is due for a session at a time.
    pub(crate) fn add(&self, at: u64, due: Due, slot: Slot) {
        let mut queues = self.queues.borrow_mut();
        let queue = &mut queues[due as usize];
        // The index is the end of the queue, except for a session that was upgraded or whose answer is late.
        let index = queue.partition_point(|(other, _)| *other <= at);
        queue.insert(index, (at, slot));
        if index == 0 {
            self.changed.notify_one();
        }
    }

    /// Returns the time at which the next one is due.
    pub(crate) fn next(&self) -> Option<u64> {
        let queues = self.queues.borrow();
        let fronts = queues.iter().filter_map(VecDeque::front);
        fronts.map(|(at, _)| *at).min()
    }

    /// Takes a session for which this is due by now.
    pub(crate) fn take(&self, now: u64, due: Due) -> Option<Slot> {
        let queue = &mut self.queues.borrow_mut()[due as usize];
        let (_, slot) = queue.pop_front_if(|(at, _)| *at <= now)?;
        Some(slot)
    }
}
