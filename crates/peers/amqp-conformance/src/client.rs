//! Common operations of the cases on a channel: declare, bind, publish, consume, get, acknowledge.

use amq_protocol::protocol::{BasicProperties, basic, channel, confirm, exchange};
use amq_protocol::protocol::{queue, tx};
use amq_protocol::types::AMQPValue;
use anyhow::{Context as _, ensure};

use super::channel::Channel;
use super::connection::{Content, unexpected};
use super::method::{Call, Method as _};
use super::request::{
    ack, binding, consumer, exchange_binding, exchange_of, getting, named, passive, publishing,
    unbinding,
};
use super::values::table;

/// A message that was delivered or fetched.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) tag: u64,
    pub(super) redelivered: bool,
    pub(super) exchange: String,
    pub(super) routing_key: String,
    /// The consumer, for a delivery.
    pub(super) consumer: String,
    /// The messages that remain in the queue, for `basic.get`.
    pub(super) left: u32,
    pub(super) content: Content,
}

impl Message {
    /// Returns its body as text.
    pub(super) fn body(&self) -> String {
        String::from_utf8_lossy(&self.content.body).into_owned()
    }

    pub(super) fn properties(&self) -> &BasicProperties {
        &self.content.properties
    }

    /// Asserts the exchange and the routing key.
    pub(super) fn was_routed_by(&self, exchange: &str, key: &str) -> anyhow::Result<()> {
        let seen = (&*self.exchange, &*self.routing_key);
        expect_eq("exchange and key", seen, (exchange, key))
    }

    /// Asserts that the message has this body and was delivered before.
    pub(super) fn is_again(&self, body: &str) -> anyhow::Result<()> {
        let seen = (self.body(), self.redelivered);
        expect_eq("body and redelivered", seen, (body.to_owned(), true))
    }
}

