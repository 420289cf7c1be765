//! Delivery from queues to consumers, and from outputs to sockets.

use std::io::{self, IoSlice};

use super::Broker;
use super::dead_letters::Reason;
use crate::channel::Channel;
use crate::connection::Admission;
use crate::exchange::QueueId;
use crate::queue::ConnectionId;

/// Messages of a queue that are dispatched per turn, so that a long queue does not hold up the rest.
const TURN: usize = 4096;

impl Broker {
    /// Delivers messages of a queue to consumers with room, one each in turn. Returns how many messages left the queue.
    pub(super) fn dispatch(&mut self, id: QueueId) -> usize {
        if let Some(queue) = self.topology.queue_mut(id) {
            queue.end_wait();
        }
        for count in 0..TURN {
            let Some(queue) = self.topology.queue_mut(id) else {
                return count;
            };
            let Some(head) = queue.head() else {
                return count;
            };
            // What expires at this instant still goes to a consumer that waits: a TTL of 0 means that.
            if head.expires < self.now {
                if let Some(entry) = queue.pop() {
                    self.queue_dead_letter(id, entry, Reason::Expired);
                }
                continue;
            }
            if !self.deliver_one(id) {
                // With a TTL of 0, a message is delivered at once to a waiting consumer, or expires.
                let expired = self.expire_heads(id, TURN);
                // Requeued messages may exceed the limits, together with messages that came meanwhile.
                self.drop_heads(id);
                self.set_timer(id);
                return count + expired;
            }
        }
        if let Some(queue) = self.topology.queue_mut(id) {
            self.scheduler.activate(id, queue);
        }
        TURN
    }

    /// Delivers a queue's first message to the next consumer with room. Returns true if one was found.
    ///
    /// The queue and its consumers are on one side, and the connection on the other, which may belong to another thread:
    /// all that passes between them is a question (`Connection::admit`), a message, and its tag.
    fn deliver_one(&mut self, id: QueueId) -> bool {
        let Some((queue, consumers)) = self.topology.queue_and_consumers(id) else {
            return false;
        };
        while let Some(consumer_id) = queue.next_turn() {
            let Some(consumer) = consumers.get_mut(consumer_id) else {
                continue;
            };
            if !consumer.begin_turn() {
                continue;
            }
            let to = consumer.channel;
            let Some(connection) = self.connections.get_mut(to.connection) else {
                continue;
            };
            let opening = match connection.admit(to.number, consumer_id) {
                Admission::Granted(opening) => opening,
                Admission::HeldBack => {
                    consumer.set_held_back(true);
                    continue;
                }
                Admission::Skipped => continue,
            };
            let Some(entry) = queue.take_for(consumer) else {
                return false;
            };
            self.counts.messages_delivered += 1;
            self.counts.messages_redelivered += u64::from(entry.redelivered);
            if consumer.no_ack {
                self.store.settle(id, &entry);
            }
            let (tag, is_held_back) =
                opening.deliver(consumer_id, consumer, entry, &mut self.spares);
            queue.end_turn(consumer_id, consumer, tag, is_held_back);
            if is_held_back {
                self.scheduler.limited.push(to);
            }
            self.scheduler
                .add_output(to.connection, &mut connection.outbox);
            return true;
        }
        false
    }

    /// Writes all connections' pending output.
    pub(crate) fn flush_all(&mut self) {
        for id in self.scheduler.take_outputs() {
            self.flush(id, false);
        }
    }

    /// Writes a connection's output as far as its socket accepts it. A blocked socket is left alone until it
    /// `is_writable` again.
    pub(crate) fn flush(&mut self, id: ConnectionId, is_writable: bool) {
        let connection = self.connections.get_mut(id);
        let Some(socket) = connection.and_then(|connection| connection.begin_write(is_writable))
        else {
            return;
        };
        self.write_output(id, |slices| match slices {
            [one] => socket.try_write(one),
            many => socket.try_write_vectored(many),
        });
    }

    /// Writes a connection's output with `write`, until that would block, and resumes the consumers that waited for it.
    pub(super) fn write_output(
        &mut self,
        id: ConnectionId,
        write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) {
        let connection = &mut self.connections[id];
        let count = connection.write(self.now, &mut self.spares, write);
        self.counts.bytes_sent += count as u64;
        self.wake_passed_over(id);
    }

    /// Resumes consumers that were skipped because the output was full, once half of it is written.
    fn wake_passed_over(&mut self, id: ConnectionId) {
        let connection = &mut self.connections[id];
        if !connection.outbox.take_passed_over() {
            return;
        }
        let consumers: Vec<_> = connection
            .channels()
            .flat_map(Channel::consumer_ids)
            .collect();
        for consumer in consumers {
            self.wake_consumer(consumer);
        }
    }
}
