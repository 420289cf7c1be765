//! The end of queues and of their content: auto-delete, exclusive, queue.delete, queue.purge.

use amq_protocol::protocol::queue;

use crate::case::{Case, case, on_channel, on_connection};
use crate::client::{deletion, expect_eq, named};
use crate::values::table;

pub(super) fn purging(queue: &str) -> queue::Purge {
    queue::Purge {
        queue: queue.into(),
        nowait: false,
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = lifetimes();
    cases.extend(deleting());
    cases.extend(purges());
    cases
}

fn lifetimes() -> Vec<Case> {
    vec![
        on_channel(
            "queue.declare: an auto-delete one is gone with its last consumer",
            |channel| {
                let name = channel.scope().name();
                channel.declare(queue::Declare {
                    auto_delete: true,
                    ..named(&name)
                })?;
                let (first, second) = (channel.consume(&name)?, channel.consume(&name)?);
                channel.cancel(&first)?;
                expect_eq("consumers", channel.counts(&name)?.1, 1)?;
                channel.cancel(&second)?;
                channel.eventually("the queue is gone", || {
                    Ok((!channel.has_queue(&name)?).then_some(()))
                })
            },
        ),
        on_channel(
            "queue.declare: an auto-delete one without a consumer stays",
            |channel| {
                let name = channel.scope().name();
                channel.declare(queue::Declare {
                    auto_delete: true,
                    ..named(&name)
                })?;
                channel.publish("", &name, "x")?;
                expect_eq("what basic.get takes", channel.drain(&name)?, ["x"])?;
                channel.holds(&name, 0)
            },
        ),
        on_channel(
            "queue.declare: an auto-delete one is gone with the channel of its consumer",
            |channel| {
                let name = channel.scope().name();
                channel.declare(queue::Declare {
                    auto_delete: true,
                    ..named(&name)
                })?;
                let other = channel.connection.channel()?;
                other.consume(&name)?;
                other.close()?;
                channel.eventually("the queue is gone", || {
                    Ok((!channel.has_queue(&name)?).then_some(()))
                })
            },
        ),
        on_channel(
            "queue.declare: one that is neither lives on without its connection",
            |channel| {
                let apart = channel.scope().connect()?;
                let name = apart.channel()?.shared_queue(table(&[]))?;
                apart.close()?;
                channel.holds(&name, 0)
            },
        ),
        on_channel(
            "queue.declare: an exclusive one lives on without its channel",
            |channel| {
                let other = channel.connection.channel()?;
                let name = other.queue()?;
                other.close()?;
                channel.holds(&name, 0)
            },
        ),
        on_channel(
            "queue.declare: an exclusive one is gone with its connection",
            |channel| {
                let apart = channel.scope().connect()?;
                let name = apart.channel()?.queue()?;
                apart.close()?;
                channel.eventually("the queue is gone", || {
                    Ok((!channel.has_queue(&name)?).then_some(()))
                })
            },
        ),
        on_channel(
            "queue.declare: an exclusive one is gone with a connection that breaks off",
            |channel| {
                let apart = channel.scope().connect()?;
                let name = channel.scope().name();
                apart.channel()?.declare(queue::Declare {
                    exclusive: true,
                    ..named(&name)
                })?;
                apart.wire.hang_up();
                channel.eventually("the name is free", || {
                    let asking = channel.connection.channel()?;
                    asking.send(named(&name))?;
                    let event = asking.connection.event(asking.id)?;
                    let free =
                        <queue::DeclareOk as crate::method::Method>::unwrap(event.method).is_ok();
                    if !free {
                        asking.send(amq_protocol::protocol::channel::CloseOk {})?;
                    }
                    Ok(free.then_some(()))
                })
            },
        ),
    ]
}

fn deleting() -> Vec<Case> {
    vec![
        on_channel("queue.delete: counts its messages", |channel| {
            let queue = channel.queue()?;
            for body in ["a", "b", "c"] {
                channel.publish("", &queue, body)?;
            }
            expect_eq(
                "messages",
                channel
                    .call::<queue::DeleteOk>(deletion(&queue))?
                    .message_count,
                3,
            )
        }),
        on_channel("queue.delete: of a missing one is no error", |channel| {
            let deleted: queue::DeleteOk = channel.call(deletion("conformance-missing"))?;
            expect_eq("messages", deleted.message_count, 0)
        }),
        on_channel(
            "queue.delete: if-unused of one with a consumer is 406",
            |channel| {
                let queue = channel.queue()?;
                channel.consume(&queue)?;
                channel.refuses(
                    406,
                    queue::Delete {
                        if_unused: true,
                        ..deletion(&queue)
                    },
                )?;
                channel
                    .call::<queue::DeleteOk>(queue::Delete {
                        if_unused: true,
                        ..deletion(&queue)
                    })
                    .map(drop)
            },
        ),
        on_channel(
            "queue.delete: if-empty of one with a message is 406",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                channel.refuses(
                    406,
                    queue::Delete {
                        if_empty: true,
                        ..deletion(&queue)
                    },
                )?;
                expect_eq("the message", channel.drain(&queue)?, ["x"])?;
                channel
                    .call::<queue::DeleteOk>(queue::Delete {
                        if_empty: true,
                        ..deletion(&queue)
                    })
                    .map(drop)
            },
        ),
        on_channel("queue.delete: no-wait is not answered", |channel| {
            let queue = channel.queue()?;
            channel.send(queue::Delete {
                nowait: true,
                ..deletion(&queue)
            })?;
            channel.is_quiet()?;
            expect_eq("whether it is there", channel.has_queue(&queue)?, false)
        }),
        on_channel("queue.delete: its bindings are gone too", |channel| {
            let exchange = channel.exchange("fanout")?;
            let name = channel.shared_queue(table(&[]))?;
            channel.bind(&name, &exchange, "")?;
            channel.call::<queue::DeleteOk>(deletion(&name))?;
            channel.declare(named(&name))?;
            channel.publish(&exchange, "", "x")?;
            expect_eq("the messages", channel.drain(&name)?, Vec::<String>::new())
        }),
        on_connection("queue.delete: by another connection", |connection| {
            let name = connection.channel()?.shared_queue(table(&[]))?;
            let other = connection.scope.connect()?;
            let channel = other.channel()?;
            channel.call::<queue::DeleteOk>(deletion(&name))?;
            expect_eq("whether it is there", channel.has_queue(&name)?, false)?;
            other.close()
        }),
        case(
            "queue.delete: what was delivered of it can still be acknowledged",
            |scope| {
                let connection = scope.connect()?;
                let channel = connection.channel()?;
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                let got = channel.get(&queue)?;
                channel.call::<queue::DeleteOk>(deletion(&queue))?;
                channel.ack(got.map_or(0, |got| got.tag), false)?;
                channel.is_quiet()?;
                connection.close()
            },
        ),
    ]
}

