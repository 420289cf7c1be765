//! The end of queues and of their content: auto-delete, exclusive, queue.delete, queue.purge.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    lifetimes(case);
    deleting(case);
    purges(case);
}

fn lifetimes(case: Begin<'_>) {
    case("queue.declare: an auto-delete one is gone with its last consumer").on_channel(
        |channel| {
            let name = channel.declare(|declare| declare.auto_delete = true)?;
            let (first, second) = (channel.consume(&name)?, channel.consume(&name)?);
            channel.cancel(&first)?;
            channel.has_consumers(&name, 1)?;
            channel.cancel(&second)?;
            channel.loses(&name)
        },
    );
    case("queue.declare: an auto-delete one without a consumer stays").on_channel(|channel| {
        let name = channel.declare(|declare| declare.auto_delete = true)?;
        channel.publish("", &name, "x")?;
        expect_eq("what basic.get takes", channel.drain(&name)?, ["x"])?;
        channel.holds(&name, 0)
    });
    case("queue.declare: an auto-delete one is gone with the channel of its consumer").on_channels(
        |channel, other| {
            let name = channel.declare(|declare| declare.auto_delete = true)?;
            other.consume(&name)?;
            other.close()?;
            channel.loses(&name)
        },
    );
    case("queue.declare: one that is neither lives on without its connection").on_channel(
        |channel| {
            let apart = channel.scope().connect()?;
            let name = apart.channel()?.shared_queue()?;
            apart.close()?;
            channel.holds(&name, 0)
        },
    );
    case("queue.declare: an exclusive one lives on without its channel").on_channels(
        |channel, other| {
            let name = other.queue()?;
            other.close()?;
            channel.holds(&name, 0)
        },
    );
    case("queue.declare: an exclusive one is gone with its connection").on_channel(|channel| {
        let apart = channel.scope().connect()?;
        let name = apart.channel()?.queue()?;
        apart.close()?;
        channel.loses(&name)
    });
    case("queue.declare: an exclusive one is gone with a connection that breaks off").on_channel(
        |channel| {
            let apart = channel.scope().connect()?;
            let owner = apart.channel()?;
            let name = owner.declare(|declare| declare.exclusive = true)?;
            apart.wire.hang_up();
            channel.eventually("the name is free", || {
                let asking = channel.connection.channel()?;
                asking.send(named(&name))?;
                let event = asking.connection.event(asking.id)?;
                let free = <queue::DeclareOk as Method>::unwrap(event.method).is_ok();
                if !free {
                    asking.send(channel::CloseOk {})?;
                }
                Ok(free.then_some(()))
            })
        },
    );
}

fn deleting(case: Begin<'_>) {
    case("queue.delete: counts its messages").on_channel(|channel| {
        let queue = channel.queue_of(&["a", "b", "c"])?;
        expect_eq("messages", channel.call(deletion(&queue))?.message_count, 3)
    });
    case("queue.delete: of a missing one is no error").on_channel(|channel| {
        let deleted = channel.call(deletion("conformance-missing"))?;
        expect_eq("messages", deleted.message_count, 0)
    });
    case("queue.delete: if-unused of one with a consumer is 406").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.consume(&queue)?;
        channel.refuses(406, deletion(&queue).with(|delete| delete.if_unused = true))?;
        channel.call(deletion(&queue).with(|delete| delete.if_unused = true))
    });
    case("queue.delete: if-empty of one with a message is 406").on_channel(|channel| {
        let queue = channel.queue_of(&["x"])?;
        channel.refuses(406, deletion(&queue).with(|delete| delete.if_empty = true))?;
        expect_eq("the message", channel.drain(&queue)?, ["x"])?;
        channel.call(deletion(&queue).with(|delete| delete.if_empty = true))
    });
    case("queue.delete: no-wait is not answered").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.send(deletion(&queue).with(|delete| delete.nowait = true))?;
        channel.is_quiet()?;
        expect_eq("whether it is there", channel.has_queue(&queue)?, false)
    });
    case("queue.delete: its bindings are gone too").on_channel(|channel| {
        let exchange = channel.exchange("fanout")?;
        let name = channel.shared_queue()?;
        channel.bind(&name, &exchange, "")?;
        channel.call(deletion(&name))?;
        channel.call(named(&name))?;
        channel.publish(&exchange, "", "x")?;
        channel.yields(&name, &[])
    });
    case("queue.delete: by another connection").on_connection(|connection| {
        let name = connection.channel()?.shared_queue()?;
        let other = connection.scope.connect()?;
        let channel = other.channel()?;
        channel.call(deletion(&name))?;
        expect_eq("whether it is there", channel.has_queue(&name)?, false)?;
        other.close()
    });
    case("queue.delete: what was delivered of it can still be acknowledged").on_channel(
        |channel| {
            let queue = channel.queue_of(&["x"])?;
            let tag = channel.got(&queue)?.tag;
            channel.call(deletion(&queue))?;
            channel.ack(tag, false)?;
            channel.is_quiet()
        },
    );
}

fn purges(case: Begin<'_>) {
    case("queue.purge: counts what it removes").on_channel(|channel| {
        let queue = channel.queue_of(&["a", "b", "c"])?;
        expect_eq("messages", channel.call(purging(&queue))?.message_count, 3)?;
        channel.holds(&queue, 0)
    });
    case("queue.purge: of an empty queue").on_channel(|channel| {
        let queue = channel.queue()?;
        expect_eq("messages", channel.call(purging(&queue))?.message_count, 0)
    });
    case("queue.purge: a missing one is 404").refused(404, purging("conformance-missing"));
    case("queue.purge: what is not acknowledged stays").on_channel(|channel| {
        let queue = channel.queue_of(&["a", "b"])?;
        let got = channel.got(&queue)?.tag;
        expect_eq("messages", channel.call(purging(&queue))?.message_count, 1)?;
        channel.reject(got, true)?;
        expect_eq("the remaining messages", channel.take(&queue)?.body(), "a")
    });
    case("queue.purge: no-wait is not answered").on_channel(|channel| {
        let queue = channel.queue_of(&["a"])?;
        channel.send(purging(&queue).with(|purge| purge.nowait = true))?;
        channel.is_quiet()?;
        channel.holds(&queue, 0)
    });
}
