//! confirm.select: publisher confirms, an extension that RabbitMQ documents.

use std::collections::BTreeSet;

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    case("confirm.select: is answered, twice too").on_channel(|channel| {
        channel.confirms()?;
        channel.confirms()
    });
    case("confirm.select: no-wait is not answered, and confirms").on_channel(|channel| {
        channel.send(confirm::Select { nowait: true })?;
        channel.publish("", "conformance-missing", "x")?;
        channel.confirmed(1)
    });
    case("confirm.select: after tx.select is 406").on_channel(|channel| {
        channel.transactional()?;
        channel.refuses(406, confirm::Select { nowait: false })
    });
    case("tx.select: after confirm.select is 406").on_channel(|channel| {
        channel.confirms()?;
        channel.refuses(406, tx::Select {})
    });
    case("confirm: nothing without confirm.select").on_channel(|channel| {
        channel.queue_of(&["x"])?;
        channel.is_quiet()
    });
    case("confirm: tags count from 1 after confirm.select").on_channel(|channel| {
        let queue = channel.queue_of(&["before"])?;
        channel.confirms()?;
        for tag in 1..=3 {
            channel.publish("", &queue, "x")?;
            channel.acks(tag)?;
        }
        Ok(())
    });
    case("confirm: 1,000 in a row, multiple or not, and no more").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.confirms()?;
        channel.publish_all(&queue, &["x"; 1000])?;
        channel.confirmed(1000)?;
        channel.is_quiet()?;
        channel.holds(&queue, 1000)
    });
    case("confirm: each message exactly once").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.confirms()?;
        channel.publish_all(&queue, &["x"; 200])?;
        let mut open: BTreeSet<u64> = (1..=200).collect();
        while !open.is_empty() {
            let ack = channel.pushed::<basic::Ack>()?.0;
            let before = open.len();
            if ack.multiple {
                open.retain(|tag| *tag > ack.delivery_tag);
            } else {
                open.remove(&ack.delivery_tag);
            }
            ensure!(open.len() < before, "{ack:?} confirms nothing new");
        }
        channel.is_quiet()
    });
    case("confirm: unroutable is acknowledged").on_channel(|channel| {
        channel.confirms()?;
        channel.publish("", "conformance-missing", "x")?;
        channel.confirmed(1)
    });
    case("confirm: what is returned is returned first").on_channel(|channel| {
        channel.confirms()?;
        channel.publish_mandatory("", "conformance-missing", "x")?;
        channel.returned()?;
        channel.acks(1)
    });
    case("confirm: to several queues is one confirm").on_channel(|channel| {
        let exchange = channel.exchange("fanout")?;
        for _ in 0..3 {
            channel.bound(&exchange, "")?;
        }
        channel.confirms()?;
        channel.publish(&exchange, "", "x")?;
        channel.confirmed(1)?;
        channel.is_quiet()
    });
    case("confirm: a persistent message in a durable queue").on_channel(|channel| {
        let name = channel.declare(|declare| declare.durable = true)?;
        channel.confirms()?;
        let properties = BasicProperties::default().with_delivery_mode(2);
        for _ in 0..10 {
            channel.publish_as("", &name, &properties, "x")?;
        }
        channel.confirmed(10)?;
        channel.holds(&name, 10)
    });
    case("confirm: an empty body, and one of several frames").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.confirms()?;
        channel.publish("", &queue, "")?;
        channel.publish("", &queue, &"x".repeat(300_000))?;
        channel.confirmed(2)
    });
    case("confirm: a missing exchange is 404, not a nack").on_channel(|channel| {
        channel.confirms()?;
        channel.publish("conformance-missing", "a", "x")?;
        channel.refused_publish(404)
    });
    case("confirm: a channel that is opened again has none").on_channel(|channel| {
        channel.confirms()?;
        channel.reopen()?;
        channel.publish("", "conformance-missing", "x")?;
        channel.is_quiet()
    });
    case("confirm: channels count for themselves").on_channels(|first, second| {
        let queue = first.queue()?;
        first.confirms()?;
        second.confirms()?;
        first.publish_all(&queue, &["x"; 3])?;
        second.publish("", &queue, "x")?;
        first.confirmed(3)?;
        second.confirmed(1)
    });
    case("confirm: beside a consumer on the same channel").on_channel(|channel| {
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
    });
}
