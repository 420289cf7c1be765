//! Expiry of messages and queues: `expiration`, x-message-ttl, x-expires.

use super::*;

fn expiring(after_ms: &str) -> BasicProperties {
    BasicProperties::default().with_expiration(after_ms.into())
}

/// Waits for this time by the broker's own clock: publishes a message that expires then, and waits for its dead letter.
fn pass(channel: &Channel<'_>, time_ms: u32) -> anyhow::Result<()> {
    let dead = channel.queue()?;
    let clock = channel.queue_with(&dead_letters_to(&dead))?;
    channel.publish_as("", &clock, &expiring(&time_ms.to_string()), "tick")?;
    channel.take(&dead).map(drop)
}

/// Makes a queue expire when nobody has used it for 100 ms.
fn expiring_queue(declare: &mut queue::Declare) {
    declare.arguments = table(&[("x-expires", int(100))]);
}

/// Asserts that a queue is empty after this time.
fn is_empty_after(channel: &Channel<'_>, queue: &str, time_ms: u32) -> anyhow::Result<()> {
    pass(channel, time_ms)?;
    channel.yields(queue, &[])
}

pub(super) fn cases(case: Begin<'_>) {
    messages(case);
    queues(case);
    for wrong in ["soon", "-1", "1.5", "", " 5"] {
        case(&format!("expiration: {wrong:?} is 406")).on_channel(move |channel| {
            let queue = channel.queue()?;
            channel.publish_as("", &queue, &expiring(wrong), "x")?;
            channel.refused_publish(406)
        });
    }
}

fn messages(case: Begin<'_>) {
    case("x-message-ttl: messages go after it").on_channel(|channel| {
        let queue = channel.queue_with(&[("x-message-ttl", int(100))])?;
        channel.publish("", &queue, "x")?;
        is_empty_after(channel, &queue, 200)
    });
    case("x-message-ttl: of a minute keeps them for now").on_channel(|channel| {
        let queue = channel.queue_with(&[("x-message-ttl", int(60_000))])?;
        channel.publish("", &queue, "x")?;
        channel.yields(&queue, &["x"])
    });
    case("x-message-ttl: of 0 leaves nothing behind").on_channel(|channel| {
        let queue = channel.queue_with(&[("x-message-ttl", int(0))])?;
        channel.publish("", &queue, "x")?;
        channel.yields(&queue, &[])
    });
    case("x-message-ttl: of 0 still serves a consumer that waits").on_channel(|channel| {
        let queue = channel.queue_with(&[("x-message-ttl", int(0))])?;
        channel.consume(&queue)?;
        channel.publish("", &queue, "x")?;
        channel.delivers("x")
    });
    case("expiration: the message goes after it").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.publish_as("", &queue, &expiring("100"), "x")?;
        is_empty_after(channel, &queue, 200)
    });
    case("expiration: of a minute keeps it for now").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.publish_as("", &queue, &expiring("60000"), "x")?;
        channel.yields(&queue, &["x"])
    });
    case("expiration: of 0 leaves nothing behind").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.publish_as("", &queue, &expiring("0"), "x")?;
        channel.yields(&queue, &[])
    });
    case("expiration: of 0 still serves a consumer that waits").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.consume_as(no_ack_consumer(&queue))?;
        channel.publish_as("", &queue, &expiring("0"), "x")?;
        let message = channel.delivery()?;
        expect_eq("the delivery", message.body(), "x")?;
        expect_eq("its expiration", message.properties(), &expiring("0"))
    });
    case("expiration: the shorter of it and x-message-ttl counts").on_channel(|channel| {
        let long = channel.queue_with(&[("x-message-ttl", int(60_000))])?;
        channel.publish_as("", &long, &expiring("50"), "x")?;
        let short = channel.queue_with(&[("x-message-ttl", int(50))])?;
        channel.publish_as("", &short, &expiring("60000"), "x")?;
        is_empty_after(channel, &long, 150)?;
        channel.yields(&short, &[])
    });
    case("expiration: a message without one stays").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.publish_as("", &queue, &expiring("50"), "goes")?;
        channel.publish("", &queue, "stays")?;
        pass(channel, 150)?;
        channel.yields(&queue, &["stays"])
    });
    case("expiration: what is not acknowledged expires once it is back").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.publish_as("", &queue, &expiring("1000"), "x")?;
        let got = channel.got(&queue)?.tag;
        pass(channel, 1100)?;
        channel.reject(got, true)?;
        channel.yields(&queue, &[])
    });
}

fn queues(case: Begin<'_>) {
    case("x-expires: a queue that nobody uses goes").on_channel(|channel| {
        let queue = channel.declare(expiring_queue)?;
        channel.eventually("the queue is gone", || {
            // A passive declaration counts as use, so the queue is not checked for longer than that.
            pass(channel, 500)?;
            Ok((!channel.has_queue(&queue)?).then_some(()))
        })
    });
    case("x-expires: a consumer keeps the queue").on_channel(|channel| {
        let queue = channel.declare(expiring_queue)?;
        channel.consume(&queue)?;
        pass(channel, 500)?;
        channel.has_consumers(&queue, 1)
    });
}
