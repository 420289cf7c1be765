//! basic.consume, basic.cancel, basic.deliver.

use amq_protocol::protocol::{basic, queue};
use amq_protocol::types::AMQPValue;
use anyhow::ensure;

use crate::case::{Case, case, on_channel, on_connection};
use crate::client::{consumer, deletion, expect_eq};
use crate::values::{flag, int, table, text};

/// The argument of a queue that delivers to only one of its consumers.
const SINGLE: (&str, AMQPValue) = ("x-single-active-consumer", AMQPValue::Boolean(true));

pub(super) fn cases() -> Vec<Case> {
    let mut cases = starting();
    cases.extend(delivering());
    cases.extend(cancelling());
    cases.extend(choosing());
    cases
}

fn starting() -> Vec<Case> {
    vec![
        on_channel("basic.consume: a missing queue is 404", |channel| {
            channel.refuses(404, consumer("conformance-missing"))
        }),
        on_channel(
            "basic.consume: tags from the broker begin with amq.ctag- and differ",
            |channel| {
                let queue = channel.queue()?;
                let (first, second) = (channel.consume(&queue)?, channel.consume(&queue)?);
                ensure!(
                    first.starts_with("amq.ctag-"),
                    "the generated tag is {first:?}"
                );
                ensure!(first != second, "both tags are {first:?}");
                Ok(())
            },
        ),
        on_channel(
            "basic.consume: one's own tag is in the answer and in deliveries",
            |channel| {
                let queue = channel.queue()?;
                let mine = basic::Consume {
                    consumer_tag: "mine".into(),
                    ..consumer(&queue)
                };
                expect_eq("the answer", channel.consume_as(mine)?, "mine")?;
                channel.publish("", &queue, "x")?;
                expect_eq("the delivery", channel.delivery()?.consumer, "mine")
            },
        ),
        case(
            "basic.consume: a tag that the channel has is 530",
            |scope| {
                let connection = scope.connect()?;
                let channel = connection.channel()?;
                let queue = channel.queue()?;
                let mine = basic::Consume {
                    consumer_tag: "mine".into(),
                    ..consumer(&queue)
                };
                channel.consume_as(mine.clone())?;
                connection.breaks_on(channel.id, 530, mine)
            },
        ),
        on_connection(
            "basic.consume: the same tag on two channels",
            |connection| {
                let (first, second) = (connection.channel()?, connection.channel()?);
                let queue = first.queue()?;
                let mine = basic::Consume {
                    consumer_tag: "mine".into(),
                    ..consumer(&queue)
                };
                first.consume_as(mine.clone())?;
                second.consume_as(mine)?;
                expect_eq("consumers", first.counts(&queue)?.1, 2)
            },
        ),
        on_channel(
            "basic.consume: a tag can be used again after cancel",
            |channel| {
                let queue = channel.queue()?;
                for _ in 0..3 {
                    let mine = basic::Consume {
                        consumer_tag: "mine".into(),
                        ..consumer(&queue)
                    };
                    channel.consume_as(mine)?;
                    channel.cancel("mine")?;
                }
                expect_eq("consumers", channel.counts(&queue)?.1, 0)
            },
        ),
        on_channel(
            "basic.consume: exclusive where somebody consumes is 403",
            |channel| {
                let queue = channel.queue()?;
                channel.consume(&queue)?;
                channel.refuses(
                    403,
                    basic::Consume {
                        exclusive: true,
                        ..consumer(&queue)
                    },
                )
            },
        ),
        on_channel(
            "basic.consume: where somebody consumes exclusively is 403",
            |channel| {
                let queue = channel.queue()?;
                let other = channel.connection.channel()?;
                other.consume_as(basic::Consume {
                    exclusive: true,
                    ..consumer(&queue)
                })?;
                channel.refuses(403, consumer(&queue))?;
                other.close()?;
                channel.eventually("the place is free", || {
                    Ok((channel.counts(&queue)?.1 == 0).then_some(()))
                })?;
                channel.consume(&queue).map(drop)
            },
        ),
        on_channel(
            "basic.consume: no-wait is not answered, and delivers",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                channel.send(basic::Consume {
                    consumer_tag: "mine".into(),
                    nowait: true,
                    ..consumer(&queue)
                })?;
                expect_eq("the delivery", channel.delivery()?.consumer, "mine")
            },
        ),
        on_channel(
            "basic.consume: no-wait of a missing queue is refused",
            |channel| {
                channel.refuses(
                    404,
                    basic::Consume {
                        nowait: true,
                        consumer_tag: "mine".into(),
                        ..consumer("conformance-missing")
                    },
                )
            },
        ),
        on_channel("basic.consume: no-local changes nothing", |channel| {
            let queue = channel.queue()?;
            channel.consume_as(basic::Consume {
                no_local: true,
                ..consumer(&queue)
            })?;
            channel.publish("", &queue, "x")?;
            expect_eq("the delivery", channel.delivery()?.body(), "x")
        }),
    ]
}