/// Queues and exchanges.
impl Channel<'_> {
    /// Declares an exclusive queue with a name from the broker.
    pub(super) fn queue(&self) -> anyhow::Result<String> {
        self.queue_with(&[])
    }

    /// Declares an exclusive queue with arguments.
    pub(super) fn queue_with(&self, arguments: &[(&str, AMQPValue)]) -> anyhow::Result<String> {
        let declared = self.call(queue::Declare {
            exclusive: true,
            arguments: table(arguments),
            ..queue::Declare::default()
        })?;
        Ok(declared.queue.to_string())
    }

    /// Declares an exclusive queue and publishes messages with these bodies to it.
    pub(super) fn queue_of(&self, bodies: &[&str]) -> anyhow::Result<String> {
        let queue = self.queue()?;
        self.publish_all(&queue, bodies)?;
        Ok(queue)
    }

    /// Declares an exclusive queue with messages, all of them fetched and not acknowledged: tags 1, 2, 3 and so on.
    pub(super) fn fetched(&self, bodies: &[&str]) -> anyhow::Result<String> {
        let queue = self.queue_of(bodies)?;
        for _ in bodies {
            self.get(&queue)?;
        }
        Ok(queue)
    }

    /// Declares a queue with a name of its own and a change, deleted after the case.
    pub(super) fn declare(
        &self,
        change: impl FnOnce(&mut queue::Declare),
    ) -> anyhow::Result<String> {
        let name = self.scope().name();
        self.call(named(&name).with(change))?;
        Ok(name)
    }

    /// Declares a queue that other connections may use, deleted after the case.
    pub(super) fn shared_queue(&self) -> anyhow::Result<String> {
        self.declare(|_| {})
    }

    /// Declares a queue that is bound to an exchange.
    pub(super) fn bound(&self, exchange: &str, key: &str) -> anyhow::Result<String> {
        let queue = self.queue()?;
        self.bind(&queue, exchange, key)?;
        Ok(queue)
    }

    pub(super) fn bind(&self, queue: &str, exchange: &str, key: &str) -> anyhow::Result<()> {
        self.call(binding(queue, exchange, key)).map(drop)
    }

    pub(super) fn unbind(&self, queue: &str, exchange: &str, key: &str) -> anyhow::Result<()> {
        self.call(unbinding(queue, exchange, key)).map(drop)
    }

    /// Declares an exchange, deleted after the case.
    pub(super) fn exchange(&self, kind: &str) -> anyhow::Result<String> {
        self.exchange_with(kind, |_| {})
    }

    /// Declares an exchange with a change, deleted after the case.
    pub(super) fn exchange_with(
        &self,
        kind: &str,
        change: impl FnOnce(&mut exchange::Declare),
    ) -> anyhow::Result<String> {
        let name = self.scope().name();
        self.call(exchange_of(&name, kind).with(change))?;
        Ok(name)
    }

    /// Declares two fanout exchanges and binds the second to the first.
    pub(super) fn linked_exchanges(&self) -> anyhow::Result<(String, String)> {
        let (first, second) = (self.exchange("fanout")?, self.exchange("fanout")?);
        self.bind_exchange(&second, &first, "")?;
        Ok((first, second))
    }

    /// Binds an exchange to another, its source.
    pub(super) fn bind_exchange(
        &self,
        destination: &str,
        source: &str,
        key: &str,
    ) -> anyhow::Result<()> {
        self.call(exchange_binding(destination, source, key))
            .map(drop)
    }

    /// Returns the ready messages of a queue, and its consumers. See [`Channel::holds`].
    pub(super) fn counts(&self, queue: &str) -> anyhow::Result<(u32, u32)> {
        let declared = self.call(passive(queue))?;
        Ok((declared.message_count, declared.consumer_count))
    }

    /// Waits until a queue has `messages` ready messages. RabbitMQ counts asynchronously: an answer may be outdated.
    pub(super) fn holds(&self, queue: &str, messages: u32) -> anyhow::Result<()> {
        self.eventually(&format!("{messages} messages in the queue"), || {
            Ok((self.counts(queue)?.0 == messages).then_some(()))
        })
    }

    /// Asserts the number of a queue's consumers.
    pub(super) fn has_consumers(&self, queue: &str, consumers: u32) -> anyhow::Result<()> {
        expect_eq("consumers", self.counts(queue)?.1, consumers)
    }

    /// Returns true if a queue exists. It is checked on a separate channel, which the answer may close.
    pub(super) fn has_queue(&self, queue: &str) -> anyhow::Result<bool> {
        self.is_there(passive(queue))
    }

    pub(super) fn has_exchange(&self, exchange: &str) -> anyhow::Result<bool> {
        self.is_there(exchange_of(exchange, "direct").with(|declare| declare.passive = true))
    }

    fn is_there<M: Call>(&self, passive: M) -> anyhow::Result<bool> {
        let apart = self.connection.channel()?;
        apart.send(passive)?;
        let other = match M::Answer::unwrap(self.connection.event(apart.id)?.method) {
            Ok(_) => return apart.close().map(|()| true),
            Err(other) => other,
        };
        let close =
            channel::Close::unwrap(other).map_err(|other| unexpected(M::Answer::NAME, &other))?;
        let (code, text) = (close.reply_code, close.reply_text);
        ensure!(code == 404, "{code} {text}, expected 404");
        apart.send(channel::CloseOk {}).map(|()| false)
    }

    /// Waits until a queue does not exist any more.
    pub(super) fn loses(&self, queue: &str) -> anyhow::Result<()> {
        self.eventually("the queue is gone", || {
            Ok((!self.has_queue(queue)?).then_some(()))
        })
    }
}

