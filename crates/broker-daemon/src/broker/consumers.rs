//! basic.consume and basic.cancel.

use amq_protocol::protocol::basic;

use super::{Broker, enter_ring};
use crate::channel::Consumer;
use crate::failure::{Result, access_refused, not_allowed};
use crate::message::push_short;
use crate::queue::{ConnectionId, ConsumerId};

impl Broker {
    /// basic.consume. `no-local` is accepted and means nothing, as in RabbitMQ.
    pub(super) fn consume(
        &mut self,
        id: ConnectionId,
        number: u16,
        consume: &basic::Consume,
    ) -> Result {
        let queue_id = self.queue_of(id, number, consume.queue.as_str())?;
        let tag = match consume.consumer_tag.as_str() {
            "" => format!("amq.ctag-{}", super::queues::random_name()),
            tag => tag.to_owned(),
        };
        if self.consumer_named(id, number, &tag).is_some() {
            return Err(not_allowed(format_args!(
                "attempt to reuse consumer tag '{tag}'"
            )));
        }
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return Ok(());
        };
        if queue.has_exclusive_consumer || (consume.exclusive && !queue.consumers.is_empty()) {
            let vhost = &self.vhosts[queue.vhost].name;
            return Err(access_refused(format_args!(
                "queue '{}' in vhost '{vhost}' in exclusive use",
                queue.name
            )));
        }
        let Some(channel) = self
            .connections
            .get_mut(id)
            .and_then(|connection| connection.channel(number))
        else {
            return Ok(());
        };
        let mut short = Vec::with_capacity(tag.len() + 1);
        push_short(&mut short, tag.as_bytes());
        let consumer = self.consumers.insert(Consumer {
            connection: id,
            channel: number,
            queue: queue_id,
            tag: short.into(),
            no_ack: consume.no_ack,
            exclusive: consume.exclusive,
            prefetch: channel.prefetch,
            unacked: 0,
            in_ring: true,
        });
        channel.consumers.insert(tag.as_str().into(), consumer);
        queue.consumers.insert(consumer);
        queue.ring.push_back(consumer);
        queue.has_exclusive_consumer = consume.exclusive;
        queue.used = self.now;
        if !consume.nowait {
            let ok = basic::ConsumeOk {
                consumer_tag: tag.as_str().into(),
            };
            self.send_basic(id, number, basic::AMQPMethod::ConsumeOk(ok));
        }
        self.activate(queue_id);
        Ok(())
    }

    /// basic.cancel. A tag that is not known is no error.
    pub(super) fn cancel(
        &mut self,
        id: ConnectionId,
        number: u16,
        cancel: basic::Cancel,
    ) -> Result {
        if let Some(consumer) = self.consumer_named(id, number, cancel.consumer_tag.as_str()) {
            if let Some(channel) = self.channel(id, number)? {
                channel.consumers.remove(cancel.consumer_tag.as_str());
            }
            self.remove_consumer(consumer);
        }
        if !cancel.nowait {
            let ok = basic::CancelOk {
                consumer_tag: cancel.consumer_tag,
            };
            self.send_basic(id, number, basic::AMQPMethod::CancelOk(ok));
        }
        Ok(())
    }

    fn consumer_named(&mut self, id: ConnectionId, number: u16, tag: &str) -> Option<ConsumerId> {
        let channel = self.connections.get_mut(id)?.channel(number)?;
        channel.consumers.get(tag).copied()
    }

    /// Gives a consumer its turns back, if it has room.
    pub(super) fn wake_consumer(&mut self, id: ConsumerId) {
        let Some(consumer) = self.consumers.get_mut(id) else {
            return;
        };
        let queue_id = consumer.queue;
        let Some(queue) = self.queues.get_mut(queue_id) else {
            return;
        };
        if enter_ring(queue, id, consumer) && queue.len() > 0 {
            self.activate(queue_id);
        }
    }
}