fn purges() -> Vec<Case> {
    vec![
        on_channel("queue.purge: counts what it removes", |channel| {
            let queue = channel.queue()?;
            for body in ["a", "b", "c"] {
                channel.publish("", &queue, body)?;
            }
            expect_eq(
                "messages",
                channel
                    .call::<queue::PurgeOk>(purging(&queue))?
                    .message_count,
                3,
            )?;
            channel.holds(&queue, 0)
        }),
        on_channel("queue.purge: of an empty queue", |channel| {
            let queue = channel.queue()?;
            expect_eq(
                "messages",
                channel
                    .call::<queue::PurgeOk>(purging(&queue))?
                    .message_count,
                0,
            )
        }),
        on_channel("queue.purge: a missing one is 404", |channel| {
            channel.refuses(404, purging("conformance-missing"))
        }),
        on_channel("queue.purge: what is not acknowledged stays", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "a")?;
            channel.publish("", &queue, "b")?;
            let got = channel.get(&queue)?.map_or(0, |got| got.tag);
            expect_eq(
                "messages",
                channel
                    .call::<queue::PurgeOk>(purging(&queue))?
                    .message_count,
                1,
            )?;
            channel.reject(got, true)?;
            expect_eq("the remaining messages", channel.take(&queue)?.body(), "a")
        }),
        on_channel("queue.purge: no-wait is not answered", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "a")?;
            channel.send(queue::Purge {
                queue: queue.as_str().into(),
                nowait: true,
            })?;
            channel.is_quiet()?;
            channel.holds(&queue, 0)
        }),
    ]
}
