//! Direct reply-to: a client sends requests and receives replies over the same channel, without a queue (as RabbitMQ's
//! `amq.rabbitmq.reply-to`).
//!
//! A consumer of [`REPLY_TO`] gives its channel an address. This address replaces [`REPLY_TO`] in the `reply-to` of
//! messages published on that channel. Messages published to it through the default exchange are delivered at once.
//! Nothing is stored: a reply to a closed channel is dropped, and a mandatory one is returned, since no queue takes it.

use std::rc::Rc;

use amq_protocol::protocol::{AMQPClass, basic, queue};

use super::Broker;
use super::consumers::new_tag;
use super::queues::random_name;
use crate::channel::{ChannelId, ReplyConsumer};
use crate::failure::{Result, precondition_failed};
use crate::incoming::REPLY_TO;
use crate::message::{Message, short_string};
use crate::output::Delivery;

/// Prefix of the addresses of channels.
const PREFIX: &str = "amq.rabbitmq.reply-to.";

impl Broker {
    /// Handles basic.consume of [`REPLY_TO`].
    ///
    /// # Errors
    /// 406 for a consumer with acknowledgements, and for a second one; 530 for a tag in use.
    pub(super) fn consume_replies(&mut self, id: ChannelId, consume: &basic::Consume) -> Result {
        let channel = self.channel(id)?;
        let tag = new_tag(channel, consume)?;
        if !consume.no_ack {
            return Err(precondition_failed("reply consumer cannot acknowledge"));
        }
        if channel.replies.is_some() {
            return Err(precondition_failed("reply consumer already set"));
        }
        let address: Rc<str> = format!("{PREFIX}{}", random_name()).into();
        channel.replies = Some(ReplyConsumer {
            tag: short_string(&tag).into(),
            address: Rc::clone(&address),
        });
        self.topology.replies.insert(address, id);
        let ok = basic::AMQPMethod::ConsumeOk(basic::ConsumeOk {
            consumer_tag: tag.into(),
        });
        self.answer_unless(consume.nowait, id, 0, AMQPClass::Basic(ok))
    }

    /// Handles queue.declare of [`REPLY_TO`] or of a channel's address: checks if a consumer waits there for replies.
    ///
    /// # Errors
    /// 404 if no consumer waits.
    pub(super) fn declare_replies(&mut self, id: ChannelId, name: &str, nowait: bool) -> Result {
        if name != REPLY_TO && !self.topology.replies.contains_key(name) {
            return Err(self.topology.vhost(self.vhost_of(id)).no_queue(name));
        }
        let ok = queue::AMQPMethod::DeclareOk(queue::DeclareOk {
            queue: name.into(),
            message_count: 0,
            consumer_count: 1,
        });
        self.answer_unless(nowait, id, 0, AMQPClass::Queue(ok))
    }

    /// Delivers a message to the channel whose address is the routing key, if there is one.
    pub(super) fn deliver_reply(&mut self, key: &[u8], message: &Rc<Message>) {
        if !key.starts_with(PREFIX.as_bytes()) {
            return;
        }
        let name = std::str::from_utf8(key).ok();
        let Some(id) = name
            .and_then(|name| self.topology.replies.get(name))
            .copied()
        else {
            return;
        };
        let Some(channel) = self.find_channel(id) else {
            return;
        };
        let Some(consumer) = channel.replies.as_ref().map(|found| Rc::clone(&found.tag)) else {
            return;
        };
        let delivery = Delivery {
            channel: id.number,
            tag: channel.deliveries.next_tag(),
            is_redelivered: false,
            message,
        };
        self.append(id, |output, frame_max| {
            output.deliver(delivery, &consumer, frame_max)
        });
        self.counts.messages_delivered += 1;
    }
}
