//! Expiry of messages and queues (x-message-ttl, expiration, x-expires).
//!
//! A message expires only at the head of its queue, as in RabbitMQ: a message behind another one waits for it.

use super::Broker;
use super::dead_letters::Reason;
use crate::exchange::QueueId;

/// Messages and queues that may expire in one turn: a million at once takes seconds, during which clients would wait.
const TURN: usize = 1024;

impl Broker {
    /// Ensures that a queue is checked when its head or the queue itself expires.
    pub(super) fn set_timer(&mut self, id: QueueId) {
        let Some(queue) = self.topology.queue_mut(id) else {
            return;
        };
        if let Some((before, due)) = queue.advance_timer() {
            self.scheduler.set_timer(id, before, due);
        }
    }

    /// Expires what is due, or a part of it; in the latter case the next deadline is in the past.
    pub(crate) fn expire(&mut self) {
        let mut left = TURN;
        while left > 0
            && let Some(id) = self.scheduler.take_due(self.now)
        {
            left -= 1;
            left -= self.expire_queue(id, left);
        }
        self.finish_turn();
    }

    /// Returns how many messages expired, at most `most`.
    fn expire_queue(&mut self, id: QueueId, most: usize) -> usize {
        let now = self.now;
        let Some(queue) = self.topology.queue_mut(id) else {
            return 0;
        };
        queue.end_timer();
        if queue.is_expired(now) {
            self.remove_queue(id);
            return 0;
        }
        let count = self.expire_heads(id, most);
        self.set_timer(id);
        count
    }

    /// Dead-letters expired messages at the head of a queue, at most `most`. Returns their number.
    pub(super) fn expire_heads(&mut self, id: QueueId, most: usize) -> usize {
        let now = self.now;
        for count in 0..most {
            let queue = self.topology.queue_mut(id);
            let Some(entry) = queue.and_then(|queue| queue.pop_expired(now)) else {
                return count;
            };
            self.queue_dead_letter(id, entry, Reason::Expired);
        }
        most
    }
}
