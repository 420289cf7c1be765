//! Messages and queues that have had their time (x-message-ttl, expiration, x-expires).
//!
//! A message expires when it is at the head of its queue, as in RabbitMQ: one behind another waits for it.

use std::cmp::Reverse;

use super::Broker;
use super::dead_letters::Reason;
use crate::exchange::QueueId;
use crate::queue::{NEVER, Queue};

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
            if is_first {
                self.timer_changed.notify_one();
            }
        }
    }

    /// When the next thing expires.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Lets expire what is due.
    pub(crate) fn expire(&mut self) {
        while let Some(Reverse((due, id))) = self.timers.peek().copied() {
            if due > self.now {
                break;
            }
            self.timers.pop();
            self.expire_queue(id, due);
        }
        self.finish_turn();
    }

    fn expire_queue(&mut self, id: QueueId, timer: u64) {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(id) else {
            return;
        };
        if queue.timer != timer {
            // An earlier one was set after this, and has set another.
            return;
        }
        queue.timer = NEVER;
        if own_deadline(queue) <= now {
            return self.remove_queue(id);
        }
        self.expire_heads(id);
        self.set_timer(id);
    }

    /// Buries what is due at the head of a queue.
    pub(super) fn expire_heads(&mut self, id: QueueId) {
        let now = self.now;
        while let Some(queue) = self.queues.get_mut(id) {
            if queue.head().is_none_or(|head| head.expires > now) {
                break;
            }
            if let Some(entry) = queue.pop() {
                self.bury(id, entry, Reason::Expired);
            }
        }
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
