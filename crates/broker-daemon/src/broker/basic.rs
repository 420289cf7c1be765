//! The methods basic.qos and basic.get.

use amq_protocol::protocol::basic;

use super::Broker;
use crate::channel::Delivered;
use crate::failure::{Result, not_implemented};
use crate::output::Delivery;
use crate::queue::ConnectionId;

impl Broker {
    /// Handles basic.qos. As in RabbitMQ, `global` means the whole channel; otherwise the limit applies to each new
    /// consumer.
    pub(super) fn qos(
        &mut self,
        id: ConnectionId,
        number: u16,
        payload: &[u8],
        qos: &basic::Qos,
    ) -> Result {
        // The parser drops prefetch-size.
        if payload.get(4..8).is_none_or(|size| size != [0; 4]) {
            return Err(not_implemented("prefetch_size!=0"));
        }
        let Some(channel) = self.channel(id, number)? else {
            return Ok(());
        };
        if qos.global {
            channel.global_prefetch = qos.prefetch_count;
            self.wake_channel(id, number);
        } else {
            channel.prefetch = qos.prefetch_count;
        }
        self.send_basic(id, number, basic::AMQPMethod::QosOk(basic::QosOk {}));
        Ok(())
    }

    /// Handles basic.get.
    pub(super) fn get(&mut self, id: ConnectionId, number: u16, get: &basic::Get) -> Result {
        let queue_id = self.queue_of(id, number, get.queue.as_str())?;
        // Expired messages, and messages for consumers, must leave the queue first.
        self.dispatch(queue_id);
        self.expire_heads(queue_id, usize::MAX);
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return Ok(());
        };
        queue.used = self.now;
        let Some(entry) = queue.pop() else {
            self.send_basic(id, number, basic::AMQPMethod::GetEmpty(basic::GetEmpty {}));
            return Ok(());
        };
        queue.got += 1;
        let left = u32::try_from(queue.len()).unwrap_or(u32::MAX);
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        let frame_max = connection.frame_max;
        let Some(channel) = connection.channel(number) else {
            return Ok(());
        };
        channel.last_tag += 1;
        let tag = channel.last_tag;
        let message = std::rc::Rc::clone(&entry.message);
        let is_redelivered = entry.redelivered;
        self.counts.messages_delivered += 1;
        self.counts.messages_redelivered += u64::from(is_redelivered);
        if get.no_ack {
            self.on_removed(queue_id, &entry);
        } else {
            queue.unacked += 1;
            channel.unacked.push(Delivered {
                tag,
                queue: queue_id,
                consumer: None,
                entry,
            });
        }
        let delivery = Delivery {
            channel: number,
            tag,
            is_redelivered,
            message: &message,
        };
        if let Some(connection) = self.connections.get_mut(id) {
            connection
                .output_of(number)
                .get_ok(delivery, left, frame_max);
        }
        self.set_timer(queue_id);
        self.mark_dirty(id);
        Ok(())
    }
}