/// Messages.
impl Channel<'_> {
    /// Publishes messages with these bodies to a queue.
    pub(super) fn publish_all(&self, queue: &str, bodies: &[&str]) -> anyhow::Result<()> {
        let mut bodies = bodies.iter();
        bodies.try_for_each(|body| self.publish("", queue, body))
    }

    /// Publishes a message for each of these routing keys, with the key as its body.
    pub(super) fn publish_keys(&self, exchange: &str, keys: &[&str]) -> anyhow::Result<()> {
        let mut keys = keys.iter();
        keys.try_for_each(|key| self.publish(exchange, key, key))
    }

    /// Publishes a message that is returned if no queue gets it.
    pub(super) fn publish_mandatory(
        &self,
        exchange: &str,
        key: &str,
        body: &str,
    ) -> anyhow::Result<()> {
        let publish = publishing(exchange, key).with(|publish| publish.mandatory = true);
        self.send_content(publish, &BasicProperties::default(), body.as_bytes())
    }

    /// Returns the next event of the broker, which must be a `basic.return` of an unroutable message.
    pub(super) fn returned(&self) -> anyhow::Result<(basic::Return, Content)> {
        let (returned, content) = self.pushed::<basic::Return>()?;
        expect_eq("the reply code", returned.reply_code, 312)?;
        Ok((returned, content))
    }

    /// Asserts that the broker closes the channel for a `basic.publish`; see [`Channel::refuses`].
    pub(super) fn refused_publish(&self, code: u16) -> anyhow::Result<()> {
        self.is_closed(code, basic::Publish::default().ids())
    }

    /// Fetches one message, which needs an acknowledgement.
    pub(super) fn get(&self, queue: &str) -> anyhow::Result<Option<Message>> {
        self.fetch(queue, false)
    }

    /// Fetches one message, which must be ready by now and needs an acknowledgement.
    pub(super) fn got(&self, queue: &str) -> anyhow::Result<Message> {
        self.get(queue)?.context("the message is missing")
    }

    /// Fetches one message, which must exist.
    pub(super) fn take(&self, queue: &str) -> anyhow::Result<Message> {
        self.eventually("a message", || self.fetch(queue, true))
    }

    /// Asserts that a queue has no ready message by now.
    pub(super) fn is_empty(&self, queue: &str) -> anyhow::Result<()> {
        let body = self.get(queue)?.map(|message| message.body());
        expect_eq("the next message", body, None)
    }

    /// Fetches the bodies of all messages.
    pub(super) fn drain(&self, queue: &str) -> anyhow::Result<Vec<String>> {
        let mut bodies = Vec::new();
        while let Some(message) = self.fetch(queue, true)? {
            bodies.push(message.body());
        }
        Ok(bodies)
    }

    /// Asserts that a queue has exactly these messages, and fetches them. RabbitMQ requeues the messages of a channel
    /// that it closed asynchronously: as many as expected are waited for.
    pub(super) fn yields(&self, queue: &str, bodies: &[&str]) -> anyhow::Result<()> {
        let mut found = Vec::new();
        while found.len() < bodies.len() {
            let message = self.take(queue);
            found.push(message.with_context(|| format!("after {found:?}"))?.body());
        }
        found.extend(self.drain(queue)?);
        expect_eq("the messages", found, bodies)
    }

    fn fetch(&self, queue: &str, no_ack: bool) -> anyhow::Result<Option<Message>> {
        self.send(getting(queue).with(|get| get.no_ack = no_ack))?;
        let event = self.connection.event(self.id)?;
        let got = match basic::GetEmpty::unwrap(event.method) {
            Ok(_) => return Ok(None),
            Err(other) => basic::GetOk::unwrap(other),
        };
        let got = got.map_err(|other| unexpected("basic.get-ok", &other))?;
        Ok(Some(Message {
            tag: got.delivery_tag,
            redelivered: got.redelivered,
            exchange: got.exchange.to_string(),
            routing_key: got.routing_key.to_string(),
            consumer: String::new(),
            left: got.message_count,
            content: event.content.unwrap_or_default(),
        }))
    }

    /// Consumes with acknowledgements; returns the tag from the broker.
    pub(super) fn consume(&self, queue: &str) -> anyhow::Result<String> {
        self.consume_as(consumer(queue))
    }

    pub(super) fn consume_as(&self, consume: basic::Consume) -> anyhow::Result<String> {
        Ok(self.call(consume)?.consumer_tag.to_string())
    }

    /// Cancels a consumer; returns the tag of the answer.
    pub(super) fn cancel(&self, consumer: &str) -> anyhow::Result<String> {
        let cancelled = self.call(basic::Cancel {
            consumer_tag: consumer.into(),
            nowait: false,
        })?;
        Ok(cancelled.consumer_tag.to_string())
    }

    pub(super) fn delivery(&self) -> anyhow::Result<Message> {
        let (deliver, content) = self.pushed::<basic::Deliver>()?;
        Ok(Message {
            tag: deliver.delivery_tag,
            redelivered: deliver.redelivered,
            exchange: deliver.exchange.to_string(),
            routing_key: deliver.routing_key.to_string(),
            consumer: deliver.consumer_tag.to_string(),
            left: 0,
            content,
        })
    }

    /// Returns the bodies of the next deliveries.
    pub(super) fn deliveries(&self, count: usize) -> anyhow::Result<Vec<String>> {
        (0..count)
            .map(|_| self.delivery().map(|message| message.body()))
            .collect()
    }

    /// Asserts that this body is delivered next.
    pub(super) fn delivers(&self, body: &str) -> anyhow::Result<()> {
        expect_eq("the delivery", self.delivery()?.body(), body)
    }

    pub(super) fn ack(&self, delivery_tag: u64, multiple: bool) -> anyhow::Result<()> {
        self.send(ack(delivery_tag, multiple))
    }

    pub(super) fn nack(
        &self,
        delivery_tag: u64,
        multiple: bool,
        requeue: bool,
    ) -> anyhow::Result<()> {
        self.send(basic::Nack {
            delivery_tag,
            multiple,
            requeue,
        })
    }

    pub(super) fn reject(&self, delivery_tag: u64, requeue: bool) -> anyhow::Result<()> {
        self.send(basic::Reject {
            delivery_tag,
            requeue,
        })
    }

    pub(super) fn qos(&self, prefetch_count: u16, global: bool) -> anyhow::Result<()> {
        let qos = basic::Qos {
            prefetch_count,
            global,
        };
        self.call(qos).map(drop)
    }

    pub(super) fn confirms(&self) -> anyhow::Result<()> {
        self.call(confirm::Select { nowait: false }).map(drop)
    }

    /// Waits until all messages up to this tag are confirmed; a nack is an error.
    pub(super) fn confirmed(&self, up_to: u64) -> anyhow::Result<()> {
        let mut highest = 0;
        while highest < up_to {
            let (ack, _) = self.pushed::<basic::Ack>()?;
            highest = highest.max(ack.delivery_tag);
        }
        ensure!(
            highest == up_to,
            "confirmed up to {highest}, expected {up_to}"
        );
        Ok(())
    }

    /// Asserts that the next event is a `basic.ack` with this tag.
    pub(super) fn acks(&self, tag: u64) -> anyhow::Result<()> {
        let (ack, _) = self.pushed::<basic::Ack>()?;
        expect_eq("the tag of the ack", ack.delivery_tag, tag)
    }

    /// Asserts that the next event is a `basic.nack` with this tag.
    pub(super) fn nacks(&self, tag: u64) -> anyhow::Result<()> {
        let (nack, _) = self.pushed::<basic::Nack>()?;
        expect_eq("the tag of the nack", nack.delivery_tag, tag)
    }

    pub(super) fn transactional(&self) -> anyhow::Result<()> {
        self.call(tx::Select {}).map(drop)
    }

    pub(super) fn commit(&self) -> anyhow::Result<()> {
        self.call(tx::Commit {}).map(drop)
    }

    pub(super) fn roll_back(&self) -> anyhow::Result<()> {
        self.call(tx::Rollback {}).map(drop)
    }
}

/// Asserts that two values are equal; the error shows both.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a case compares what it has just asked for"
)]
pub(super) fn expect_eq<T: std::fmt::Debug + PartialEq<U>, U: std::fmt::Debug>(
    what: &str,
    seen: T,
    expected: U,
) -> anyhow::Result<()> {
    ensure!(seen == expected, "{what}: {seen:?}, expected {expected:?}");
    Ok(())
}
