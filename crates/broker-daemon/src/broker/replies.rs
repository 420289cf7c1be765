//! Direct reply-to: a client that asks over one channel and is answered over the same, without a queue (as RabbitMQ's
//! `amq.rabbitmq.reply-to`).
//!
//! A consumer of [`REPLY_TO`] gives its channel a name. It replaces [`REPLY_TO`] in the `reply-to` of what is published on
//! that channel, and what is published to it through the default exchange is delivered at once. Nothing is kept: an answer
//! to a channel that is gone is dropped, and one that is mandatory is returned, since it has no queue to go to.

use std::rc::Rc;

use amq_protocol::protocol::{AMQPClass, basic, queue};

use super::Broker;
use super::queues::random_name;
use crate::channel::ReplyConsumer;
use crate::failure::{Result, not_allowed, precondition_failed};
use crate::message::{Message, push_short};
use crate::output::Delivery;
use crate::queue::ConnectionId;

/// The queue that is none.
pub(super) const REPLY_TO: &str = "amq.rabbitmq.reply-to";
/// What the names of channels begin with.
const PREFIX: &str = "amq.rabbitmq.reply-to.";

impl Broker {
    /// basic.consume of [`REPLY_TO`].
    ///
    /// # Errors
    /// 406 for one that would acknowledge, and for a second one; 530 for a tag that the channel has.
    pub(super) fn consume_replies(
        &mut self,
        id: ConnectionId,
        number: u16,
        consume: &basic::Consume,
    ) -> Result {
        let tag = match consume.consumer_tag.as_str() {
            "" => format!("amq.ctag-{}", random_name()),
            tag => tag.to_owned(),
        };
        let Some(channel) = self.channel(id, number)? else {
            return Ok(());
        };
        if channel.has_consumer(&tag) {
            return Err(not_allowed(format_args!(
                "attempt to reuse consumer tag '{tag}'"
            )));
        }
        if !consume.no_ack {
            return Err(precondition_failed("reply consumer cannot acknowledge"));
        }
        if channel.replies.is_some() {
            return Err(precondition_failed("reply consumer already set"));
        }
        let mut short = Vec::with_capacity(tag.len() + 1);
        push_short(&mut short, tag.as_bytes());
        let address: Rc<str> = format!("{PREFIX}{}", random_name()).into();
        channel.replies = Some(ReplyConsumer {
            tag: short.into(),
            address: Rc::clone(&address),
        });
        self.replies.insert(address, (id, number));
        if !consume.nowait {
            let ok = basic::ConsumeOk {
                consumer_tag: tag.into(),
            };
            self.send_basic(id, number, basic::AMQPMethod::ConsumeOk(ok));
        }
        Ok(())
    }

    /// queue.declare of [`REPLY_TO`], or of the name of a channel: asks whether somebody waits there for an answer.
    ///
    /// # Errors
    /// 404 where nobody does.
    pub(super) fn declare_replies(
        &mut self,
        id: ConnectionId,
        number: u16,
        name: &str,
        nowait: bool,
    ) -> Result {
        if name != REPLY_TO && !self.replies.contains_key(name) {
            return Err(self.vhosts[self.vhost_of(id)].no_queue(name));
        }
        let ok = queue::DeclareOk {
            queue: name.into(),
            message_count: 0,
            consumer_count: 1,
        };
        if !nowait {
            let ok = queue::AMQPMethod::DeclareOk(ok);
            self.send(id, number, AMQPClass::Queue(ok));
        }
        Ok(())
    }

    /// Delivers a message to the channel that a routing key names, if it names one.
    pub(super) fn deliver_reply(&mut self, key: &[u8], message: &Rc<Message>) {
        if !key.starts_with(PREFIX.as_bytes()) {
            return;
        }
        let name = std::str::from_utf8(key).ok();
        let Some((id, number)) = name.and_then(|name| self.replies.get(name)).copied() else {
            return;
        };
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let frame_max = connection.frame_max;
        let Some(channel) = connection.channel(number) else {
            return;
        };
        channel.last_tag += 1;
        let delivery = Delivery {
            channel: number,
            tag: channel.last_tag,
            is_redelivered: false,
            message,
        };
        let Some(consumer) = channel.replies.as_ref().map(|found| Rc::clone(&found.tag)) else {
            return;
        };
        let output = connection.output_of(number);
        output.deliver(delivery, &consumer, frame_max);
        self.counts.messages_delivered += 1;
        self.touch(id);
    }
}
