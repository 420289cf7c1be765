//! Expiry of messages and queues: `expiration`, x-message-ttl, x-expires.

use amq_protocol::protocol::{BasicProperties, basic};

use crate::case::{Case, on_channel};
use crate::channel::Channel;
use crate::client::{consumer, expect_eq};
use crate::method::Method as _;
use crate::values::{int, table, text};

fn expiring(after_ms: &str) -> BasicProperties {
    BasicProperties::default().with_expiration(after_ms.into())
}

/// Waits for this time by the broker's own clock: publishes a message that expires then, and waits for its dead letter.
fn pass(channel: &Channel<'_>, time_ms: u32) -> anyhow::Result<()> {
    let dead = channel.queue()?;
    let whereto = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(&dead)),
    ];
    let clock = channel.queue_with(table(&whereto))?;
    channel.publish_as("", &clock, &expiring(&time_ms.to_string()), "tick")?;
    channel.take(&dead).map(drop)
}

/// Asserts that a queue is empty after this time.
fn is_empty_after(channel: &Channel<'_>, queue: &str, time_ms: u32) -> anyhow::Result<()> {
    pass(channel, time_ms)?;
    expect_eq("the messages", channel.drain(queue)?, Vec::<String>::new())
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = messages();
    cases.extend(queues());
    for wrong in ["soon", "-1", "1.5", "", " 5"] {
        cases.push(on_channel(
            format!("expiration: {wrong:?} is 406"),
            move |channel| {
                let queue = channel.queue()?;
                channel.publish_as("", &queue, &expiring(wrong), "x")?;
                channel.is_closed(406, basic::Publish::default().ids())
            },
        ));
    }
    cases
}

fn messages() -> Vec<Case> {
    vec![
        on_channel("x-message-ttl: messages go after it", |channel| {
            let queue = channel.queue_with(table(&[("x-message-ttl", int(100))]))?;
            channel.publish("", &queue, "x")?;
            is_empty_after(channel, &queue, 200)
        }),
        on_channel("x-message-ttl: of a minute keeps them for now", |channel| {
            let queue = channel.queue_with(table(&[("x-message-ttl", int(60_000))]))?;
            channel.publish("", &queue, "x")?;
            expect_eq("the messages", channel.drain(&queue)?, ["x"])
        }),
        on_channel("x-message-ttl: of 0 leaves nothing behind", |channel| {
            let queue = channel.queue_with(table(&[("x-message-ttl", int(0))]))?;
            channel.publish("", &queue, "x")?;
            expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
        }),
        on_channel(
            "x-message-ttl: of 0 still serves a consumer that waits",
            |channel| {
                let queue = channel.queue_with(table(&[("x-message-ttl", int(0))]))?;
                channel.consume(&queue)?;
                channel.publish("", &queue, "x")?;
                expect_eq("the delivery", channel.delivery()?.body(), "x")
            },
        ),
        on_channel("expiration: the message goes after it", |channel| {
            let queue = channel.queue()?;
            channel.publish_as("", &queue, &expiring("100"), "x")?;
            is_empty_after(channel, &queue, 200)
        }),
        on_channel("expiration: of a minute keeps it for now", |channel| {
            let queue = channel.queue()?;
            channel.publish_as("", &queue, &expiring("60000"), "x")?;
            expect_eq("the messages", channel.drain(&queue)?, ["x"])
        }),
        on_channel("expiration: of 0 leaves nothing behind", |channel| {
            let queue = channel.queue()?;
            channel.publish_as("", &queue, &expiring("0"), "x")?;
            expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
        }),
        on_channel(
            "expiration: of 0 still serves a consumer that waits",
            |channel| {
                let queue = channel.queue()?;
                channel.consume_as(basic::Consume {
                    no_ack: true,
                    ..consumer(&queue)
                })?;
                channel.publish_as("", &queue, &expiring("0"), "x")?;
                let message = channel.delivery()?;
                expect_eq("the delivery", message.body(), "x")?;
                expect_eq(
                    "its expiration",
                    message.properties().clone(),
                    expiring("0"),
                )
            },
        ),
        on_channel(
            "expiration: the shorter of it and x-message-ttl counts",
            |channel| {
                let long = channel.queue_with(table(&[("x-message-ttl", int(60_000))]))?;
                channel.publish_as("", &long, &expiring("50"), "x")?;
                let short = channel.queue_with(table(&[("x-message-ttl", int(50))]))?;
                channel.publish_as("", &short, &expiring("60000"), "x")?;
                is_empty_after(channel, &long, 150)?;
                expect_eq("the messages", channel.drain(&short)?, Vec::<String>::new())
            },
        ),
        on_channel("expiration: a message without one stays", |channel| {
            let queue = channel.queue()?;
            channel.publish_as("", &queue, &expiring("50"), "goes")?;
            channel.publish("", &queue, "stays")?;
            pass(channel, 150)?;
            expect_eq("the messages", channel.drain(&queue)?, ["stays"])
        }),
        on_channel(
            "expiration: what is not acknowledged expires once it is back",
            |channel| {
                let queue = channel.queue()?;
                channel.publish_as("", &queue, &expiring("1000"), "x")?;
                let got = channel.get(&queue)?.map_or(0, |got| got.tag);
                pass(channel, 1100)?;
                channel.reject(got, true)?;
                expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
            },
        ),
    ]
}

fn queues() -> Vec<Case> {
    vec![
        on_channel("x-expires: a queue that nobody uses goes", |channel| {
            let queue = channel.shared_queue(table(&[("x-expires", int(100))]))?;
            channel.eventually("the queue is gone", || {
                // A passive declaration counts as use, so the queue is not checked for longer than that.
                pass(channel, 500)?;
                Ok((!channel.has_queue(&queue)?).then_some(()))
            })
        }),
        on_channel("x-expires: a consumer keeps the queue", |channel| {
            let queue = channel.shared_queue(table(&[("x-expires", int(100))]))?;
            channel.consume(&queue)?;
            pass(channel, 500)?;
            expect_eq("its consumers", channel.counts(&queue)?.1, 1)
        }),
    ]
}
