//! confirm.select: publisher confirms, an extension that RabbitMQ documents.

use amq_protocol::protocol::{BasicProperties, basic, confirm, queue, tx};

use crate::case::{Case, on_channel, on_connection};
use crate::client::{expect_eq, to_queue};
use crate::method::Method as _;

pub(super) fn cases() -> Vec<Case> {
    vec![
        on_channel("confirm.select: is answered, twice too", |channel| {
            channel.confirms()?;
            channel.confirms()
        }),
        on_channel(
            "confirm.select: no-wait is not answered, and confirms",
            |channel| {
                channel.send(confirm::Select { nowait: true })?;
                channel.publish("", "conformance-missing", "x")?;
                channel.confirmed(1)
            },
        ),
        on_channel("confirm.select: after tx.select is 406", |channel| {
            channel.transactional()?;
            channel.refuses(406, confirm::Select { nowait: false })
        }),
        on_channel("tx.select: after confirm.select is 406", |channel| {
            channel.confirms()?;
            channel.refuses(406, tx::Select {})
        }),
        on_channel("confirm: nothing without confirm.select", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "x")?;
            channel.is_quiet()
        }),
        on_channel(
            "confirm: tags count from 1 after confirm.select",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "before")?;
                channel.confirms()?;
                for tag in 1..=3 {
                    channel.publish("", &queue, "x")?;
                    expect_eq(
                        "the tag",
                        channel.pushed::<basic::Ack>()?.0.delivery_tag,
                        tag,
                    )?;
                }
                Ok(())
            },
        ),
        on_channel(
            "confirm: 1,000 in a row, multiple or not, and no more",
            |channel| {
                let queue = channel.queue()?;
                channel.confirms()?;
                for _ in 0..1000 {
                    channel.publish("", &queue, "x")?;
                }
                channel.confirmed(1000)?;
                channel.is_quiet()?;
                channel.holds(&queue, 1000)
            },
        ),
        on_channel("confirm: each message exactly once", |channel| {
            let queue = channel.queue()?;
            channel.confirms()?;
            for _ in 0..200 {
                channel.publish("", &queue, "x")?;
            }
            let mut open: std::collections::BTreeSet<u64> = (1..=200).collect();
            while !open.is_empty() {
                let ack = channel.pushed::<basic::Ack>()?.0;
                let before = open.len();
                if ack.multiple {
                    open.retain(|tag| *tag > ack.delivery_tag);
                } else {
                    open.remove(&ack.delivery_tag);
                }
                anyhow::ensure!(open.len() < before, "{ack:?} confirms nothing new");
            }
            channel.is_quiet()
        }),
        on_channel("confirm: unroutable is acknowledged", |channel| {
            channel.confirms()?;
            channel.publish("", "conformance-missing", "x")?;
            channel.confirmed(1)
        }),
        on_channel("confirm: what is returned is returned first", |channel| {
            channel.confirms()?;
            let publish = basic::Publish {
                mandatory: true,
                ..to_queue("conformance-missing")
            };
            channel.send_content(publish, &BasicProperties::default(), b"x")?;
            expect_eq(
                "the return",
                channel.pushed::<basic::Return>()?.0.reply_code,
                312,
            )?;
            expect_eq("the ack", channel.pushed::<basic::Ack>()?.0.delivery_tag, 1)
        }),
        on_channel("confirm: to several queues is one confirm", |channel| {
            let exchange = channel.exchange("fanout")?;
            for _ in 0..3 {
                channel.bound(&exchange, "")?;
            }
            channel.confirms()?;
            channel.publish(&exchange, "", "x")?;
            channel.confirmed(1)?;
            channel.is_quiet()
        }),
        on_channel(
            "confirm: a persistent message in a durable queue",
            |channel| {
                let name = channel.scope().name();
                channel.declare(queue::Declare {
                    queue: name.as_str().into(),
                    durable: true,
                    ..queue::Declare::default()
                })?;
                channel.confirms()?;
                let properties = BasicProperties::default().with_delivery_mode(2);
                for _ in 0..10 {
                    channel.publish_as("", &name, &properties, "x")?;
                }
                channel.confirmed(10)?;
                channel.holds(&name, 10)
            },
        ),
        on_channel(
            "confirm: an empty body, and one of several frames",
            |channel| {
                let queue = channel.queue()?;
                channel.confirms()?;
                channel.publish("", &queue, "")?;
                channel.publish("", &queue, &"x".repeat(300_000))?;
                channel.confirmed(2)
            },
        ),
        on_channel(
            "confirm: a missing exchange is 404, not a nack",
            |channel| {
                channel.confirms()?;
                channel.publish("conformance-missing", "a", "x")?;
                channel.is_closed(404, basic::Publish::default().ids())
            },
        ),
        on_channel(
            "confirm: a channel that is opened again has none",
            |channel| {
                channel.confirms()?;
                channel.close()?;
                channel.open()?;
                channel.publish("", "conformance-missing", "x")?;
                channel.is_quiet()
            },
        ),
        on_connection("confirm: channels count for themselves", |connection| {
            let (first, second) = (connection.channel()?, connection.channel()?);
            let queue = first.queue()?;
            first.confirms()?;
            second.confirms()?;
            for _ in 0..3 {
                first.publish("", &queue, "x")?;
            }
            second.publish("", &queue, "x")?;
            first.confirmed(3)?;
            second.confirmed(1)
        }),
        on_channel(
            "confirm: beside a consumer on the same channel",
            |channel| {
                let queue = channel.queue()?;
                channel.confirms()?;
                channel.consume(&queue)?;
                channel.publish("", &queue, "x")?;
                let event = channel.next_pushed()?;
                // In either order.
                let first_is_ack = basic::Ack::unwrap(event.method).is_ok();
                if first_is_ack {
                    channel.delivery().map(drop)
                } else {
                    channel.confirmed(1)
                }
            },
        ),
    ]
}
