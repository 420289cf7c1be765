//! Messages and queues that have had their time (x-message-ttl, expiration, x-expires).
//!
//! A message expires when it is at the head of its queue, as in RabbitMQ: one behind another waits for it.

use std::cmp::Reverse;

use super::Broker;
use super::dead_letters::Reason;
use crate::exchange::QueueId;
use crate::queue::{NEVER, Queue};

/// Messages and queues that may expire in one turn: a million at once takes seconds, and others want theirs.
const TURN: usize = 1024;
/// Timers that are kept beside one for each queue: those of queues that are gone stay until they are due, which may be
/// in weeks.
const SPARE_TIMERS: usize = 1024;

impl Broker {
    /// Makes sure that a queue is looked at when its head or itself expires.
    pub(super) fn set_timer(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(id) else {
            return;
        };
        let due = due(queue);
        if due < queue.timer {
            queue.timer = due;
            let is_first = self
                .timers
                .peek()
                .is_none_or(|Reverse((first, _))| due < *first);
            self.timers.push(Reverse((due, id)));
            if self.timers.len() > 2 * self.queues.len() + SPARE_TIMERS {
                let queues = &self.queues;
                let is_meant = |due, id| queues.get(id).is_some_and(|queue| queue.timer == due);
                self.timers.retain(|Reverse((due, id))| is_meant(*due, *id));
            }
            if is_first {
                self.timer_changed.notify_one();
            }
        }
    }

    /// When the next thing expires.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Lets expire what is due, or a part of it: then the next deadline is past.
    pub(crate) fn expire(&mut self) {
        let mut left = TURN;
        while let Some(Reverse((due, id))) = self.timers.peek().copied() {
            if due > self.now || left == 0 {
                break;
            }
            self.timers.pop();
            left -= 1;
            left -= self.expire_queue(id, due, left);
        }
        self.finish_turn();
    }

    /// Returns how many messages expired, of the `most` that may.
    fn expire_queue(&mut self, id: QueueId, timer: u64, most: usize) -> usize {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(id) else {
            return 0;
        };
        if queue.timer != timer {
            // An earlier one was set after this, and has set another.
            return 0;
        }
        queue.timer = NEVER;
        if own_deadline(queue) <= now {
            self.remove_queue(id);
            return 0;
        }
        let count = self.expire_heads(id, most);
        self.set_timer(id);
        count
    }

    /// Buries what is due at the head of a queue, so many messages at most. Returns how many those were.
    pub(super) fn expire_heads(&mut self, id: QueueId, most: usize) -> usize {
        let now = self.now;
        for count in 0..most {
            let entry = self.queues.get_mut(id).and_then(|queue| {
                let is_due = queue.head().is_some_and(|head| head.expires <= now);
                is_due.then(|| queue.pop()).flatten()
            });
            let Some(entry) = entry else { return count };
            self.bury(id, entry, Reason::Expired);
        }
        most
    }
}

/// When a queue expires itself: so long after its last use, unless it has consumers.
fn own_deadline(queue: &Queue) -> u64 {
    match queue.limits.expires {
        Some(after) if queue.consumers.is_empty() => queue.used + after,
        _ => NEVER,
    }
}

fn due(queue: &Queue) -> u64 {
    own_deadline(queue).min(queue.head().map_or(NEVER, |head| head.expires))
}
