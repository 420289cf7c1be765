//! Common operations of the cases on a channel: declare, bind, consume, get, acknowledge.

use amq_protocol::protocol::{BasicProperties, basic, confirm, exchange, queue, tx};
use amq_protocol::types::FieldTable;
use anyhow::ensure;

use super::channel::Channel;
use super::connection::Content;

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
}

impl Channel<'_> {
    pub(super) fn declare(&self, declare: queue::Declare) -> anyhow::Result<queue::DeclareOk> {
        self.call(declare)
    }

    /// Declares an exclusive queue with a name from the broker.
    pub(super) fn queue(&self) -> anyhow::Result<String> {
        self.queue_with(FieldTable::default())
    }

    /// Declares an exclusive queue with arguments.
    pub(super) fn queue_with(&self, arguments: FieldTable) -> anyhow::Result<String> {
        let declared = self.declare(queue::Declare {
            exclusive: true,
            arguments,
            ..queue::Declare::default()
        })?;
        Ok(declared.queue.to_string())
    }

    /// Declares a queue that other connections may use, deleted after the case.
    pub(super) fn shared_queue(&self, arguments: FieldTable) -> anyhow::Result<String> {
        let name = self.scope().name();
        self.declare(queue::Declare {
            queue: name.as_str().into(),
            arguments,
            ..queue::Declare::default()
        })?;
        Ok(name)
    }

    /// Declares an exchange, deleted after the case.
    pub(super) fn exchange(&self, kind: &str) -> anyhow::Result<String> {
        self.exchange_with(kind, FieldTable::default())
    }

    pub(super) fn exchange_with(
        &self,
        kind: &str,
        arguments: FieldTable,
    ) -> anyhow::Result<String> {
        let name = self.scope().name();
        self.call::<exchange::DeclareOk>(exchange::Declare {
            arguments,
            ..exchange_of(&name, kind)
        })?;
        Ok(name)
    }

    /// Declares a queue that is bound to an exchange.
    pub(super) fn bound(&self, exchange: &str, key: &str) -> anyhow::Result<String> {
        let queue = self.queue()?;
        self.bind(&queue, exchange, key)?;
        Ok(queue)
    }

    pub(super) fn bind(&self, queue: &str, exchange: &str, key: &str) -> anyhow::Result<()> {
        self.bind_with(queue, exchange, key, FieldTable::default())
    }

    pub(super) fn bind_with(
        &self,
        queue: &str,
        exchange: &str,
        key: &str,
        arguments: FieldTable,
    ) -> anyhow::Result<()> {
        let bind = queue::Bind {
            arguments,
            ..binding(queue, exchange, key)
        };
        self.call::<queue::BindOk>(bind).map(drop)
    }

    pub(super) fn unbind(&self, queue: &str, exchange: &str, key: &str) -> anyhow::Result<()> {
        let unbind = unbinding(queue, exchange, key);
        self.call::<queue::UnbindOk>(unbind).map(drop)
    }

    /// Binds an exchange to another, its source.
    pub(super) fn bind_exchange(
        &self,
        destination: &str,
        source: &str,
        key: &str,
    ) -> anyhow::Result<()> {
        let bind = exchange::Bind {
            destination: destination.into(),
            source: source.into(),
            routing_key: key.into(),
            ..exchange::Bind::default()
        };
        self.call::<exchange::BindOk>(bind).map(drop)
    }

    /// Returns the ready messages of a queue, and its consumers. See [`Channel::holds`].
    pub(super) fn counts(&self, queue: &str) -> anyhow::Result<(u32, u32)> {
        let declared = self.declare(passive(queue))?;
        Ok((declared.message_count, declared.consumer_count))
    }

    /// Waits until a queue has `messages` ready messages. RabbitMQ counts asynchronously: an answer may be outdated.
    pub(super) fn holds(&self, queue: &str, messages: u32) -> anyhow::Result<()> {
        self.eventually(&format!("{messages} messages in the queue"), || {
            Ok((self.counts(queue)?.0 == messages).then_some(()))
        })
    }

    /// Returns true if a queue exists. It is checked on a separate channel, which the answer may close.
    pub(super) fn has_queue(&self, queue: &str) -> anyhow::Result<bool> {
        let apart = self.connection.channel()?;
        apart.send(passive(queue))?;
        apart.is_there::<queue::DeclareOk>()
    }

    pub(super) fn has_exchange(&self, exchange: &str) -> anyhow::Result<bool> {
        let apart = self.connection.channel()?;
        apart.send(exchange::Declare {
            passive: true,
            ..exchange_of(exchange, "direct")
        })?;
        apart.is_there::<exchange::DeclareOk>()
    }

    fn is_there<Answer: super::method::Method>(&self) -> anyhow::Result<bool> {
        use amq_protocol::protocol::channel;
        let event = self.connection.event(self.id)?;
        match Answer::unwrap(event.method) {
            Ok(_) => self.close().map(|()| true),
            Err(other) => {
                let close = <channel::Close as super::method::Method>::unwrap(other)
                    .map_err(|other| super::connection::unexpected(Answer::NAME, &other))?;
                ensure!(
                    close.reply_code == 404,
                    "{} {}, expected 404",
                    close.reply_code,
                    close.reply_text
                );
                self.send(channel::CloseOk {}).map(|()| false)
            }
        }
    }

    /// Fetches one message, which needs an acknowledgement.
    pub(super) fn get(&self, queue: &str) -> anyhow::Result<Option<Message>> {
        self.fetch(queue, false)
    }

    /// Fetches one message, which must exist.
    pub(super) fn take(&self, queue: &str) -> anyhow::Result<Message> {
        self.eventually("a message", || self.fetch(queue, true))
    }

    /// Fetches the bodies of all messages.
    pub(super) fn drain(&self, queue: &str) -> anyhow::Result<Vec<String>> {
        let mut bodies = Vec::new();
        while let Some(message) = self.fetch(queue, true)? {
            bodies.push(message.body());
        }
        Ok(bodies)
    }

    fn fetch(&self, queue: &str, no_ack: bool) -> anyhow::Result<Option<Message>> {
        self.send(basic::Get {
            queue: queue.into(),
            no_ack,
        })?;
        self.fetched()
    }

    /// Returns the answer to `basic.get`.
    pub(super) fn fetched(&self) -> anyhow::Result<Option<Message>> {
        use super::method::Method as _;
        let event = self.connection.event(self.id)?;
        let got = match basic::GetEmpty::unwrap(event.method) {
            Ok(_) => return Ok(None),
            Err(other) => basic::GetOk::unwrap(other),
        };
        let got = got.map_err(|other| super::connection::unexpected("basic.get-ok", &other))?;
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
        let consuming: basic::ConsumeOk = self.call(consume)?;
        Ok(consuming.consumer_tag.to_string())
    }

    pub(super) fn cancel(&self, consumer: &str) -> anyhow::Result<basic::CancelOk> {
        self.call(basic::Cancel {
            consumer_tag: consumer.into(),
            nowait: false,
        })
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

    pub(super) fn ack(&self, delivery_tag: u64, multiple: bool) -> anyhow::Result<()> {
        self.send(basic::Ack {
            delivery_tag,
            multiple,
        })
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
        self.call::<basic::QosOk>(qos).map(drop)
    }

    pub(super) fn confirms(&self) -> anyhow::Result<()> {
        let select = confirm::Select { nowait: false };
        self.call::<confirm::SelectOk>(select).map(drop)
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

    pub(super) fn transactional(&self) -> anyhow::Result<()> {
        self.call::<tx::SelectOk>(tx::Select {}).map(drop)
    }

    pub(super) fn commit(&self) -> anyhow::Result<()> {
        self.call::<tx::CommitOk>(tx::Commit {}).map(drop)
    }

    pub(super) fn roll_back(&self) -> anyhow::Result<()> {
        self.call::<tx::RollbackOk>(tx::Rollback {}).map(drop)
    }
}

/// Returns a passive `queue.declare`.
pub(super) fn passive(queue: &str) -> queue::Declare {
    queue::Declare {
        queue: queue.into(),
        passive: true,
        ..queue::Declare::default()
    }
}

/// Returns `queue.declare` with a name and no options.
pub(super) fn named(queue: &str) -> queue::Declare {
    queue::Declare {
        queue: queue.into(),
        ..queue::Declare::default()
    }
}

/// Returns `queue.delete` of a queue that may be in use and hold messages.
pub(super) fn deletion(queue: &str) -> queue::Delete {
    queue::Delete {
        queue: queue.into(),
        ..queue::Delete::default()
    }
}

pub(super) fn exchange_of(exchange: &str, kind: &str) -> exchange::Declare {
    exchange::Declare {
        exchange: exchange.into(),
        kind: kind.into(),
        ..exchange::Declare::default()
    }
}

pub(super) fn binding(queue: &str, exchange: &str, key: &str) -> queue::Bind {
    queue::Bind {
        queue: queue.into(),
        exchange: exchange.into(),
        routing_key: key.into(),
        ..queue::Bind::default()
    }
}

pub(super) fn unbinding(queue: &str, exchange: &str, key: &str) -> queue::Unbind {
    queue::Unbind {
        queue: queue.into(),
        exchange: exchange.into(),
        routing_key: key.into(),
        ..queue::Unbind::default()
    }
}

pub(super) fn consumer(queue: &str) -> basic::Consume {
    basic::Consume {
        queue: queue.into(),
        ..basic::Consume::default()
    }
}

/// Returns `basic.publish` through the default exchange.
pub(super) fn to_queue(queue: &str) -> basic::Publish {
    basic::Publish {
        routing_key: queue.into(),
        ..basic::Publish::default()
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
