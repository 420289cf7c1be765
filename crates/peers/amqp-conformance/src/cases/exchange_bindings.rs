//! exchange.bind and exchange.unbind, an extension that RabbitMQ documents.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    case("exchange.bind: messages go through, with exchange and key of the first").on_channel(
        |channel| {
            let (first, second) = (channel.exchange("direct")?, channel.exchange("fanout")?);
            channel.bind_exchange(&second, &first, "a")?;
            let queue = channel.bound(&second, "")?;
            channel.publish(&first, "a", "through")?;
            channel.publish(&first, "b", "not")?;
            let message = channel.take(&queue)?;
            message.was_routed_by(&first, "a")?;
            expect_eq("the message", message.body(), "through")?;
            expect_eq("the remaining messages", message.left, 0)
        },
    );
    case("exchange.bind: over three exchanges of three types").on_channel(|channel| {
        let (first, second) = (channel.exchange("topic")?, channel.exchange("fanout")?);
        let third = channel.exchange("direct")?;
        channel.bind_exchange(&second, &first, "a.#")?;
        channel.bind_exchange(&third, &second, "")?;
        let queue = channel.bound(&third, "a.b")?;
        channel.publish_keys(&first, &["a.b", "a.c", "b.a"])?;
        channel.yields(&queue, &["a.b"])
    });
    case("exchange.bind: two ways to one queue bring one message").on_channel(|channel| {
        let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
        let third = channel.exchange("fanout")?;
        channel.bind_exchange(&second, &first, "")?;
        channel.bind_exchange(&third, &first, "")?;
        let queue = channel.bound(&second, "")?;
        channel.bind(&queue, &third, "")?;
        channel.bind(&queue, &first, "")?;
        channel.publish(&first, "", "once")?;
        channel.yields(&queue, &["once"])
    });
    case("exchange.bind: a ring brings one message").on_channel(|channel| {
        let (first, second) = channel.linked_exchanges()?;
        channel.bind_exchange(&first, &second, "")?;
        channel.bind_exchange(&first, &first, "")?;
        let queue = channel.bound(&second, "")?;
        channel.publish(&first, "", "once")?;
        channel.publish(&second, "", "twice")?;
        channel.yields(&queue, &["once", "twice"])
    });
    case("exchange.bind: twice is the same binding").on_channel(|channel| {
        let (first, second) = (channel.exchange("direct")?, channel.exchange("fanout")?);
        channel.bind_exchange(&second, &first, "a")?;
        channel.bind_exchange(&second, &first, "a")?;
        let queue = channel.bound(&second, "")?;
        channel.call(exchange_unbinding(&second, &first, "a"))?;
        channel.publish(&first, "a", "x")?;
        channel.yields(&queue, &[])
    });
    case("exchange.bind: arguments count on a headers exchange").on_channel(|channel| {
        let (first, second) = (channel.exchange("headers")?, channel.exchange("fanout")?);
        let arguments = table(&[("kind", text("a"))]);
        channel
            .call(exchange_binding(&second, &first, "").with(|bind| bind.arguments = arguments))?;
        let queue = channel.bound(&second, "")?;
        for kind in ["a", "b"] {
            let headers = table(&[("kind", text(kind))]);
            channel.publish(&first, "", "no header")?;
            let properties = BasicProperties::default().with_headers(headers);
            channel.publish_as(&first, "", &properties, kind)?;
        }
        channel.yields(&queue, &["a"])
    });
    case("exchange.bind: no-wait is not answered").on_channel(|channel| {
        let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
        channel.send(exchange_binding(&second, &first, "").with(|bind| bind.nowait = true))?;
        channel.is_quiet()?;
        let queue = channel.bound(&second, "")?;
        channel.publish(&first, "", "x")?;
        channel.yields(&queue, &["x"])
    });
    case("exchange.bind: a missing source is 404").on_channel(|channel| {
        let there = channel.exchange("fanout")?;
        channel.refuses(404, exchange_binding(&there, "conformance-missing", ""))
    });
    case("exchange.bind: a missing destination is 404").on_channel(|channel| {
        let there = channel.exchange("fanout")?;
        channel.refuses(404, exchange_binding("conformance-missing", &there, ""))
    });
    case("exchange.bind: the default exchange as source is 403").on_channel(|channel| {
        let there = channel.exchange("fanout")?;
        channel.refuses(403, exchange_binding(&there, "", ""))
    });
    case("exchange.bind: the default exchange as destination is 403").on_channel(|channel| {
        let there = channel.exchange("fanout")?;
        channel.refuses(403, exchange_binding("", &there, ""))
    });
    case("exchange.bind: an internal exchange takes what comes from another").on_channel(
        |channel| {
            let first = channel.exchange("fanout")?;
            let second = channel.exchange_with("fanout", |declare| declare.internal = true)?;
            channel.bind_exchange(&second, &first, "")?;
            let queue = channel.bound(&second, "")?;
            channel.publish(&first, "", "x")?;
            channel.yields(&queue, &["x"])
        },
    );
    case("exchange.unbind: nothing goes through any more").on_channel(|channel| {
        let (first, second) = channel.linked_exchanges()?;
        let queue = channel.bound(&second, "")?;
        channel.call(exchange_unbinding(&second, &first, ""))?;
        channel.publish(&first, "", "x")?;
        channel.yields(&queue, &[])
    });
    case("exchange.unbind: a binding that is not there is no error").on_channel(|channel| {
        let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
        channel.call(exchange_unbinding(&second, &first, "a"))
    });
    case("exchange.unbind: no-wait is not answered").on_channel(|channel| {
        let (first, second) = channel.linked_exchanges()?;
        channel
            .send(exchange_unbinding(&second, &first, "").with(|unbind| unbind.nowait = true))?;
        channel.is_quiet()
    });
    case("exchange.unbind: the last binding of an auto-delete source deletes it").on_channel(
        |channel| {
            let first = channel.exchange_with("fanout", |declare| declare.auto_delete = true)?;
            let second = channel.exchange("fanout")?;
            channel.bind_exchange(&second, &first, "")?;
            channel.call(exchange_unbinding(&second, &first, ""))?;
            expect_eq("whether it is there", channel.has_exchange(&first)?, false)
        },
    );
    case("exchange.delete: the destination takes its bindings along").on_channel(|channel| {
        let (first, second) = channel.linked_exchanges()?;
        channel.call(exchange_deletion(&second))?;
        channel.call(unused_deletion(&first))
    });
    case("exchange.delete: if-unused of a source of another exchange is 406").on_channel(
        |channel| {
            let (first, _) = channel.linked_exchanges()?;
            channel.refuses(406, unused_deletion(&first))
        },
    );
    case("exchange.bind: mandatory through an exchange without queues is returned").on_channel(
        |channel| {
            let (first, _) = channel.linked_exchanges()?;
            channel.publish_mandatory(&first, "", "x")?;
            channel.returned()?;
            channel.call(queue::Declare::default().with(|declare| declare.exclusive = true))
        },
    );
}
