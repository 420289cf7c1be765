//! The requests of simulated clients, and the queues that these are about.

use amq_protocol::protocol::basic::{self, AMQPMethod as Basic};
use amq_protocol::protocol::channel::{self, AMQPMethod as ChannelMethod};
use amq_protocol::protocol::queue::{self, AMQPMethod as QueueMethod};
use amq_protocol::protocol::{AMQPClass, confirm, tx};
use amq_protocol::types::{AMQPValue, FieldTable};

/// The messages that `Queue::Full` takes.
const ROOM: i32 = 5;
/// The exchange of messages for several queues.
pub(super) const EXCHANGE: &str = "amq.fanout";

/// A queue, which is declared in the same way each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Queue {
    /// Durable, never deleted or purged: nothing of it may be lost.
    Kept,
    Plain,
    Auto,
    /// Exclusive: others that use it are refused.
    Own,
    /// Its messages expire, and go to `Dead`.
    Brief,
    Single,
    /// Refuses messages when it is full.
    Full,
    /// Drops the oldest messages when it is full.
    Short,
    Dead,
}

pub(crate) const QUEUES: [Queue; 9] = [
    Queue::Kept,
    Queue::Plain,
    Queue::Auto,
    Queue::Own,
    Queue::Brief,
    Queue::Single,
    Queue::Full,
    Queue::Short,
    Queue::Dead,
];

impl Queue {
    pub(super) fn name(self) -> String {
        format!("{self:?}")
    }

    fn declare(self) -> queue::Declare {
        let number = |name: &str, value| (name.to_owned(), AMQPValue::LongInt(value));
        let text =
            |name: &str, value: String| (name.to_owned(), AMQPValue::LongString(value.into()));
        let arguments = match self {
            Self::Brief => vec![
                number("x-message-ttl", 1000),
                text("x-dead-letter-exchange", String::new()),
                text("x-dead-letter-routing-key", Self::Dead.name()),
            ],
            Self::Single => vec![(
                "x-single-active-consumer".to_owned(),
                AMQPValue::Boolean(true),
            )],
            Self::Full => vec![
                number("x-max-length", ROOM),
                text("x-overflow", "reject-publish".to_owned()),
            ],
            Self::Short => vec![number("x-max-length", ROOM)],
            _ => Vec::new(),
        };
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert(name.into(), value);
        }
        queue::Declare {
            queue: self.name().into(),
            durable: self == Self::Kept,
            exclusive: self == Self::Own,
            auto_delete: self == Self::Auto,
            arguments: table,
            ..queue::Declare::default()
        }
    }
}

/// The way in which a client settles deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    Ack,
    Requeue,
    Reject,
}

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Heartbeat,
    /// A part of the greeting, in whatever order.
    Greet(usize),
    Goodbye,
    Open,
    Close,
    Declare(Queue),
    /// Declares the queue as one that differs.
    Redeclare(Queue),
    Delete(Queue),
    Purge(Queue),
    Bind(Queue),
    /// A message of this length.
    Publish(Queue, usize),
    PublishToAll(usize),
    /// A message whose body does not follow.
    Begin(Queue),
    /// A body that belongs to no message.
    StrayBody,
    SelectConfirms,
    SelectTx,
    Commit,
    RollBack,
    Qos(u16),
    /// True: without acknowledgements.
    Consume(Queue, bool),
    Cancel,
    Get(Queue, bool),
    /// Settles one of the deliveries, or all up to it.
    Settle(usize, bool, Settlement),
    SettleUnknown,
    /// Acknowledges all deliveries, also those that a rollback has given back.
    SettleAll,
    Recover,
}

impl Ask {
    /// Returns the method of a request that is nothing else. It may name a consumer.
    pub(super) fn method(self, consumer: &str) -> AMQPClass {
        let of_queue = |queue: Queue| queue.name().into();
        match self {
            Self::Declare(queue) => AMQPClass::Queue(QueueMethod::Declare(queue.declare())),
            Self::Redeclare(queue) => {
                let mut declare = queue.declare();
                declare.durable = !declare.durable;
                AMQPClass::Queue(QueueMethod::Declare(declare))
            }
            Self::Delete(queue) => AMQPClass::Queue(QueueMethod::Delete(queue::Delete {
                queue: of_queue(queue),
                ..queue::Delete::default()
            })),
            Self::Purge(queue) => AMQPClass::Queue(QueueMethod::Purge(queue::Purge {
                queue: of_queue(queue),
                nowait: false,
            })),
            Self::Bind(queue) => AMQPClass::Queue(QueueMethod::Bind(queue::Bind {
                queue: of_queue(queue),
                exchange: EXCHANGE.into(),
                ..queue::Bind::default()
            })),
            Self::SelectConfirms => {
                AMQPClass::Confirm(confirm::AMQPMethod::Select(confirm::Select {
                    nowait: false,
                }))
            }
            Self::SelectTx => AMQPClass::Tx(tx::AMQPMethod::Select(tx::Select {})),
            Self::Commit => AMQPClass::Tx(tx::AMQPMethod::Commit(tx::Commit {})),
            Self::RollBack => AMQPClass::Tx(tx::AMQPMethod::Rollback(tx::Rollback {})),
            Self::Close => AMQPClass::Channel(ChannelMethod::Close(channel::Close::default())),
            _ => AMQPClass::Basic(self.basic(consumer)),
        }
    }

    fn basic(self, consumer: &str) -> Basic {
        match self {
            Self::Qos(prefetch_count) => Basic::Qos(basic::Qos {
                prefetch_count,
                global: prefetch_count % 2 == 0,
            }),
            Self::Consume(queue, no_ack) => Basic::Consume(basic::Consume {
                queue: queue.name().into(),
                consumer_tag: consumer.into(),
                no_ack,
                ..basic::Consume::default()
            }),
            Self::Cancel => Basic::Cancel(basic::Cancel {
                consumer_tag: consumer.into(),
                nowait: false,
            }),
            Self::Get(queue, no_ack) => Basic::Get(basic::Get {
                queue: queue.name().into(),
                no_ack,
            }),
            Self::Recover => Basic::Recover(basic::Recover { requeue: true }),
            Self::SettleAll => Basic::Ack(basic::Ack {
                delivery_tag: 0,
                multiple: true,
            }),
            _ => Basic::Ack(basic::Ack {
                delivery_tag: u64::MAX,
                multiple: false,
            }),
        }
    }
}