fn delivering() -> Vec<Case> {
    vec![
        on_channel(
            "basic.deliver: what was there before and what comes after, in order",
            |channel| {
                let queue = channel.queue()?;
                for body in ["a", "b"] {
                    channel.publish("", &queue, body)?;
                }
                channel.consume(&queue)?;
                for body in ["c", "d"] {
                    channel.publish("", &queue, body)?;
                }
                expect_eq("the bodies", channel.deliveries(4)?, ["a", "b", "c", "d"])
            },
        ),
        on_channel(
            "basic.deliver: tags count from 1 on each channel, over all consumers",
            |channel| {
                let (first, second) = (channel.queue()?, channel.queue()?);
                channel.consume(&first)?;
                channel.consume(&second)?;
                let mut tags = Vec::new();
                for queue in [&first, &second, &first] {
                    channel.publish("", queue, "x")?;
                    tags.push(channel.delivery()?.tag);
                }
                expect_eq("the tags", tags, [1, 2, 3])?;
                let other = channel.connection.channel()?;
                let third = other.queue()?;
                other.consume(&third)?;
                other.publish("", &third, "x")?;
                expect_eq("the first of another channel", other.delivery()?.tag, 1)
            },
        ),
        on_channel("basic.deliver: exchange, key and redelivered", |channel| {
            let exchange = channel.exchange("topic")?;
            let queue = channel.bound(&exchange, "a.#")?;
            channel.consume(&queue)?;
            channel.publish(&exchange, "a.b.c", "x")?;
            let message = channel.delivery()?;
            expect_eq(
                "all three",
                (message.exchange, message.routing_key, message.redelivered),
                (exchange, "a.b.c".to_owned(), false),
            )
        }),
        on_channel("basic.deliver: two consumers take turns", |channel| {
            let queue = channel.queue()?;
            let tags = [channel.consume(&queue)?, channel.consume(&queue)?];
            let mut seen = Vec::new();
            for _ in 0..6 {
                channel.publish("", &queue, "x")?;
                let message = channel.delivery()?;
                seen.push(tags.iter().position(|tag| *tag == message.consumer));
            }
            let turns = seen.windows(2).filter(|pair| pair[0] != pair[1]).count();
            expect_eq("turns", turns, 5)
        }),
        on_channel(
            "basic.deliver: two consumers get each message once between them",
            |channel| {
                let queue = channel.queue()?;
                let other = channel.connection.channel()?;
                channel.consume(&queue)?;
                other.consume(&queue)?;
                let publisher = channel.connection.channel()?;
                for n in 0..20 {
                    publisher.publish("", &queue, &n.to_string())?;
                }
                let mut bodies = [channel.deliveries(10)?, other.deliveries(10)?].concat();
                bodies.sort_by_key(|body| body.parse::<u32>().unwrap_or(u32::MAX));
                let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
                expect_eq("the bodies", bodies, expected)
            },
        ),
        on_channel("basic.deliver: no-ack is forgotten once sent", |channel| {
            let queue = channel.queue()?;
            channel.consume_as(basic::Consume {
                no_ack: true,
                ..consumer(&queue)
            })?;
            for _ in 0..100 {
                channel.publish("", &queue, "x")?;
            }
            channel.deliveries(100)?;
            let other = channel.connection.channel()?;
            channel.close()?;
            channel.open()?;
            other.holds(&queue, 0)
        }),
        on_channel("basic.deliver: an empty body", |channel| {
            let queue = channel.queue()?;
            channel.consume(&queue)?;
            channel.publish("", &queue, "")?;
            channel.publish("", &queue, "next")?;
            expect_eq("the bodies", channel.deliveries(2)?, ["", "next"])
        }),
        on_channel("basic.deliver: a body of several frames", |channel| {
            let queue = channel.queue()?;
            channel.consume(&queue)?;
            channel.publish("", &queue, &"x".repeat(500_000))?;
            expect_eq("its length", channel.delivery()?.body().len(), 500_000)
        }),
        on_channel(
            "basic.deliver: from several connections to one consumer",
            |channel| {
                let queue = channel.shared_queue(table(&[]))?;
                channel.consume(&queue)?;
                for _ in 0..3 {
                    let apart = channel.scope().connect()?;
                    let publisher = apart.channel()?;
                    publisher.publish("", &queue, "x")?;
                    expect_eq("the delivery", channel.delivery()?.body(), "x")?;
                    publisher.close()?;
                    apart.close()?;
                }
                Ok(())
            },
        ),
    ]
}

