//! The methods basic.consume and basic.cancel.

use std::collections::HashMap;

use amq_protocol::protocol::{AMQPClass, basic};
use amq_protocol::types::{AMQPValue, FieldTable};

use super::Broker;
use super::queues::random_name;
use crate::channel::{Channel, ChannelId};
use crate::exchange::QueueId;
use crate::failure::{Result, access_refused, not_allowed, precondition_failed, unknown_id};
use crate::incoming::REPLY_TO;
use crate::queue::{Consumer, ConsumerId, integer};

impl Broker {
    /// Handles basic.consume. `no-local` is accepted and has no effect, as in RabbitMQ.
    pub(super) fn consume(&mut self, id: ChannelId, consume: &basic::Consume) -> Result {
        if consume.queue.as_str() == REPLY_TO {
            return self.consume_replies(id, consume);
        }
        let queue_id = self.queue_of(id, consume.queue.as_str())?;
        let channel = self.channel(id)?;
        let tag = new_tag(channel, consume)?;
        let prefetch = channel.deliveries.prefetch;
        let queue = self.topology.queue(queue_id).ok_or_else(unknown_id)?;
        let what = self.topology.describe(queue);
        if queue.is_reserved(consume.exclusive) {
            return Err(access_refused(format_args!("{what} in exclusive use")));
        }
        let priority = read_priority(&consume.arguments, &what)?;
        let consumer = Consumer::new(id, queue_id, consume, &tag, priority, prefetch);
        let consumer = self.topology.add_consumer(consumer);
        self.channel(id)?.add_consumer(&tag, consumer);
        if let Some(queue) = self.topology.queue_mut(queue_id) {
            queue.touch(self.now);
        }
        let ok = basic::AMQPMethod::ConsumeOk(basic::ConsumeOk {
            consumer_tag: tag.into(),
        });
        self.answer_unless(consume.nowait, id, 0, AMQPClass::Basic(ok))?;
        self.wake_consumer(consumer);
        Ok(())
    }

    /// Handles basic.cancel. An unknown tag is no error.
    pub(super) fn cancel(&mut self, id: ChannelId, cancel: basic::Cancel) -> Result {
        let tag = cancel.consumer_tag.as_str();
        let channel = self.channel(id)?;
        if let Some(consumer) = channel.remove_consumer(tag) {
            self.remove_consumer(consumer);
        } else if let Some(replies) = channel.replies.take_if(|replies| replies.has_tag(tag)) {
            self.topology.replies.remove(&replies.address);
        }
        let ok = basic::AMQPMethod::CancelOk(basic::CancelOk {
            consumer_tag: cancel.consumer_tag,
        });
        self.answer_unless(cancel.nowait, id, 0, AMQPClass::Basic(ok))
    }

    /// Resumes consumers that the channel's common limit held back, as far as there is room. Consumers of the least
    /// recently served queue come first, so that none starves.
    pub(super) fn wake_channel(&mut self, id: ChannelId) {
        let Some(channel) = self.find_channel(id) else {
            return;
        };
        let waiting = channel.deliveries.take_held_back();
        if waiting.is_empty() {
            return;
        }
        let mut room = channel.deliveries.room();
        let mut last = None;
        let mut held = Vec::new();
        for consumer_id in self.by_last_service(id, waiting) {
            let Some((consumer, queue)) = self.topology.consumer_and_queue(consumer_id) else {
                continue;
            };
            let has_messages = queue.len() > 0;
            let queue = consumer.queue;
            // Consumers of one queue wait for the same message, so only the first of them takes room.
            if has_messages && last != Some(queue) {
                if room == 0 {
                    held.push(consumer_id);
                    continue;
                }
                room -= 1;
                last = Some(queue);
            }
            consumer.set_held_back(false);
            self.wake_consumer(consumer_id);
        }
        if held.is_empty() {
            return;
        }
        if let Some(channel) = self.find_channel(id) {
            for consumer in held {
                channel.deliveries.hold_back(consumer);
            }
        }
        // Woken consumers may find that their messages are gone.
        self.scheduler.limited.push(id);
    }

    /// Sorts consumers of a channel by the last time that one of their queue was served. Consumers of the same queue
    /// keep their order.
    fn by_last_service(&mut self, id: ChannelId, mut waiting: Vec<ConsumerId>) -> Vec<ConsumerId> {
        let all = match self.find_channel(id) {
            Some(channel) if waiting.len() > 1 => channel.consumer_ids(),
            _ => return waiting,
        };
        let mut served: HashMap<QueueId, u64> = HashMap::new();
        for consumer in all.iter().filter_map(|id| self.topology.consumer(*id)) {
            let last = served.entry(consumer.queue).or_default();
            *last = consumer.last_tag().max(*last);
        }
        waiting.sort_by_cached_key(|id| {
            let queue = self.topology.consumer(*id).map(|consumer| consumer.queue);
            (queue.and_then(|queue| served.get(&queue).copied()), queue)
        });
        waiting
    }

    /// Returns a consumer to its queue's ring, if it has room.
    pub(super) fn wake_consumer(&mut self, id: ConsumerId) {
        let Some((consumer, queue)) = self.topology.consumer_and_queue(id) else {
            return;
        };
        let queue_id = consumer.queue;
        if queue.wake(id, consumer) {
            self.scheduler.activate(queue_id, queue);
        }
    }
}

/// Returns the tag for a new consumer: the requested one, or a random one.
///
/// # Errors
/// 530 for a tag in use.
pub(super) fn new_tag(channel: &Channel, consume: &basic::Consume) -> Result<String> {
    let tag = match consume.consumer_tag.as_str() {
        "" => format!("amq.ctag-{}", random_name()),
        tag => tag.to_owned(),
    };
    if channel.has_consumer(&tag) {
        Err(not_allowed(format_args!(
            "attempt to reuse consumer tag '{tag}'"
        )))
    } else {
        Ok(tag)
    }
}

/// Reads the priority from the arguments of basic.consume.
///
/// # Errors
/// 406 for an `x-priority` that is not an integer, and for unsupported arguments.
fn read_priority(arguments: &FieldTable, what: &str) -> Result<i64> {
    let invalid = |name: &str, why: &str| {
        Err(precondition_failed(format_args!(
            "invalid arg '{name}' for {what}{why}"
        )))
    };
    let get = |name: &str| arguments.inner().get(name);
    if get("x-stream-offset").is_some() {
        return invalid("x-stream-offset", " of queue type classic");
    }
    if get("x-credit").is_some() {
        return invalid("x-credit", ": it is not supported");
    }
    // No other node could take over, so both values mean the same.
    if !matches!(
        get("x-cancel-on-ha-failover"),
        None | Some(AMQPValue::Boolean(_))
    ) {
        return invalid("x-cancel-on-ha-failover", ": must be a boolean");
    }
    match get("x-priority").map(integer) {
        None => Ok(0),
        Some(Some(priority)) => Ok(priority),
        Some(None) => invalid("x-priority", ": expected integer"),
    }
}
