//! basic.recover and basic.recover-async.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    case("basic.recover: gives back all, redelivered, in order").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b", "c"])?;
        channel.ack(2, false)?;
        channel.call(basic::Recover { requeue: true })?;
        channel.take(&queue)?.is_again("a")?;
        channel.take(&queue)?.is_again("c")
    });
    case("basic.recover: to a consumer, with a new tag").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.consume(&queue)?;
        channel.publish("", &queue, "x")?;
        expect_eq("the first", channel.delivery()?.tag, 1)?;
        channel.call(basic::Recover { requeue: true })?;
        let again = channel.delivery()?;
        let seen = (again.tag, again.redelivered);
        expect_eq("tag and redelivered", seen, (2, true))
    });
    case("basic.recover: with nothing to give back")
        .on_channel(|channel| channel.call(basic::Recover { requeue: true }));
    case("basic.recover: tags of before are unknown").on_channel(|channel| {
        channel.fetched(&["x"])?;
        channel.call(basic::Recover { requeue: true })?;
        channel.refuses(406, ack(1, false))
    });
    case("basic.recover: without requeue is 540").fatal(540, basic::Recover { requeue: false });
    case("basic.recover-async: gives back all without an answer").on_channel(|channel| {
        let queue = channel.fetched(&["x"])?;
        channel.send(basic::RecoverAsync { requeue: true })?;
        channel.is_quiet()?;
        channel.take(&queue)?.is_again("x")
    });
    case("basic.recover-async: without requeue is 540")
        .fatal(540, basic::RecoverAsync { requeue: false });
}
