//! basic.qos: per consumer, per channel, without a limit.

use std::collections::BTreeMap;

use super::*;
use crate::wire::METHOD;

fn filled(channel: &Channel<'_>, count: usize) -> anyhow::Result<String> {
    let queue = channel.queue()?;
    for n in 0..count {
        channel.publish("", &queue, &n.to_string())?;
    }
    Ok(queue)
}

/// Declares a queue with messages, and consumes it with a limit.
fn consumed(
    channel: &Channel<'_>,
    count: usize,
    limit: u16,
    global: bool,
) -> anyhow::Result<String> {
    let queue = filled(channel, count)?;
    channel.qos(limit, global)?;
    channel.consume(&queue)?;
    Ok(queue)
}

/// Asserts that exactly `count` messages are delivered; returns the tag of the last.
fn gets(channel: &Channel<'_>, count: u64) -> anyhow::Result<u64> {
    let mut last = 0;
    for _ in 0..count {
        last = channel.delivery()?.tag;
    }
    settles(channel)?;
    Ok(last)
}

/// Asserts silence like `is_quiet`, without changing the limit.
fn settles(channel: &Channel<'_>) -> anyhow::Result<()> {
    for _ in 0..2 {
        channel.cancel("conformance-nobody")?;
    }
    channel.has_nothing()
}

/// Acknowledges 90 deliveries one by one, and asserts that each of the consumers got a fair share of them. RabbitMQ
/// chooses at random, so a fair share is not an equal one.
fn is_shared(channel: &Channel<'_>, consumers: usize) -> anyhow::Result<()> {
    let mut shares: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..90 {
        let message = channel.delivery()?;
        *shares.entry(message.consumer).or_default() += 1;
        channel.ack(message.tag, false)?;
    }
    let is_fair = shares.len() == consumers && shares.values().all(|share| *share >= 8);
    ensure!(is_fair, "the consumers got {:?}", shares.values());
    // Deliveries under way are requeued with the channel.
    Ok(())
}

pub(super) fn cases(case: Begin<'_>) {
    for limit in [1_u16, 3, 10] {
        case(&format!("basic.qos: {limit} for each consumer")).on_channel(move |channel| {
            consumed(channel, 30, limit, false)?;
            let last = gets(channel, u64::from(limit))?;
            channel.ack(last, true)?;
            gets(channel, u64::from(limit)).map(drop)
        });
    }
    case("basic.qos: two consumers have a limit each").on_channel(|channel| {
        let queue = consumed(channel, 10, 2, false)?;
        channel.consume(&queue)?;
        gets(channel, 4)
    });
    case("basic.qos: global is one limit for the channel").on_channel(|channel| {
        let queue = consumed(channel, 10, 3, true)?;
        channel.consume(&queue)?;
        let last = gets(channel, 3)?;
        channel.ack(last, false)?;
        gets(channel, 1)
    });
    case("basic.qos: global is for one channel alone").on_channels(|channel, other| {
        let queue = consumed(channel, 10, 1, true)?;
        gets(channel, 1)?;
        other.consume(&queue)?;
        gets(other, 9)
    });
    case("basic.qos: both limits hold together").on_channel(|channel| {
        let queue = filled(channel, 10)?;
        channel.qos(2, false)?;
        channel.qos(3, true)?;
        channel.consume(&queue)?;
        gets(channel, 2)?;
        channel.consume(&queue)?;
        gets(channel, 1)
    });
    case("basic.qos: 0 is no limit").on_channel(|channel| {
        consumed(channel, 500, 0, false)?;
        gets(channel, 500)
    });
    case("basic.qos: a consumer keeps the limit that it began with").on_channel(|channel| {
        let queue = consumed(channel, 10, 1, false)?;
        gets(channel, 1)?;
        channel.qos(5, false)?;
        settles(channel)?;
        channel.consume(&queue)?;
        gets(channel, 5)
    });
    case("basic.qos: a higher global limit lets more through at once").on_channel(|channel| {
        consumed(channel, 10, 1, true)?;
        gets(channel, 1)?;
        channel.qos(4, true)?;
        gets(channel, 3)?;
        channel.qos(0, true)?;
        gets(channel, 6)
    });
    case("basic.qos: no-ack knows no limit").on_channel(|channel| {
        let queue = filled(channel, 50)?;
        channel.qos(1, false)?;
        channel.consume_as(no_ack_consumer(&queue))?;
        gets(channel, 50)
    });
    case("basic.qos: queues share the limit of their channel").on_channel(|channel| {
        let mut queues = Vec::new();
        for _ in 0..3 {
            queues.push(filled(channel, 100)?);
        }
        channel.qos(1, true)?;
        for queue in &queues {
            channel.consume(queue)?;
        }
        is_shared(channel, 3)
    });
    case("basic.qos: consumers of a queue share the limit of their channel").on_channel(
        |channel| {
            let queue = consumed(channel, 100, 1, true)?;
            channel.consume(&queue)?;
            is_shared(channel, 2)
        },
    );
    case("basic.qos: without room for the channel, no-ack waits too").on_channel(|channel| {
        let (acked, queue) = (filled(channel, 1)?, filled(channel, 20)?);
        channel.qos(1, true)?;
        channel.consume(&acked)?;
        let held = gets(channel, 1)?;
        channel.consume_as(no_ack_consumer(&queue))?;
        settles(channel)?;
        channel.ack(held, false)?;
        gets(channel, 20)
    });
    case("basic.qos: no-ack takes nothing of the room for the channel").on_channel(|channel| {
        let queue = filled(channel, 20)?;
        channel.qos(1, true)?;
        channel.consume_as(no_ack_consumer(&queue))?;
        gets(channel, 20)
    });
    case("basic.qos: the limit for the channel is not for basic.get").on_channel(|channel| {
        let queue = filled(channel, 10)?;
        channel.qos(2, true)?;
        for _ in 0..3 {
            channel.eventually("a message", || channel.get(&queue))?;
        }
        channel.consume(&queue)?;
        gets(channel, 2)
    });
    case("basic.qos: nack without requeue makes room").on_channel(|channel| {
        consumed(channel, 5, 2, false)?;
        let last = gets(channel, 2)?;
        channel.nack(last, true, false)?;
        gets(channel, 2)
    });
    case("basic.qos: reject with requeue brings the same again").on_channel(|channel| {
        consumed(channel, 1, 1, false)?;
        let first = channel.delivery()?;
        channel.reject(first.tag, true)?;
        channel.delivery()?.is_again(&first.body())
    });
    case("basic.qos: one in the middle acknowledged makes room for one").on_channel(|channel| {
        consumed(channel, 10, 3, false)?;
        gets(channel, 3)?;
        channel.ack(2, false)?;
        gets(channel, 1)?;
        channel.ack(1, false)?;
        gets(channel, 1)
    });
    case("basic.qos: what one can't take another gets").on_channels(|channel, other| {
        let queue = consumed(channel, 6, 1, false)?;
        gets(channel, 1)?;
        other.consume(&queue)?;
        gets(other, 5)
    });
    case("basic.qos: a prefetch size is 540").breaks(540, |channel| {
        // prefetch-size 1, prefetch-count 0, not global.
        channel.send_raw(METHOD, &[0, 60, 0, 10, 0, 0, 0, 1, 0, 0, 0])
    });
}
