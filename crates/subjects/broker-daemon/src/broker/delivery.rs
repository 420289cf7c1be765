//! Delivery from queues to consumers, and from outputs to sockets.

use std::io::{self, IoSlice};
use std::rc::Rc;

use super::Broker;
use super::dead_letters::Reason;
use crate::channel::{Channel, Delivered};
use crate::connection::{FULL, Phase};
use crate::exchange::QueueId;
use crate::output::{Delivery, Output};
use crate::queue::ConnectionId;

/// Messages of a queue that are dispatched per turn, so that a long queue does not hold up the rest.
const TURN: usize = 4096;
/// Spare buffers of outputs that are kept.
const SPARES: usize = 64;

impl Broker {
    /// Delivers messages of a queue to consumers with room, one each in turn. Returns how many messages left the queue.
    pub(super) fn dispatch(&mut self, id: QueueId) -> usize {
        if let Some(queue) = self.topology.queue_mut(id) {
            queue.is_active = false;
        }
        for count in 0..TURN {
            let Some(queue) = self.topology.queue_mut(id) else {
                return count;
            };
            let Some(head) = queue.head() else {
                return count;
            };
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
    fn deliver_one(&mut self, id: QueueId) -> bool {
        let Some((queue, consumers)) = self.topology.queue_and_consumers(id) else {
            return false;
        };
        while let Some((_, consumer_id)) = queue.ring.pop_front() {
            let Some(consumer) = consumers.get_mut(consumer_id) else {
                continue;
            };
            consumer.in_ring = false;
            if !consumer.has_room() {
                continue;
            }
            let Some(connection) = self.connections.get_mut(consumer.channel.connection) else {
                continue;
            };
            if connection.pending() >= FULL {
                connection.was_passed_over = true;
                continue;
            }
            let frame_max = connection.frame_max;
            let Some(channel) = connection.channel(consumer.channel.number) else {
                continue;
            };
            // This also holds back consumers without acknowledgements, which take no room (as RabbitMQ).
            if channel.room() == 0 {
                channel.passed_over.push(consumer_id);
                consumer.is_passed_over = true;
                continue;
            }
            let Some(entry) = queue.pop() else {
                return false;
            };
            queue.delivered += 1;
            channel.last_tag += 1;
            let tag = channel.last_tag;
            consumer.last_tag = tag;
            self.counts.messages_delivered += 1;
            self.counts.messages_redelivered += u64::from(entry.redelivered);
            let message = Rc::clone(&entry.message);
            let delivery = Delivery {
                channel: consumer.channel.number,
                tag,
                is_redelivered: entry.redelivered,
                message: &message,
            };
            let mut settled = None;
            if consumer.no_ack {
                settled = Some(entry);
                // It takes no room, so it would continue for as long as its queue has messages while other consumers
                // wait.
                consumer.is_passed_over = !channel.passed_over.is_empty();
                if consumer.is_passed_over {
                    channel.passed_over.push(consumer_id);
                    self.scheduler.limited.push(consumer.channel);
                }
            } else {
                channel.unsettled += 1;
                consumer.unacked += 1;
                queue.unacked += 1;
                channel.unacked.push(Delivered {
                    tag,
                    queue: id,
                    consumer: Some(consumer_id),
                    entry,
                });
            }
            let output = connection.output_of(consumer.channel.number);
            if output.pending() == 0
                && let Some(buffer) = self.spares.pop()
            {
                output.reuse(buffer);
            }
            output.deliver(delivery, &consumer.tag, frame_max);
            // Re-queue even if now full; deliver_one skips it next time.
            if !consumer.is_passed_over {
                consumer.in_ring = true;
                queue.enter_ring(consumer_id, consumer.priority);
            }
            self.scheduler
                .add_output(consumer.channel.connection, connection);
            if let Some(entry) = settled {
                self.store.settle(id, &entry);
            }
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
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.has_output = false;
        if connection.is_stuck && !is_writable {
            return connection.account_memory();
        }
        let Some(socket) = connection.socket.clone() else {
            return;
        };
        self.write_output(id, |slices| match slices {
            [one] => socket.try_write(one),
            many => socket.try_write_vectored(many),
        });
        self.wake_passed_over(id);
    }

    /// Writes a connection's output with `write`, until that would block.
    pub(super) fn write_output(
        &mut self,
        id: ConnectionId,
        write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) {
        let connection = &mut self.connections[id];
        let (before, was_held, was_stuck) = (
            connection.output.pending(),
            connection.is_held(),
            connection.is_stuck,
        );
        let written = connection.output.write_to(write);
        if let Some(buffer) = connection.output.spare()
            && self.spares.len() < SPARES
        {
            self.spares.push(buffer);
        }
        let count = before - connection.output.pending();
        self.counts.bytes_sent += count as u64;
        if count > 0 {
            connection.sent = self.now;
        }
        connection.is_stuck = matches!(written, Ok(false));
        if written.is_err() {
            // The socket is broken: the connection is over.
            connection.phase = Phase::Closed;
            connection.output = Output::default();
        }
        connection.account_memory();
        let wants_less = was_held && !connection.is_held();
        if connection.is_stuck != was_stuck || wants_less || connection.phase == Phase::Closed {
            connection.wake.notify_one();
        }
    }

    /// Resumes consumers that were skipped because the output was full, once half of it is written.
    fn wake_passed_over(&mut self, id: ConnectionId) {
        let connection = &mut self.connections[id];
        if !connection.was_passed_over || connection.pending() > FULL / 2 {
            return;
        }
        connection.was_passed_over = false;
        let consumers: Vec<_> = connection
            .channels()
            .flat_map(Channel::consumer_ids)
            .collect();
        for consumer in consumers {
            self.wake_consumer(consumer);
        }
    }
}
