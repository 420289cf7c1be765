//! queue.bind and queue.unbind.

use amq_protocol::protocol::queue;

use crate::case::{Case, on_channel};
use crate::client::{binding, expect_eq, unbinding};
use crate::values::{int, table};

pub(super) fn cases() -> Vec<Case> {
    vec![
        on_channel("queue.bind: a missing queue is 404", |channel| {
            channel.refuses(404, binding("conformance-missing", "amq.direct", "a"))
        }),
        on_channel("queue.bind: a missing exchange is 404", |channel| {
            let queue = channel.queue()?;
            channel.refuses(404, binding(&queue, "conformance-missing", "a"))
        }),
        on_channel("queue.bind: to the default exchange is 403", |channel| {
            let queue = channel.queue()?;
            channel.refuses(403, binding(&queue, "", "a"))
        }),
        on_channel("queue.bind: twice is one binding, one message", |channel| {
            let exchange = channel.exchange("direct")?;
            let queue = channel.bound(&exchange, "a")?;
            channel.bind(&queue, &exchange, "a")?;
            channel.publish(&exchange, "a", "once")?;
            expect_eq("the messages", channel.drain(&queue)?, ["once"])?;
            channel.unbind(&queue, &exchange, "a")?;
            channel.publish(&exchange, "a", "never")?;
            expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
        }),
        on_channel(
            "queue.bind: two bindings that match bring one message",
            |channel| {
                let exchange = channel.exchange("topic")?;
                let queue = channel.bound(&exchange, "a.*")?;
                channel.bind(&queue, &exchange, "*.b")?;
                channel.publish(&exchange, "a.b", "once")?;
                expect_eq("the messages", channel.drain(&queue)?, ["once"])
            },
        ),
        on_channel("queue.bind: to several exchanges", |channel| {
            let (first, second) = (channel.exchange("direct")?, channel.exchange("fanout")?);
            let queue = channel.bound(&first, "a")?;
            channel.bind(&queue, &second, "")?;
            channel.publish(&first, "a", "first")?;
            channel.publish(&second, "", "second")?;
            expect_eq("the messages", channel.drain(&queue)?, ["first", "second"])
        }),
        on_channel("queue.bind: no-wait is not answered", |channel| {
            let (exchange, queue) = (channel.exchange("fanout")?, channel.queue()?);
            channel.send(queue::Bind {
                nowait: true,
                ..binding(&queue, &exchange, "")
            })?;
            channel.is_quiet()?;
            channel.publish(&exchange, "", "x")?;
            expect_eq("the messages", channel.drain(&queue)?, ["x"])
        }),
        on_channel(
            "queue.bind: no-wait to a missing exchange is refused",
            |channel| {
                let queue = channel.queue()?;
                channel.refuses(
                    404,
                    queue::Bind {
                        nowait: true,
                        ..binding(&queue, "conformance-missing", "")
                    },
                )
            },
        ),
        on_channel("queue.bind: arguments make another binding", |channel| {
            let exchange = channel.exchange("direct")?;
            let queue = channel.bound(&exchange, "a")?;
            channel.bind_with(&queue, &exchange, "a", table(&[("x", int(1))]))?;
            channel.unbind(&queue, &exchange, "a")?;
            channel.publish(&exchange, "a", "x")?;
            expect_eq("the messages", channel.drain(&queue)?, ["x"])
        }),
        on_channel(
            "queue.bind: a queue that is not durable to an exchange that is",
            |channel| {
                let queue = channel.queue()?;
                channel.bind(&queue, "amq.direct", &queue)?;
                channel.publish("amq.direct", &queue, "x")?;
                expect_eq("the messages", channel.drain(&queue)?, ["x"])
            },
        ),
        on_channel(
            "queue.bind: a durable queue to an exchange that is not",
            |channel| {
                let (exchange, name) = (channel.exchange("fanout")?, channel.scope().name());
                channel.declare(queue::Declare {
                    queue: name.as_str().into(),
                    durable: true,
                    ..queue::Declare::default()
                })?;
                channel.bind(&name, &exchange, "")?;
                channel.publish(&exchange, "", "x")?;
                expect_eq("the messages", channel.drain(&name)?, ["x"])
            },
        ),
        on_channel("queue.unbind: the others stay", |channel| {
            let exchange = channel.exchange("direct")?;
            let queue = channel.bound(&exchange, "a")?;
            channel.bind(&queue, &exchange, "b")?;
            channel.unbind(&queue, &exchange, "a")?;
            for key in ["a", "b"] {
                channel.publish(&exchange, key, key)?;
            }
            expect_eq("the messages", channel.drain(&queue)?, ["b"])
        }),
        on_channel(
            "queue.unbind: a binding that is not there is no error",
            |channel| {
                let (exchange, queue) = (channel.exchange("direct")?, channel.queue()?);
                channel.unbind(&queue, &exchange, "a")
            },
        ),
        on_channel("queue.unbind: a missing queue", |channel| {
            let exchange = channel.exchange("direct")?;
            channel.unbind("conformance-missing", &exchange, "a")
        }),
        on_channel("queue.unbind: a missing exchange", |channel| {
            let queue = channel.queue()?;
            channel.unbind(&queue, "conformance-missing", "a")
        }),
        on_channel(
            "queue.unbind: from the default exchange is 403",
            |channel| {
                let queue = channel.queue()?;
                channel.refuses(403, unbinding(&queue, "", &queue))
            },
        ),
    ]
}
