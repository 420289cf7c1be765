//! Messages and queues with an end: `expiration`, x-message-ttl, x-expires.

use amq_protocol::protocol::{BasicProperties, basic};

use crate::conformance::case::{Case, on_channel};
use crate::conformance::channel::Channel;
use crate::conformance::method::Method as _;
use crate::conformance::usual::{consumer, same};
use crate::conformance::values::{int, table};

fn expiring(after_ms: &str) -> BasicProperties {
    BasicProperties::default().with_expiration(after_ms.into())
}

fn empties(channel: &Channel<'_>, queue: &str) -> anyhow::Result<()> {
    channel.eventually("the queue is empty", || {
        Ok((channel.counts(queue)?.0 == 0).then_some(()))
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        on_channel("x-message-ttl: messages go after it", |channel| {
            let queue = channel.queue_with(table(&[("x-message-ttl", int(300))]))?;
            channel.publish("", &queue, "x")?;
            same("messages at first", channel.counts(&queue)?.0, 1)?;
            empties(channel, &queue)
        }),
        on_channel("x-message-ttl: of a minute keeps them for now", |channel| {
            let queue = channel.queue_with(table(&[("x-message-ttl", int(60_000))]))?;
            channel.publish("", &queue, "x")?;
            same("the messages", channel.drain(&queue)?, ["x"])
        }),
        on_channel("x-message-ttl: of 0 leaves nothing behind", |channel| {
            let queue = channel.queue_with(table(&[("x-message-ttl", int(0))]))?;
            channel.publish("", &queue, "x")?;
            same("the messages", channel.drain(&queue)?, Vec::<String>::new())
        }),
        on_channel("x-message-ttl: of 0 still serves a consumer that waits", |channel| {
            let queue = channel.queue_with(table(&[("x-message-ttl", int(0))]))?;
            channel.consume(&queue)?;
            channel.publish("", &queue, "x")?;
            same("the delivery", channel.delivery()?.body(), "x")
        }),
        on_channel("expiration: the message goes after it", |channel| {
            let queue = channel.queue()?;
            channel.publish_as("", &queue, &expiring("300"), "x")?;
            same("messages at first", channel.counts(&queue)?.0, 1)?;
            empties(channel, &queue)
        }),
        on_channel("expiration: of 0 leaves nothing behind", |channel| {
            let queue = channel.queue()?;
            channel.publish_as("", &queue, &expiring("0"), "x")?;
            same("the messages", channel.drain(&queue)?, Vec::<String>::new())
        }),
        on_channel("expiration: of 0 still serves a consumer that waits", |channel| {
            let queue = channel.queue()?;
            channel.consume_as(basic::Consume { no_ack: true, ..consumer(&queue) })?;
            channel.publish_as("", &queue, &expiring("0"), "x")?;
            let message = channel.delivery()?;
            same("the delivery", message.body(), "x")?;
            same("its expiration", message.properties().clone(), expiring("0"))
        }),
        on_channel("expiration: the shorter of it and x-message-ttl counts", |channel| {
            let long = channel.queue_with(table(&[("x-message-ttl", int(60_000))]))?;
            channel.publish_as("", &long, &expiring("50"), "x")?;
            empties(channel, &long)?;
            let short = channel.queue_with(table(&[("x-message-ttl", int(50))]))?;
            channel.publish_as("", &short, &expiring("60000"), "x")?;
            empties(channel, &short)
        }),
        on_channel("expiration: a message without one stays", |channel| {
            let queue = channel.queue()?;
            channel.publish_as("", &queue, &expiring("50"), "goes")?;
            channel.publish("", &queue, "stays")?;
            channel.eventually("one is left", || Ok((channel.counts(&queue)?.0 == 1).then_some(())))?;
            same("the messages", channel.drain(&queue)?, ["stays"])
        }),
        on_channel("expiration: what is not acknowledged expires once it is back", |channel| {
            let queue = channel.queue()?;
            channel.publish_as("", &queue, &expiring("200"), "x")?;
            let got = channel.get(&queue)?.map_or(0, |got| got.tag);
            // Another of the same age shows when it is over.
            let other = channel.queue()?;
            channel.publish_as("", &other, &expiring("250"), "x")?;
            empties(channel, &other)?;
            channel.reject(got, true)?;
            same("the messages", channel.drain(&queue)?, Vec::<String>::new())
        }),
        on_channel("x-expires: a queue that nobody uses goes", |channel| {
            let queue = channel.shared_queue(table(&[("x-expires", int(100))]))?;
            channel.eventually("the queue is gone", || {
                // Asking is a use: so it is asked less often than it expires.
                std::thread::sleep(std::time::Duration::from_millis(250));
                Ok((!channel.has_queue(&queue)?).then_some(()))
            })
        }),
        on_channel("x-expires: a consumer keeps the queue", |channel| {
            let queue = channel.shared_queue(table(&[("x-expires", int(100))]))?;
            channel.consume(&queue)?;
            let gone = channel.shared_queue(table(&[("x-expires", int(200))]))?;
            channel.eventually("the other queue is gone", || {
                std::thread::sleep(std::time::Duration::from_millis(350));
                Ok((!channel.has_queue(&gone)?).then_some(()))
            })?;
            same("its consumers", channel.counts(&queue)?.1, 1)
        }),
    ];
    for wrong in ["soon", "-1", "1.5", "", " 5", "99999999999"] {
        cases.push(on_channel(format!("expiration: {wrong:?} is 406"), move |channel| {
            let queue = channel.queue()?;
            channel.publish_as("", &queue, &expiring(wrong), "x")?;
            channel.is_closed(406, basic::Publish::default().ids())
        }));
    }
    cases
}
