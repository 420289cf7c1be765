//! x-max-length, x-max-length-bytes and x-overflow.

use amq_protocol::protocol::basic;

use crate::case::{Case, on_channel};
use crate::channel::Channel;
use crate::client::{consumer, expect_eq};
use crate::values::{int, table, text};

fn publish_all(channel: &Channel<'_>, queue: &str, bodies: &[&str]) -> anyhow::Result<()> {
    bodies
        .iter()
        .try_for_each(|body| channel.publish("", queue, body))
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        on_channel("x-max-length: the oldest go", |channel| {
            let queue = channel.queue_with(table(&[("x-max-length", int(2))]))?;
            publish_all(channel, &queue, &["a", "b", "c", "d"])?;
            expect_eq("the messages", channel.drain(&queue)?, ["c", "d"])
        }),
        on_channel("x-max-length: of 0 keeps nothing", |channel| {
            let queue = channel.queue_with(table(&[("x-max-length", int(0))]))?;
            publish_all(channel, &queue, &["a", "b"])?;
            expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
        }),
        on_channel(
            "x-max-length: of 0 still serves a consumer that waits",
            |channel| {
                let queue = channel.queue_with(table(&[("x-max-length", int(0))]))?;
                channel.consume_as(basic::Consume {
                    no_ack: true,
                    ..consumer(&queue)
                })?;
                publish_all(channel, &queue, &["a"])?;
                expect_eq("the delivery", channel.delivery()?.body(), "a")
            },
        ),
        on_channel(
            "x-max-length: what is not acknowledged does not count",
            |channel| {
                let queue = channel.queue_with(table(&[("x-max-length", int(2))]))?;
                publish_all(channel, &queue, &["a", "b"])?;
                channel.get(&queue)?;
                channel.get(&queue)?;
                publish_all(channel, &queue, &["c", "d", "e"])?;
                expect_eq("the messages", channel.drain(&queue)?, ["d", "e"])
            },
        ),
        on_channel("x-max-length-bytes: the oldest go", |channel| {
            let queue = channel.queue_with(table(&[("x-max-length-bytes", int(10))]))?;
            publish_all(channel, &queue, &["aaaa", "bbbb", "cccc"])?;
            expect_eq("the messages", channel.drain(&queue)?, ["bbbb", "cccc"])
        }),
        on_channel(
            "x-max-length-bytes: a message beyond it goes with all before",
            |channel| {
                let queue = channel.queue_with(table(&[("x-max-length-bytes", int(10))]))?;
                publish_all(channel, &queue, &["a", "bbbbbbbbbbbb"])?;
                expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
            },
        ),
        on_channel(
            "x-max-length and x-max-length-bytes: the one that is reached first",
            |channel| {
                let queue = channel.queue_with(table(&[
                    ("x-max-length", int(3)),
                    ("x-max-length-bytes", int(4)),
                ]))?;
                publish_all(channel, &queue, &["a", "b", "c", "d"])?;
                publish_all(channel, &queue, &["ee", "f"])?;
                expect_eq("the messages", channel.drain(&queue)?, ["d", "ee", "f"])
            },
        ),
        on_channel("x-max-length: drop-head confirms with ack", |channel| {
            let queue = channel.queue_with(table(&[
                ("x-max-length", int(1)),
                ("x-overflow", text("drop-head")),
            ]))?;
            channel.confirms()?;
            publish_all(channel, &queue, &["a", "b", "c"])?;
            channel.confirmed(3)?;
            expect_eq("the messages", channel.drain(&queue)?, ["c"])
        }),
        on_channel(
            "x-overflow: reject-publish keeps the oldest, with nack",
            |channel| {
                let queue = channel.queue_with(table(&[
                    ("x-max-length", int(1)),
                    ("x-overflow", text("reject-publish")),
                ]))?;
                channel.confirms()?;
                publish_all(channel, &queue, &["a"])?;
                expect_eq(
                    "the first",
                    channel.pushed::<basic::Ack>()?.0.delivery_tag,
                    1,
                )?;
                publish_all(channel, &queue, &["b"])?;
                expect_eq(
                    "the second",
                    channel.pushed::<basic::Nack>()?.0.delivery_tag,
                    2,
                )?;
                expect_eq("the messages", channel.drain(&queue)?, ["a"])?;
                publish_all(channel, &queue, &["c"])?;
                expect_eq(
                    "the third",
                    channel.pushed::<basic::Ack>()?.0.delivery_tag,
                    3,
                )
            },
        ),
        on_channel(
            "x-overflow: reject-publish without confirms says nothing",
            |channel| {
                let queue = channel.queue_with(table(&[
                    ("x-max-length", int(1)),
                    ("x-overflow", text("reject-publish")),
                ]))?;
                publish_all(channel, &queue, &["a", "b", "c"])?;
                channel.is_quiet()?;
                expect_eq("the messages", channel.drain(&queue)?, ["a"])
            },
        ),
        on_channel(
            "x-overflow: one of two queues that rejects makes it a nack",
            |channel| {
                let exchange = channel.exchange("fanout")?;
                let full = channel.queue_with(table(&[
                    ("x-max-length", int(1)),
                    ("x-overflow", text("reject-publish")),
                ]))?;
                channel.bind(&full, &exchange, "")?;
                let other = channel.bound(&exchange, "")?;
                channel.publish("", &full, "a")?;
                channel.holds(&full, 1)?;
                channel.confirms()?;
                channel.publish(&exchange, "", "b")?;
                expect_eq(
                    "the confirm",
                    channel.pushed::<basic::Nack>()?.0.delivery_tag,
                    1,
                )?;
                expect_eq("the other queue", channel.drain(&other)?, ["b"])
            },
        ),
        on_channel("x-overflow: reject-publish with bytes", |channel| {
            let queue = channel.queue_with(table(&[
                ("x-max-length-bytes", int(4)),
                ("x-overflow", text("reject-publish")),
            ]))?;
            channel.confirms()?;
            publish_all(channel, &queue, &["aaaa"])?;
            expect_eq(
                "the first",
                channel.pushed::<basic::Ack>()?.0.delivery_tag,
                1,
            )?;
            publish_all(channel, &queue, &["b"])?;
            expect_eq(
                "the second",
                channel.pushed::<basic::Nack>()?.0.delivery_tag,
                2,
            )?;
            expect_eq("the messages", channel.drain(&queue)?, ["aaaa"])
        }),
    ]
}
