//! The methods basic.qos and basic.get.

use std::rc::Rc;

use amq_protocol::protocol::basic;

use super::Broker;
use super::queues::to_long;
use crate::channel::ChannelId;
use crate::deliveries::Delivered;
use crate::failure::{Result, not_implemented, unknown_id};
use crate::output::Delivery;

impl Broker {
    /// Handles basic.qos. As in RabbitMQ, `global` means the whole channel; otherwise the limit applies to each new
    /// consumer.
    pub(super) fn qos(&mut self, id: ChannelId, payload: &[u8], qos: &basic::Qos) -> Result {
        // The parser drops prefetch-size.
        if payload.get(4..8).is_none_or(|size| size != [0; 4]) {
            return Err(not_implemented("prefetch_size!=0"));
        }
        let deliveries = &mut self.channel(id)?.deliveries;
        if qos.global {
            deliveries.limit = qos.prefetch_count;
            self.wake_channel(id);
        } else {
            deliveries.prefetch = qos.prefetch_count;
        }
        self.send_basic(id, basic::AMQPMethod::QosOk(basic::QosOk {}));
        Ok(())
    }

    pub(super) fn get(&mut self, id: ChannelId, get: &basic::Get) -> Result {
        let queue_id = self.queue_of(id, get.queue.as_str())?;
        // Expired messages, and messages for consumers, must leave the queue first.
        self.dispatch(queue_id);
        self.expire_heads(queue_id, usize::MAX);
        let queue = self.topology.queue_mut(queue_id).ok_or_else(unknown_id)?;
        queue.touch(self.now);
        let Some(entry) = queue.get(get.no_ack) else {
            self.send_basic(id, basic::AMQPMethod::GetEmpty(basic::GetEmpty {}));
            return Ok(());
        };
        let left = to_long(queue.len());
        let deliveries = &mut self.channel(id)?.deliveries;
        let tag = deliveries.next_tag();
        let message = Rc::clone(&entry.message);
        let delivery = Delivery {
            channel: id.number,
            tag,
            is_redelivered: entry.redelivered,
            message: &message,
        };
        if get.no_ack {
            self.store.settle(queue_id, &entry);
        } else {
            deliveries.push(Delivered {
                tag,
                queue: queue_id,
                consumer: None,
                entry,
            });
        }
        self.counts.messages_delivered += 1;
        self.counts.messages_redelivered += u64::from(delivery.is_redelivered);
        self.append(id, |output, frame_max| {
            output.get_ok(delivery, left, frame_max)
        });
        self.set_timer(queue_id);
        Ok(())
    }
}
