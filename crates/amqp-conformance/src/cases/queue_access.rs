//! Queue names and access: omitted names, exclusive queues.

use super::*;

type Use = fn(&Channel<'_>, &str) -> anyhow::Result<()>;

pub(super) fn cases(case: Begin<'_>) {
    exclusive(case);
    last_declared(case);
}

/// Returns the cases about operations that an exclusive queue refuses to other connections.
fn exclusive(case: Begin<'_>) {
    let uses: [(&str, Use); 9] = [
        ("queue.declare: the same", |channel, queue| {
            channel.refuses(405, named(queue).with(|declare| declare.exclusive = true))
        }),
        ("queue.declare: passive", |channel, queue| {
            channel.refuses(405, passive(queue))
        }),
        ("queue.bind: it", |channel, queue| {
            channel.refuses(405, binding(queue, "amq.direct", "a"))
        }),
        ("queue.unbind: it", |channel, queue| {
            channel.refuses(405, unbinding(queue, "amq.direct", queue))
        }),
        ("queue.purge: it", |channel, queue| {
            channel.refuses(405, purging(queue))
        }),
        ("queue.delete: it", |channel, queue| {
            channel.refuses(405, deletion(queue))
        }),
        ("basic.consume: from it", |channel, queue| {
            channel.refuses(405, consumer(queue))
        }),
        ("basic.get: from it", |channel, queue| {
            channel.refuses(405, getting(queue))
        }),
        ("queue.declare: not exclusive", |channel, queue| {
            channel.refuses(405, named(queue))
        }),
    ];
    for (what, refused) in uses {
        let name = format!("{what} where it is exclusive to another connection is 405");
        case(&name).on_channel(move |channel| {
            let owner = channel.scope().connect()?;
            let (owning, queue) = (owner.channel()?, channel.scope().name());
            owning.call(named(&queue).with(|declare| declare.exclusive = true))?;
            owning.bind(&queue, "amq.direct", &queue)?;
            refused(channel, &queue)?;
            owner.close()
        });
    }
    case("basic.publish: to a queue that is exclusive to another connection").on_channel(
        |channel| {
            let owner = channel.scope().connect()?;
            let receiver = owner.channel()?;
            let queue = receiver.queue()?;
            channel.publish("", &queue, "x")?;
            expect_eq("the message", receiver.take(&queue)?.body(), "x")?;
            owner.close()
        },
    );
}

/// Returns the cases about empty names, which mean the queue that the channel declared last: section 3.1.4 of the
/// specification's rules.
fn last_declared(case: Begin<'_>) {
    case("queue.declare: an empty name afterwards means this one").on_channel(|channel| {
        let queue = channel.queue_of(&["x"])?;
        channel.bind("", "amq.direct", &queue)?;
        channel.consume("")?;
        channel.delivers("x")?;
        channel.publish("amq.direct", &queue, "bound")?;
        expect_eq("the second", channel.delivery()?.body(), "bound")?;
        channel.call(purging(""))?;
        channel.call(deletion(""))?;
        expect_eq("whether it is there", channel.has_queue(&queue)?, false)
    });
    case("queue.declare: an empty routing key with an empty name is that name").on_channel(
        |channel| {
            let queue = channel.queue()?;
            channel.bind("", "amq.direct", "")?;
            channel.publish("amq.direct", &queue, "x")?;
            expect_eq("the message", channel.take(&queue)?.body(), "x")
        },
    );
    case("queue.bind: an empty name without a declaration before is 404")
        .refused(404, binding("", "amq.direct", "a"));
    case("basic.consume: an empty name without a declaration before is 404")
        .refused(404, consumer(""));
    case("basic.get: an empty name without a declaration before is 404")
        .refused(404, basic::Get::default());
    case("queue.delete: an empty name without a declaration before is 404")
        .refused(404, deletion(""));
}
