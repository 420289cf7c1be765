//! Queue names and access: omitted names, exclusive queues.

use amq_protocol::protocol::{basic, queue};

use super::queue_ends::purging;
use crate::case::{Case, on_channel};
use crate::channel::Channel;
use crate::client::{binding, consumer, deletion, expect_eq, named, passive, unbinding};

type Use = fn(&Channel<'_>, &str) -> anyhow::Result<()>;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = exclusive();
    cases.extend(last_declared());
    cases
}

/// Returns the cases about operations that an exclusive queue refuses to other connections.
fn exclusive() -> Vec<Case> {
    let uses: [(&str, Use); 9] = [
        ("queue.declare: the same", |channel, queue| {
            channel.refuses(
                405,
                queue::Declare {
                    exclusive: true,
                    ..named(queue)
                },
            )
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
            channel.refuses(
                405,
                basic::Get {
                    queue: queue.into(),
                    no_ack: true,
                },
            )
        }),
        ("queue.declare: not exclusive", |channel, queue| {
            channel.refuses(405, named(queue))
        }),
    ];
    let mut cases: Vec<Case> = uses
        .into_iter()
        .map(|(what, refused)| {
            on_channel(
                format!("{what} where it is exclusive to another connection is 405"),
                move |channel| {
                    let owner = channel.scope().connect()?;
                    let (owning, queue) = (owner.channel()?, channel.scope().name());
                    owning.declare(queue::Declare {
                        exclusive: true,
                        ..named(&queue)
                    })?;
                    owning.bind(&queue, "amq.direct", &queue)?;
                    refused(channel, &queue)?;
                    owner.close()
                },
            )
        })
        .collect();
    cases.push(on_channel(
        "basic.publish: to a queue that is exclusive to another connection",
        |channel| {
            let owner = channel.scope().connect()?;
            let receiver = owner.channel()?;
            let queue = receiver.queue()?;
            channel.publish("", &queue, "x")?;
            expect_eq("the message", receiver.take(&queue)?.body(), "x")?;
            owner.close()
        },
    ));
    cases
}

/// Returns the cases about empty names, which mean the queue that the channel declared last: section 3.1.4 of the
/// specification's rules.
fn last_declared() -> Vec<Case> {
    vec![
        on_channel(
            "queue.declare: an empty name afterwards means this one",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                channel.bind("", "amq.direct", &queue)?;
                channel.consume("")?;
                expect_eq("the delivery", channel.delivery()?.body(), "x")?;
                channel.publish("amq.direct", &queue, "bound")?;
                expect_eq("the second", channel.delivery()?.body(), "bound")?;
                channel.call::<queue::PurgeOk>(purging(""))?;
                channel.call::<queue::DeleteOk>(deletion(""))?;
                expect_eq("whether it is there", channel.has_queue(&queue)?, false)
            },
        ),
        on_channel(
            "queue.declare: an empty routing key with an empty name is that name",
            |channel| {
                let queue = channel.queue()?;
                channel.bind("", "amq.direct", "")?;
                channel.publish("amq.direct", &queue, "x")?;
                expect_eq("the message", channel.take(&queue)?.body(), "x")
            },
        ),
        on_channel(
            "queue.bind: an empty name without a declaration before is 404",
            |channel| channel.refuses(404, binding("", "amq.direct", "a")),
        ),
        on_channel(
            "basic.consume: an empty name without a declaration before is 404",
            |channel| channel.refuses(404, consumer("")),
        ),
        on_channel(
            "basic.get: an empty name without a declaration before is 404",
            |channel| channel.refuses(404, basic::Get::default()),
        ),
        on_channel(
            "queue.delete: an empty name without a declaration before is 404",
            |channel| channel.refuses(404, deletion("")),
        ),
    ]
}
