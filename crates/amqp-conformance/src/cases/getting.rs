//! basic.get.

use amq_protocol::protocol::basic;
use anyhow::Context as _;

use crate::case::{Case, on_channel};
use crate::client::expect_eq;

pub(super) fn cases() -> Vec<Case> {
    vec![
        on_channel("basic.get: of an empty queue", |channel| {
            let queue = channel.queue()?;
            expect_eq(
                "the answer",
                channel.get(&queue)?.map(|got| got.body()),
                None,
            )
        }),
        on_channel("basic.get: of a missing queue is 404", |channel| {
            channel.refuses(
                404,
                basic::Get {
                    queue: "conformance-missing".into(),
                    no_ack: true,
                },
            )
        }),
        on_channel(
            "basic.get: says what is left, and counts its tags",
            |channel| {
                let queue = channel.queue()?;
                for body in ["a", "b", "c"] {
                    channel.publish("", &queue, body)?;
                }
                for (tag, left, body) in [(1, 2, "a"), (2, 1, "b"), (3, 0, "c")] {
                    let got = channel.get(&queue)?.context("a message is missing")?;
                    expect_eq(
                        "tag, left, body",
                        (got.tag, got.left, got.body().as_str()),
                        (tag, left, body),
                    )?;
                }
                Ok(())
            },
        ),
        on_channel("basic.get: exchange and routing key", |channel| {
            let exchange = channel.exchange("direct")?;
            let queue = channel.bound(&exchange, "a")?;
            channel.publish(&exchange, "a", "x")?;
            let got = channel.get(&queue)?.context("a message is missing")?;
            expect_eq(
                "both",
                (got.exchange, got.routing_key),
                (exchange, "a".to_owned()),
            )
        }),
        on_channel(
            "basic.get: what is not acknowledged is not fetched twice",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                channel.get(&queue)?;
                expect_eq(
                    "the second",
                    channel.get(&queue)?.map(|got| got.body()),
                    None,
                )
            },
        ),
        on_channel("basic.get: no-ack can't be acknowledged", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "x")?;
            let got = channel.take(&queue)?;
            channel.refuses(
                406,
                basic::Ack {
                    delivery_tag: got.tag,
                    multiple: false,
                },
            )
        }),
        on_channel("basic.get: an empty body", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "")?;
            expect_eq(
                "the body",
                channel.take(&queue)?.content.body,
                Vec::<u8>::new(),
            )
        }),
        on_channel(
            "basic.get: beside a consumer with its hands full",
            |channel| {
                let queue = channel.queue()?;
                channel.qos(1, false)?;
                channel.consume(&queue)?;
                for body in ["a", "b"] {
                    channel.publish("", &queue, body)?;
                }
                expect_eq("the delivery", channel.delivery()?.body(), "a")?;
                expect_eq("the message", channel.take(&queue)?.body(), "b")
            },
        ),
        on_channel("basic.get: prefetch does not hold it back", |channel| {
            let queue = channel.queue()?;
            channel.qos(1, false)?;
            for body in ["a", "b", "c"] {
                channel.publish("", &queue, body)?;
            }
            for body in ["a", "b", "c"] {
                expect_eq(
                    "the message",
                    channel.get(&queue)?.map(|got| got.body()),
                    Some(body.to_owned()),
                )?;
            }
            Ok(())
        }),
    ]
}
