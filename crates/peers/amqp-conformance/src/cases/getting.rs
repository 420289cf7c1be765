//! basic.get.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    case("basic.get: of an empty queue").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.is_empty(&queue)
    });
    case("basic.get: of a missing queue is 404")
        .on_channel(|channel| channel.refuses(404, getting("conformance-missing")));
    case("basic.get: says what is left, and counts its tags").on_channel(|channel| {
        let queue = channel.queue_of(&["a", "b", "c"])?;
        for (tag, left, body) in [(1, 2, "a"), (2, 1, "b"), (3, 0, "c")] {
            let got = channel.got(&queue)?;
            let seen = (got.tag, got.left, got.body());
            expect_eq("tag, left, body", seen, (tag, left, body.to_owned()))?;
        }
        Ok(())
    });
    case("basic.get: exchange and routing key").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        let queue = channel.bound(&exchange, "a")?;
        channel.publish(&exchange, "a", "x")?;
        let got = channel.got(&queue)?;
        got.was_routed_by(&exchange, "a")
    });
    case("basic.get: what is not acknowledged is not fetched twice").on_channel(|channel| {
        let queue = channel.fetched(&["x"])?;
        channel.is_empty(&queue)
    });
    case("basic.get: no-ack can't be acknowledged").on_channel(|channel| {
        let queue = channel.queue_of(&["x"])?;
        let got = channel.take(&queue)?;
        channel.refuses(406, ack(got.tag, false))
    });
    case("basic.get: an empty body").on_channel(|channel| {
        let queue = channel.queue_of(&[""])?;
        expect_eq("the body", channel.take(&queue)?.content.body, b"")
    });
    case("basic.get: beside a consumer with its hands full").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.qos(1, false)?;
        channel.consume(&queue)?;
        channel.publish_all(&queue, &["a", "b"])?;
        channel.delivers("a")?;
        expect_eq("the message", channel.take(&queue)?.body(), "b")
    });
    case("basic.get: prefetch does not hold it back").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.qos(1, false)?;
        channel.publish_all(&queue, &["a", "b", "c"])?;
        for body in ["a", "b", "c"] {
            expect_eq("the message", channel.got(&queue)?.body(), body)?;
        }
        Ok(())
    });
}
