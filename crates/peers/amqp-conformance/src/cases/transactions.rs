//! Class tx.

use super::*;

/// Fetches the message `x` of a new queue, with tag 1, and begins a transaction.
fn fetched(channel: &Channel<'_>) -> anyhow::Result<String> {
    let queue = channel.fetched(&["x"])?;
    channel.transactional()?;
    Ok(queue)
}

pub(super) fn cases(case: Begin<'_>) {
    case("tx.commit: without tx.select is 406").refused(406, tx::Commit {});
    case("tx.rollback: without tx.select is 406").refused(406, tx::Rollback {});
    case("tx.select: twice").on_channel(|channel| {
        channel.transactional()?;
        channel.transactional()
    });
    case("tx.commit: with nothing to do").on_channel(|channel| {
        channel.transactional()?;
        channel.commit()?;
        channel.roll_back()?;
        channel.commit()
    });
    case("tx.commit: messages are there afterwards, not before").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.transactional()?;
        channel.publish_all(&queue, &["a", "b"])?;
        expect_eq("before", channel.drain(&queue)?, Vec::<String>::new())?;
        channel.commit()?;
        expect_eq("after", channel.drain(&queue)?, ["a", "b"])
    });
    case("tx.rollback: messages are gone").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.transactional()?;
        channel.publish("", &queue, "a")?;
        channel.roll_back()?;
        channel.publish("", &queue, "b")?;
        channel.commit()?;
        channel.yields(&queue, &["b"])
    });
    case("tx.commit: acks count afterwards").on_channel(|channel| {
        let queue = fetched(channel)?;
        channel.ack(1, false)?;
        channel.commit()?;
        channel.reopen()?;
        channel.yields(&queue, &[])
    });
    case("tx.commit: acks without it count for nothing").on_channel(|channel| {
        let queue = fetched(channel)?;
        channel.ack(1, false)?;
        channel.reopen()?;
        channel.yields(&queue, &["x"])
    });
    case("tx.rollback: acks can be given again").on_channel(|channel| {
        let queue = fetched(channel)?;
        channel.ack(1, false)?;
        channel.roll_back()?;
        channel.ack(1, false)?;
        channel.commit()?;
        channel.reopen()?;
        channel.yields(&queue, &[])
    });
    case("tx.commit: reject with requeue").on_channel(|channel| {
        let queue = fetched(channel)?;
        channel.reject(1, true)?;
        channel.holds(&queue, 0)?;
        channel.commit()?;
        expect_eq("after", channel.take(&queue)?.redelivered, true)
    });
    case("tx.commit: publish and ack together").on_channel(|channel| {
        let (source, target) = (fetched(channel)?, channel.queue()?);
        channel.publish("", &target, "out")?;
        channel.ack(1, false)?;
        channel.commit()?;
        channel.reopen()?;
        channel.yields(&source, &[])?;
        channel.yields(&target, &["out"])
    });
    case("tx.rollback: publish and ack together").on_channel(|channel| {
        let (source, target) = (fetched(channel)?, channel.queue()?);
        channel.publish("", &target, "out")?;
        channel.ack(1, false)?;
        channel.roll_back()?;
        channel.reopen()?;
        channel.yields(&source, &["x"])?;
        channel.yields(&target, &[])
    });
    case("tx.commit: a missing exchange is 404 at once").on_channel(|channel| {
        channel.transactional()?;
        channel.publish("conformance-missing", "a", "x")?;
        channel.refused_publish(404)
    });
    case("tx.commit: an unknown tag is 406 at once").on_channel(|channel| {
        channel.transactional()?;
        channel.refuses(406, ack(7, false))
    });
    case("tx.commit: mandatory and unroutable is returned by then").on_channel(|channel| {
        channel.transactional()?;
        channel.publish_mandatory("", "conformance-missing", "x")?;
        channel.commit()?;
        channel.returned()
    });
    case("tx: of one channel, not of the other").on_channels(|channel, other| {
        let queue = channel.queue()?;
        channel.transactional()?;
        channel.publish("", &queue, "waits")?;
        other.publish("", &queue, "at once")?;
        other.yields(&queue, &["at once"])?;
        channel.commit()?;
        channel.yields(&queue, &["waits"])
    });
    case("tx: a channel that is closed takes its messages along").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.transactional()?;
        channel.publish("", &queue, "x")?;
        channel.reopen()?;
        channel.yields(&queue, &[])
    });
    case("tx: an error takes what is not committed along").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.transactional()?;
        channel.publish("", &queue, "x")?;
        channel.refuses(404, passive("conformance-missing"))?;
        channel.yields(&queue, &[])
    });
    case("tx: several commits in a row, in order").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.transactional()?;
        for body in ["a", "b", "c"] {
            channel.publish("", &queue, body)?;
            channel.commit()?;
        }
        channel.yields(&queue, &["a", "b", "c"])
    });
}