/// Returns the cases about the choice among several consumers.
fn choosing() -> Vec<Case> {
    let with = |queue: &str, key: &str, value: AMQPValue| basic::Consume {
        arguments: table(&[(key, value)]),
        ..consumer(queue)
    };
    let mut cases: Vec<Case> = [
        ("x-priority", "a string", text("5")),
        ("x-priority", "a boolean", flag(true)),
        ("x-stream-offset", "of a stream", text("first")),
        ("x-cancel-on-ha-failover", "a string", text("true")),
    ]
    .into_iter()
    .map(|(key, what, value)| {
        on_channel(
            format!("basic.consume: {key} that is {what} is 406"),
            move |channel| {
                let queue = channel.queue()?;
                channel.refuses(406, with(&queue, key, value.clone()))
            },
        )
    })
    .collect();
    cases.extend([
        on_channel(
            "basic.consume: an unknown argument changes nothing",
            move |channel| {
                let queue = channel.queue()?;
                channel.consume_as(with(&queue, "x-conformance", int(1)))?;
                channel.publish("", &queue, "x")?;
                expect_eq("the delivery", channel.delivery()?.body(), "x")
            },
        ),
        on_channel(
            "basic.consume: the higher x-priority first, while it has room",
            move |channel| {
                let queue = channel.queue()?;
                let low = channel.consume_as(with(&queue, "x-priority", int(-1)))?;
                let normal = channel.consume(&queue)?;
                channel.qos(2, false)?;
                let high = channel.consume_as(with(&queue, "x-priority", int(10)))?;
                let mut seen = Vec::new();
                for _ in 0..4 {
                    channel.publish("", &queue, "x")?;
                    seen.push(channel.delivery()?.consumer);
                }
                let expected = [&high, &high, &normal, &normal].map(String::clone);
                expect_eq("consumers", seen, expected)?;
                channel.cancel(&normal)?;
                channel.publish("", &queue, "x")?;
                expect_eq("without the second", channel.delivery()?.consumer, low)?;
                channel.ack(1, false)?;
                channel.publish("", &queue, "x")?;
                expect_eq("with room again", channel.delivery()?.consumer, high)
            },
        ),
        on_channel(
            "basic.consume: a single active consumer is followed by the next",
            |channel| {
                let queue = channel.queue_with(table(&[SINGLE]))?;
                let (first, second) = (channel.consume(&queue)?, channel.consume(&queue)?);
                for _ in 0..2 {
                    channel.publish("", &queue, "x")?;
                    expect_eq("the consumer", &channel.delivery()?.consumer, &first)?;
                }
                expect_eq("consumers", channel.counts(&queue)?.1, 2)?;
                channel.cancel(&first)?;
                channel.publish("", &queue, "x")?;
                expect_eq("the next", channel.delivery()?.consumer, second)
            },
        ),
        on_channel(
            "basic.consume: a single active consumer stays before those of a higher x-priority",
            move |channel| {
                let queue = channel.queue_with(table(&[SINGLE]))?;
                let first = channel.consume(&queue)?;
                let normal = channel.consume(&queue)?;
                let high = channel.consume_as(with(&queue, "x-priority", int(10)))?;
                channel.publish("", &queue, "x")?;
                expect_eq("the consumer", &channel.delivery()?.consumer, &first)?;
                channel.cancel(&first)?;
                channel.publish("", &queue, "x")?;
                expect_eq("the next", &channel.delivery()?.consumer, &high)?;
                channel.cancel(&high)?;
                channel.publish("", &queue, "x")?;
                expect_eq("the last", channel.delivery()?.consumer, normal)
            },
        ),
        on_channel(
            "basic.consume: without room, a single active consumer is waited for",
            |channel| {
                let queue = channel.queue_with(table(&[SINGLE]))?;
                let other = channel.connection.channel()?;
                channel.qos(1, false)?;
                channel.consume(&queue)?;
                other.consume(&queue)?;
                for body in ["a", "b"] {
                    other.publish("", &queue, body)?;
                }
                let held = channel.delivery()?;
                other.is_quiet()?;
                channel.ack(held.tag, false)?;
                expect_eq("the next", channel.delivery()?.body(), "b")?;
                channel.close()?;
                let again = other.delivery()?;
                expect_eq(
                    "handed on",
                    (again.body(), again.redelivered),
                    ("b".to_owned(), true),
                )?;
                channel.open()
            },
        ),
        on_channel(
            "basic.consume: exclusive beside a single active consumer is 403",
            |channel| {
                let queue = channel.queue_with(table(&[SINGLE]))?;
                channel.refuses(
                    403,
                    basic::Consume {
                        exclusive: true,
                        ..consumer(&queue)
                    },
                )
            },
        ),
    ]);
    cases
}

