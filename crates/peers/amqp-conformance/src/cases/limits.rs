//! x-max-length, x-max-length-bytes and x-overflow.

use super::*;

/// Declares a queue with a limit and what happens to messages beyond it.
fn limited(
    channel: &Channel<'_>,
    limit: (&str, AMQPValue),
    overflow: &str,
) -> anyhow::Result<String> {
    channel.queue_with(&[limit, ("x-overflow", text(overflow))])
}

pub(super) fn cases(case: Begin<'_>) {
    case("x-max-length: the oldest go").on_channel(|channel| {
        let queue = channel.queue_with(&[("x-max-length", int(2))])?;
        channel.publish_all(&queue, &["a", "b", "c", "d"])?;
        channel.yields(&queue, &["c", "d"])
    });
    case("x-max-length: of 0 keeps nothing").on_channel(|channel| {
        let queue = channel.queue_with(&[("x-max-length", int(0))])?;
        channel.publish_all(&queue, &["a", "b"])?;
        channel.yields(&queue, &[])
    });
    case("x-max-length: of 0 still serves a consumer that waits").on_channel(|channel| {
        let queue = channel.queue_with(&[("x-max-length", int(0))])?;
        channel.consume_as(no_ack_consumer(&queue))?;
        channel.publish_all(&queue, &["a"])?;
        channel.delivers("a")
    });
    case("x-max-length: what is not acknowledged does not count").on_channel(|channel| {
        let queue = channel.queue_with(&[("x-max-length", int(2))])?;
        channel.publish_all(&queue, &["a", "b"])?;
        channel.get(&queue)?;
        channel.get(&queue)?;
        channel.publish_all(&queue, &["c", "d", "e"])?;
        channel.yields(&queue, &["d", "e"])
    });
    case("x-max-length-bytes: the oldest go").on_channel(|channel| {
        let queue = channel.queue_with(&[("x-max-length-bytes", int(10))])?;
        channel.publish_all(&queue, &["aaaa", "bbbb", "cccc"])?;
        channel.yields(&queue, &["bbbb", "cccc"])
    });
    case("x-max-length-bytes: a message beyond it goes with all before").on_channel(|channel| {
        let queue = channel.queue_with(&[("x-max-length-bytes", int(10))])?;
        channel.publish_all(&queue, &["a", "bbbbbbbbbbbb"])?;
        channel.yields(&queue, &[])
    });
    case("x-max-length and x-max-length-bytes: the one that is reached first").on_channel(
        |channel| {
            let queue =
                channel.queue_with(&[("x-max-length", int(3)), ("x-max-length-bytes", int(4))])?;
            channel.publish_all(&queue, &["a", "b", "c", "d"])?;
            channel.publish_all(&queue, &["ee", "f"])?;
            channel.yields(&queue, &["d", "ee", "f"])
        },
    );
    case("x-max-length: drop-head confirms with ack").on_channel(|channel| {
        let queue = limited(channel, ("x-max-length", int(1)), "drop-head")?;
        channel.confirms()?;
        channel.publish_all(&queue, &["a", "b", "c"])?;
        channel.confirmed(3)?;
        channel.yields(&queue, &["c"])
    });
    case("x-overflow: reject-publish keeps the oldest, with nack").on_channel(|channel| {
        let queue = limited(channel, ("x-max-length", int(1)), "reject-publish")?;
        channel.confirms()?;
        channel.publish_all(&queue, &["a"])?;
        channel.acks(1)?;
        channel.publish_all(&queue, &["b"])?;
        channel.nacks(2)?;
        channel.yields(&queue, &["a"])?;
        channel.publish_all(&queue, &["c"])?;
        channel.acks(3)
    });
    case("x-overflow: reject-publish without confirms says nothing").on_channel(|channel| {
        let queue = limited(channel, ("x-max-length", int(1)), "reject-publish")?;
        channel.publish_all(&queue, &["a", "b", "c"])?;
        channel.is_quiet()?;
        channel.yields(&queue, &["a"])
    });
    case("x-overflow: one of two queues that rejects makes it a nack").on_channel(|channel| {
        let exchange = channel.exchange("fanout")?;
        let full = limited(channel, ("x-max-length", int(1)), "reject-publish")?;
        channel.bind(&full, &exchange, "")?;
        let other = channel.bound(&exchange, "")?;
        channel.publish("", &full, "a")?;
        channel.holds(&full, 1)?;
        channel.confirms()?;
        channel.publish(&exchange, "", "b")?;
        channel.nacks(1)?;
        expect_eq("the other queue", channel.drain(&other)?, ["b"])
    });
    case("x-overflow: reject-publish with bytes").on_channel(|channel| {
        let queue = limited(channel, ("x-max-length-bytes", int(4)), "reject-publish")?;
        channel.confirms()?;
        channel.publish_all(&queue, &["aaaa"])?;
        channel.acks(1)?;
        channel.publish_all(&queue, &["b"])?;
        channel.nacks(2)?;
        channel.yields(&queue, &["aaaa"])
    });
}
