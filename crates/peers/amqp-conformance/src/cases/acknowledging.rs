//! basic.ack, basic.nack, basic.reject.

use super::*;

type Refusal = fn(&Channel<'_>) -> anyhow::Result<()>;

/// Asserts the content of the queue after the channel has requeued everything.
fn gives_back(channel: &Channel<'_>, queue: &str, bodies: &[&str]) -> anyhow::Result<()> {
    channel.reopen()?;
    channel.yields(queue, bodies)
}

pub(super) fn cases(case: Begin<'_>) {
    settling(case);
    requeueing(case);
    refusing(case);
}

fn refusing(case: Begin<'_>) {
    let unknown: [(&str, &[&str], Refusal); 6] = [
        ("ack: an unknown tag", &["a"], |channel| {
            channel.refuses(406, ack(2, false))
        }),
        ("ack: multiple up to an unknown tag", &["a"], |channel| {
            channel.refuses(406, ack(2, true))
        }),
        ("ack: tag 0 without multiple", &["a"], |channel| {
            channel.refuses(406, ack(0, false))
        }),
        ("nack: an unknown tag", &["a"], |channel| {
            channel.nack(9, false, false)?;
            channel.is_closed(406, basic::Nack::default().ids())
        }),
        ("reject: an unknown tag", &["a"], |channel| {
            channel.reject(9, true)?;
            channel.is_closed(406, basic::Reject::default().ids())
        }),
        ("ack: a tag before any delivery", &[], |channel| {
            channel.refuses(406, ack(1, false))
        }),
    ];
    for (what, bodies, refusal) in unknown {
        case(&format!("basic.{what} is 406")).on_channel(move |channel| {
            let queue = channel.fetched(bodies)?;
            refusal(channel)?;
            channel.yields(&queue, bodies)
        });
    }
    case("basic.ack: twice is 406").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b"])?;
        channel.ack(1, false)?;
        channel.refuses(406, ack(1, false))?;
        channel.yields(&queue, &["b"])
    });
    case("basic.ack: after reject is 406").on_channel(|channel| {
        channel.fetched(&["a"])?;
        channel.reject(1, false)?;
        channel.refuses(406, ack(1, false))
    });
    case("basic.ack: multiple up to a tag that is settled is 406").on_channel(|channel| {
        channel.fetched(&["a", "b", "c"])?;
        channel.ack(2, true)?;
        channel.refuses(406, ack(2, true))
    });
    case("basic.ack: on another channel is 406").on_channels(|channel, other| {
        let queue = channel.fetched(&["a"])?;
        other.refuses(406, ack(1, false))?;
        gives_back(channel, &queue, &["a"])
    });
    case("basic.ack: tags of a channel that was closed are 406").on_connection(|connection| {
        let channel = connection.channel()?;
        channel.fetched(&["a"])?;
        channel.reopen()?;
        channel.refuses(406, ack(1, false))
    });
}

fn settling(case: Begin<'_>) {
    case("basic.ack: one").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b", "c"])?;
        channel.ack(2, false)?;
        gives_back(channel, &queue, &["a", "c"])
    });
    case("basic.ack: multiple takes all up to the tag").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b", "c", "d"])?;
        channel.ack(3, true)?;
        gives_back(channel, &queue, &["d"])
    });
    case("basic.ack: multiple passes over what is settled").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b", "c", "d"])?;
        channel.ack(2, false)?;
        channel.ack(3, true)?;
        gives_back(channel, &queue, &["d"])
    });
    case("basic.ack: multiple of tag 0 takes all").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b", "c"])?;
        channel.ack(0, true)?;
        gives_back(channel, &queue, &[])
    });
    case("basic.ack: multiple of tag 0 with nothing to settle").on_channel(|channel| {
        channel.ack(0, true)?;
        channel.is_quiet()
    });
    case("basic.ack: out of order").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b", "c"])?;
        for tag in [3, 1, 2] {
            channel.ack(tag, false)?;
        }
        gives_back(channel, &queue, &[])
    });
    case("basic.ack: multiple over several queues").on_channel(|channel| {
        let (first, second) = (channel.queue()?, channel.queue()?);
        for queue in [&first, &second, &first, &second] {
            channel.publish("", queue, "x")?;
            channel.get(queue)?;
        }
        channel.ack(3, true)?;
        channel.reopen()?;
        channel.holds(&first, 0)?;
        channel.holds(&second, 1)
    });
    case("basic.nack: multiple without requeue").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b", "c"])?;
        channel.nack(2, true, false)?;
        gives_back(channel, &queue, &["c"])
    });
    case("basic.nack: multiple of tag 0 without requeue").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b", "c"])?;
        channel.nack(0, true, false)?;
        gives_back(channel, &queue, &[])
    });
    case("basic.reject: without requeue").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b"])?;
        channel.reject(1, false)?;
        gives_back(channel, &queue, &["b"])
    });
}

fn requeueing(case: Begin<'_>) {
    case("basic.reject: with requeue it is the first again, redelivered").on_channel(|channel| {
        let queue = channel.queue_of(&["a", "b", "c"])?;
        channel.get(&queue)?;
        channel.reject(1, true)?;
        channel.take(&queue)?.is_again("a")?;
        for body in ["b", "c"] {
            let next = channel.take(&queue)?;
            expect_eq(
                "the next",
                (next.body(), next.redelivered),
                (body.to_owned(), false),
            )?;
        }
        Ok(())
    });
    case("basic.nack: with requeue all are in their old order").on_channel(|channel| {
        let queue = channel.fetched(&["a", "b", "c"])?;
        channel.publish("", &queue, "d")?;
        channel.nack(0, true, true)?;
        channel.yields(&queue, &["a", "b", "c", "d"])
    });
    for (what, tags) in [
        (
            "with requeue, the last first, they are in their old order",
            [3, 2, 1],
        ),
        (
            "with requeue, the first first, they are in their old order",
            [1, 2, 3],
        ),
        (
            "one from the middle goes between those that are there",
            [1, 3, 2],
        ),
    ] {
        case(&format!("basic.reject: {what}")).on_channel(move |channel| {
            let queue = channel.fetched(&["a", "b", "c"])?;
            for tag in tags {
                channel.reject(tag, true)?;
            }
            channel.yields(&queue, &["a", "b", "c"])
        });
    }
    case("basic.nack: a new tag each time").on_channel(|channel| {
        let queue = channel.fetched(&["a"])?;
        channel.nack(1, false, true)?;
        expect_eq("the second tag", channel.got(&queue)?.tag, 2)?;
        channel.nack(2, false, true)?;
        expect_eq("the third tag", channel.got(&queue)?.tag, 3)
    });
    case("basic.nack: goes to another consumer too").on_channels(|channel, other| {
        let queue = channel.queue()?;
        channel.consume(&queue)?;
        channel.publish("", &queue, "x")?;
        let message = channel.delivery()?;
        channel.cancel(&message.consumer)?;
        other.consume(&queue)?;
        channel.nack(message.tag, false, true)?;
        other.delivery()?.is_again("x")
    });
    case("basic.reject: content stays as it was").on_channel(|channel| {
        let queue = channel.queue()?;
        let properties = BasicProperties::default().with_message_id("m".into());
        channel.publish_as("", &queue, &properties, "x")?;
        channel.get(&queue)?;
        channel.reject(1, true)?;
        let again = channel.take(&queue)?;
        expect_eq("properties", again.properties(), &properties)?;
        expect_eq("body", again.body(), "x")
    });
}