fn cancelling() -> Vec<Case> {
    vec![
        on_channel(
            "basic.cancel: answers with the tag, and nothing is delivered any more",
            |channel| {
                let queue = channel.queue()?;
                let tag = channel.consume(&queue)?;
                expect_eq(
                    "the answer",
                    channel.cancel(&tag)?.consumer_tag.as_str(),
                    tag.as_str(),
                )?;
                channel.publish("", &queue, "x")?;
                channel.is_quiet()?;
                expect_eq("its counts", channel.counts(&queue)?, (1, 0))
            },
        ),
        on_channel(
            "basic.cancel: an unknown tag is answered all the same",
            |channel| {
                expect_eq(
                    "the answer",
                    channel.cancel("conformance")?.consumer_tag.as_str(),
                    "conformance",
                )
            },
        ),
        on_channel("basic.cancel: no-wait is not answered", |channel| {
            let queue = channel.queue()?;
            let tag = channel.consume(&queue)?;
            channel.send(basic::Cancel {
                consumer_tag: tag.into(),
                nowait: true,
            })?;
            channel.is_quiet()?;
            expect_eq("consumers", channel.counts(&queue)?.1, 0)
        }),
        on_channel(
            "basic.cancel: what was delivered can still be acknowledged",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "a")?;
                channel.publish("", &queue, "b")?;
                let tag = channel.consume(&queue)?;
                let messages = [channel.delivery()?, channel.delivery()?];
                channel.cancel(&tag)?;
                channel.ack(messages[0].tag, false)?;
                channel.reject(messages[1].tag, true)?;
                expect_eq("the messages", channel.drain(&queue)?, ["b"])
            },
        ),
        on_channel(
            "basic.cancel: of one consumer leaves the other",
            |channel| {
                let queue = channel.queue()?;
                let (first, second) = (channel.consume(&queue)?, channel.consume(&queue)?);
                channel.cancel(&first)?;
                channel.publish("", &queue, "x")?;
                expect_eq("the delivery", channel.delivery()?.consumer, second)
            },
        ),
        on_channel(
            "basic.cancel: is sent to a consumer whose queue is deleted",
            |channel| {
                let queue = channel.queue()?;
                let tag = channel.consume(&queue)?;
                let other = channel.connection.channel()?;
                other.call::<queue::DeleteOk>(deletion(&queue))?;
                let (cancel, _) = channel.pushed::<basic::Cancel>()?;
                expect_eq(
                    "tag and no-wait",
                    (cancel.consumer_tag.as_str(), cancel.nowait),
                    (tag.as_str(), true),
                )
            },
        ),
        on_channel(
            "basic.cancel: is sent to a consumer on the channel that deletes its queue",
            |channel| {
                let queue = channel.queue()?;
                let tag = channel.consume(&queue)?;
                channel.call::<queue::DeleteOk>(deletion(&queue))?;
                expect_eq(
                    "the tag",
                    channel.pushed::<basic::Cancel>()?.0.consumer_tag.as_str(),
                    tag.as_str(),
                )
            },
        ),
        case(
            "basic.cancel: is not sent to a client without consumer_cancel_notify",
            |scope| {
                use amq_protocol::protocol::connection;
                let client = crate::connection::Connection::greet(scope)?;
                let start_ok = client.plain(scope.user(), scope.password());
                client.send(
                    0,
                    connection::StartOk {
                        client_properties: table(&[]),
                        ..start_ok
                    },
                )?;
                client.tune.replace(client.receive()?);
                client.send(0, client.tune_ok())?;
                client.send(0, client.open_vhost(scope.vhost()))?;
                client.receive::<connection::OpenOk>()?;
                let channel = client.channel()?;
                let queue = channel.queue()?;
                channel.consume(&queue)?;
                channel.call::<queue::DeleteOk>(deletion(&queue))?;
                channel.is_quiet()?;
                client.close()
            },
        ),
    ]
}
