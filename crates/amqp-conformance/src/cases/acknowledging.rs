//! basic.ack, basic.nack, basic.reject.

use amq_protocol::protocol::basic;

use crate::case::{Case, on_channel, on_connection};
use crate::channel::Channel;
use crate::client::expect_eq;
use crate::method::Method;

fn ack(delivery_tag: u64, multiple: bool) -> basic::Ack {
    basic::Ack {
        delivery_tag,
        multiple,
    }
}

/// Returns a queue with these messages, all of them fetched and not acknowledged: tags 1, 2, 3 and so on.
fn fetched(channel: &Channel<'_>, bodies: &[&str]) -> anyhow::Result<String> {
    let queue = channel.queue()?;
    for body in bodies {
        channel.publish("", &queue, body)?;
    }
    for _ in bodies {
        channel.get(&queue)?;
    }
    Ok(queue)
}

/// Returns the content of the queue after the channel has requeued everything.
fn given_back(channel: &Channel<'_>, queue: &str) -> anyhow::Result<Vec<String>> {
    channel.close()?;
    channel.open()?;
    channel.drain(queue)
}

fn refused(
    name: &str,
    bodies: &'static [&'static str],
    method: impl Method + Clone + Send + Sync + 'static,
) -> Case {
    on_channel(name, move |channel| {
        let queue = fetched(channel, bodies)?;
        channel.refuses(406, method.clone())?;
        expect_eq(
            "the messages in the queue",
            channel.drain(&queue)?,
            bodies.to_vec(),
        )
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = settling();
    cases.extend(requeueing());
    cases.extend([
        refused("basic.ack: an unknown tag is 406", &["a"], ack(2, false)),
        refused(
            "basic.ack: multiple up to an unknown tag is 406",
            &["a"],
            ack(2, true),
        ),
        refused(
            "basic.ack: tag 0 without multiple is 406",
            &["a"],
            ack(0, false),
        ),
        refused(
            "basic.nack: an unknown tag is 406",
            &["a"],
            basic::Nack {
                delivery_tag: 9,
                ..basic::Nack::default()
            },
        ),
        refused(
            "basic.reject: an unknown tag is 406",
            &["a"],
            basic::Reject {
                delivery_tag: 9,
                requeue: true,
            },
        ),
        refused(
            "basic.ack: a tag before any delivery is 406",
            &[],
            ack(1, false),
        ),
        on_channel("basic.ack: twice is 406", |channel| {
            let queue = fetched(channel, &["a", "b"])?;
            channel.ack(1, false)?;
            channel.refuses(406, ack(1, false))?;
            expect_eq("the messages in the queue", channel.drain(&queue)?, ["b"])
        }),
        on_channel("basic.ack: after reject is 406", |channel| {
            fetched(channel, &["a"])?;
            channel.reject(1, false)?;
            channel.refuses(406, ack(1, false))
        }),
        on_channel(
            "basic.ack: multiple up to a tag that is settled is 406",
            |channel| {
                fetched(channel, &["a", "b", "c"])?;
                channel.ack(2, true)?;
                channel.refuses(406, ack(2, true))
            },
        ),
        on_connection("basic.ack: on another channel is 406", |connection| {
            let (channel, other) = (connection.channel()?, connection.channel()?);
            let queue = fetched(&channel, &["a"])?;
            other.refuses(406, ack(1, false))?;
            expect_eq(
                "the messages in the queue",
                given_back(&channel, &queue)?,
                ["a"],
            )
        }),
        on_connection(
            "basic.ack: tags of a channel that was closed are 406",
            |connection| {
                let channel = connection.channel()?;
                fetched(&channel, &["a"])?;
                channel.close()?;
                channel.open()?;
                channel.refuses(406, ack(1, false))
            },
        ),
    ]);
    cases
}

fn settling() -> Vec<Case> {
    vec![
        on_channel("basic.ack: one", |channel| {
            let queue = fetched(channel, &["a", "b", "c"])?;
            channel.ack(2, false)?;
            expect_eq(
                "the requeued messages",
                given_back(channel, &queue)?,
                ["a", "c"],
            )
        }),
        on_channel("basic.ack: multiple takes all up to the tag", |channel| {
            let queue = fetched(channel, &["a", "b", "c", "d"])?;
            channel.ack(3, true)?;
            expect_eq("the requeued messages", given_back(channel, &queue)?, ["d"])
        }),
        on_channel(
            "basic.ack: multiple passes over what is settled",
            |channel| {
                let queue = fetched(channel, &["a", "b", "c", "d"])?;
                channel.ack(2, false)?;
                channel.ack(3, true)?;
                expect_eq("the requeued messages", given_back(channel, &queue)?, ["d"])
            },
        ),
        on_channel("basic.ack: multiple of tag 0 takes all", |channel| {
            let queue = fetched(channel, &["a", "b", "c"])?;
            channel.ack(0, true)?;
            expect_eq(
                "the requeued messages",
                given_back(channel, &queue)?,
                Vec::<String>::new(),
            )
        }),
        on_channel(
            "basic.ack: multiple of tag 0 with nothing to settle",
            |channel| {
                channel.ack(0, true)?;
                channel.is_quiet()
            },
        ),
        on_channel("basic.ack: out of order", |channel| {
            let queue = fetched(channel, &["a", "b", "c"])?;
            for tag in [3, 1, 2] {
                channel.ack(tag, false)?;
            }
            expect_eq(
                "the requeued messages",
                given_back(channel, &queue)?,
                Vec::<String>::new(),
            )
        }),
        on_channel("basic.ack: multiple over several queues", |channel| {
            let (first, second) = (channel.queue()?, channel.queue()?);
            for queue in [&first, &second, &first, &second] {
                channel.publish("", queue, "x")?;
                channel.get(queue)?;
            }
            channel.ack(3, true)?;
            channel.close()?;
            channel.open()?;
            channel.holds(&first, 0)?;
            channel.holds(&second, 1)
        }),
        on_channel("basic.nack: multiple without requeue", |channel| {
            let queue = fetched(channel, &["a", "b", "c"])?;
            channel.nack(2, true, false)?;
            expect_eq("the requeued messages", given_back(channel, &queue)?, ["c"])
        }),
        on_channel("basic.nack: multiple of tag 0 without requeue", |channel| {
            let queue = fetched(channel, &["a", "b", "c"])?;
            channel.nack(0, true, false)?;
            expect_eq(
                "the requeued messages",
                given_back(channel, &queue)?,
                Vec::<String>::new(),
            )
        }),
        on_channel("basic.reject: without requeue", |channel| {
            let queue = fetched(channel, &["a", "b"])?;
            channel.reject(1, false)?;
            expect_eq("the requeued messages", given_back(channel, &queue)?, ["b"])
        }),
    ]
}

fn requeueing() -> Vec<Case> {
    vec![
        on_channel(
            "basic.reject: with requeue it is the first again, redelivered",
            |channel| {
                let queue = channel.queue()?;
                for body in ["a", "b", "c"] {
                    channel.publish("", &queue, body)?;
                }
                channel.get(&queue)?;
                channel.reject(1, true)?;
                let seen: Vec<(String, bool)> = (0..3)
                    .map(|_| {
                        channel
                            .take(&queue)
                            .map(|got| (got.body(), got.redelivered))
                    })
                    .collect::<anyhow::Result<_>>()?;
                expect_eq(
                    "bodies and redelivered",
                    seen,
                    [
                        ("a".to_owned(), true),
                        ("b".to_owned(), false),
                        ("c".to_owned(), false),
                    ],
                )
            },
        ),
        on_channel(
            "basic.nack: with requeue all are in their old order",
            |channel| {
                let queue = fetched(channel, &["a", "b", "c"])?;
                channel.publish("", &queue, "d")?;
                channel.nack(0, true, true)?;
                expect_eq("the messages", channel.drain(&queue)?, ["a", "b", "c", "d"])
            },
        ),
        on_channel(
            "basic.reject: with requeue, the last first, they are in their old order",
            |channel| {
                let queue = fetched(channel, &["a", "b", "c"])?;
                for tag in [3, 2, 1] {
                    channel.reject(tag, true)?;
                }
                expect_eq("the messages", channel.drain(&queue)?, ["a", "b", "c"])
            },
        ),
        on_channel(
            "basic.reject: with requeue, the first first, they are in their old order",
            |channel| {
                let queue = fetched(channel, &["a", "b", "c"])?;
                for tag in [1, 2, 3] {
                    channel.reject(tag, true)?;
                }
                expect_eq("the messages", channel.drain(&queue)?, ["a", "b", "c"])
            },
        ),
        on_channel(
            "basic.reject: one from the middle goes between those that are there",
            |channel| {
                let queue = fetched(channel, &["a", "b", "c"])?;
                channel.reject(1, true)?;
                channel.reject(3, true)?;
                channel.reject(2, true)?;
                expect_eq("the messages", channel.drain(&queue)?, ["a", "b", "c"])
            },
        ),
        on_channel("basic.nack: a new tag each time", |channel| {
            let queue = fetched(channel, &["a"])?;
            channel.nack(1, false, true)?;
            expect_eq(
                "the second",
                channel.get(&queue)?.map(|got| got.tag),
                Some(2),
            )?;
            channel.nack(2, false, true)?;
            expect_eq(
                "the third",
                channel.get(&queue)?.map(|got| got.tag),
                Some(3),
            )
        }),
        on_channel("basic.nack: goes to another consumer too", |channel| {
            let queue = channel.queue()?;
            let other = channel.connection.channel()?;
            channel.consume(&queue)?;
            channel.publish("", &queue, "x")?;
            let message = channel.delivery()?;
            channel.cancel(&message.consumer)?;
            other.consume(&queue)?;
            channel.nack(message.tag, false, true)?;
            let again = other.delivery()?;
            expect_eq(
                "body and redelivered",
                (again.body().as_str(), again.redelivered),
                ("x", true),
            )
        }),
        on_channel("basic.reject: content stays as it was", |channel| {
            let queue = channel.queue()?;
            let properties =
                amq_protocol::protocol::BasicProperties::default().with_message_id("m".into());
            channel.publish_as("", &queue, &properties, "x")?;
            channel.get(&queue)?;
            channel.reject(1, true)?;
            let again = channel.take(&queue)?;
            expect_eq("properties", again.properties(), &properties)?;
            expect_eq("body", again.body(), "x")
        }),
    ]
}
