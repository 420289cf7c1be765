//! Queue names and access: omitted names, exclusive queues.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    exclusive(case);
    last_declared(case);
}

/// Adds the cases about operations that an exclusive queue refuses to other connections.
fn exclusive(case: Begin<'_>) {
    denied(case, "queue.declare: the same", |queue| {
        named(queue).with(|declare| declare.exclusive = true)
    });
    denied(case, "queue.declare: passive", passive);
    denied(case, "queue.bind: it", |queue| {
        binding(queue, "amq.direct", "a")
    });
    denied(case, "queue.unbind: it", |queue| {
        unbinding(queue, "amq.direct", queue)
    });
    denied(case, "queue.purge: it", purging);
    denied(case, "queue.delete: it", deletion);
    denied(case, "basic.consume: from it", consumer);
    denied(case, "basic.get: from it", getting);
    denied(case, "queue.declare: not exclusive", named);
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

/// Adds a case about a method for an exclusive queue of another connection.
fn denied<M: Method + 'static>(case: Begin<'_>, what: &str, method: fn(&str) -> M) {
    let name = format!("{what} where it is exclusive to another connection is 405");
    case(&name).on_channel(move |channel| {
        let owner = channel.scope().connect()?;
        let (owning, queue) = (owner.channel()?, channel.scope().name());
        owning.call(named(&queue).with(|declare| declare.exclusive = true))?;
        owning.bind(&queue, "amq.direct", &queue)?;
        channel.refuses(405, method(&queue))?;
        owner.close()
    });
}

/// Adds the cases about empty names, which mean the queue that the channel declared last: section 3.1.4 of the
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
