//! queue.bind and queue.unbind.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    case("queue.bind: a missing queue is 404")
        .refused(404, binding("conformance-missing", "amq.direct", "a"));
    case("queue.bind: a missing exchange is 404").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.refuses(404, binding(&queue, "conformance-missing", "a"))
    });
    case("queue.bind: to the default exchange is 403").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.refuses(403, binding(&queue, "", "a"))
    });
    case("queue.bind: twice is one binding, one message").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        let queue = channel.bound(&exchange, "a")?;
        channel.bind(&queue, &exchange, "a")?;
        channel.publish(&exchange, "a", "once")?;
        channel.yields(&queue, &["once"])?;
        channel.unbind(&queue, &exchange, "a")?;
        channel.publish(&exchange, "a", "never")?;
        channel.yields(&queue, &[])
    });
    case("queue.bind: two bindings that match bring one message").on_channel(|channel| {
        let exchange = channel.exchange("topic")?;
        let queue = channel.bound(&exchange, "a.*")?;
        channel.bind(&queue, &exchange, "*.b")?;
        channel.publish(&exchange, "a.b", "once")?;
        channel.yields(&queue, &["once"])
    });
    case("queue.bind: to several exchanges").on_channel(|channel| {
        let (first, second) = (channel.exchange("direct")?, channel.exchange("fanout")?);
        let queue = channel.bound(&first, "a")?;
        channel.bind(&queue, &second, "")?;
        channel.publish(&first, "a", "first")?;
        channel.publish(&second, "", "second")?;
        channel.yields(&queue, &["first", "second"])
    });
    case("queue.bind: no-wait is not answered").on_channel(|channel| {
        let (exchange, queue) = (channel.exchange("fanout")?, channel.queue()?);
        channel.send(binding(&queue, &exchange, "").with(|bind| bind.nowait = true))?;
        channel.is_quiet()?;
        channel.publish(&exchange, "", "x")?;
        channel.yields(&queue, &["x"])
    });
    case("queue.bind: no-wait to a missing exchange is refused").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.refuses(
            404,
            binding(&queue, "conformance-missing", "").with(|bind| bind.nowait = true),
        )
    });
    case("queue.bind: arguments make another binding").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        let queue = channel.bound(&exchange, "a")?;
        let arguments = table(&[("x", int(1))]);
        channel.call(binding(&queue, &exchange, "a").with(|bind| bind.arguments = arguments))?;
        channel.unbind(&queue, &exchange, "a")?;
        channel.publish(&exchange, "a", "x")?;
        channel.yields(&queue, &["x"])
    });
    case("queue.bind: a queue that is not durable to an exchange that is").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.bind(&queue, "amq.direct", &queue)?;
        channel.publish("amq.direct", &queue, "x")?;
        channel.yields(&queue, &["x"])
    });
    case("queue.bind: a durable queue to an exchange that is not").on_channel(|channel| {
        let exchange = channel.exchange("fanout")?;
        let name = channel.declare(|declare| declare.durable = true)?;
        channel.bind(&name, &exchange, "")?;
        channel.publish(&exchange, "", "x")?;
        channel.yields(&name, &["x"])
    });
    case("queue.unbind: the others stay").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        let queue = channel.bound(&exchange, "a")?;
        channel.bind(&queue, &exchange, "b")?;
        channel.unbind(&queue, &exchange, "a")?;
        channel.publish_keys(&exchange, &["a", "b"])?;
        channel.yields(&queue, &["b"])
    });
    case("queue.unbind: a binding that is not there is no error").on_channel(|channel| {
        let (exchange, queue) = (channel.exchange("direct")?, channel.queue()?);
        channel.unbind(&queue, &exchange, "a")
    });
    case("queue.unbind: a missing queue").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        channel.unbind("conformance-missing", &exchange, "a")
    });
    case("queue.unbind: a missing exchange").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.unbind(&queue, "conformance-missing", "a")
    });
    case("queue.unbind: from the default exchange is 403").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.refuses(403, unbinding(&queue, "", &queue))
    });
}
