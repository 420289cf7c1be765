//! exchange.bind and exchange.unbind, an extension that RabbitMQ documents.

use amq_protocol::protocol::{basic, exchange, queue};

use crate::case::{Case, on_channel};
use crate::client::{exchange_of, expect_eq};
use crate::values::{table, text};

fn binding(destination: &str, source: &str, key: &str) -> exchange::Bind {
    exchange::Bind {
        destination: destination.into(),
        source: source.into(),
        routing_key: key.into(),
        ..exchange::Bind::default()
    }
}

fn unbinding(destination: &str, source: &str, key: &str) -> exchange::Unbind {
    exchange::Unbind {
        destination: destination.into(),
        source: source.into(),
        routing_key: key.into(),
        ..exchange::Unbind::default()
    }
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        on_channel(
            "exchange.bind: messages go through, with exchange and key of the first",
            |channel| {
                let (first, second) = (channel.exchange("direct")?, channel.exchange("fanout")?);
                channel.bind_exchange(&second, &first, "a")?;
                let queue = channel.bound(&second, "")?;
                channel.publish(&first, "a", "through")?;
                channel.publish(&first, "b", "not")?;
                let message = channel.take(&queue)?;
                expect_eq(
                    "the message",
                    (message.body(), message.exchange, message.routing_key),
                    ("through".to_owned(), first, "a".to_owned()),
                )?;
                expect_eq("the remaining messages", message.left, 0)
            },
        ),
        on_channel(
            "exchange.bind: over three exchanges of three types",
            |channel| {
                let (first, second) = (channel.exchange("topic")?, channel.exchange("fanout")?);
                let third = channel.exchange("direct")?;
                channel.bind_exchange(&second, &first, "a.#")?;
                channel.bind_exchange(&third, &second, "")?;
                let queue = channel.bound(&third, "a.b")?;
                for key in ["a.b", "a.c", "b.a"] {
                    channel.publish(&first, key, key)?;
                }
                expect_eq("the messages", channel.drain(&queue)?, ["a.b"])
            },
        ),
        on_channel(
            "exchange.bind: two ways to one queue bring one message",
            |channel| {
                let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
                let third = channel.exchange("fanout")?;
                channel.bind_exchange(&second, &first, "")?;
                channel.bind_exchange(&third, &first, "")?;
                let queue = channel.bound(&second, "")?;
                channel.bind(&queue, &third, "")?;
                channel.bind(&queue, &first, "")?;
                channel.publish(&first, "", "once")?;
                expect_eq("the messages", channel.drain(&queue)?, ["once"])
            },
        ),
        on_channel("exchange.bind: a ring brings one message", |channel| {
            let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
            channel.bind_exchange(&second, &first, "")?;
            channel.bind_exchange(&first, &second, "")?;
            channel.bind_exchange(&first, &first, "")?;
            let queue = channel.bound(&second, "")?;
            channel.publish(&first, "", "once")?;
            channel.publish(&second, "", "twice")?;
            expect_eq("the messages", channel.drain(&queue)?, ["once", "twice"])
        }),
        on_channel("exchange.bind: twice is the same binding", |channel| {
            let (first, second) = (channel.exchange("direct")?, channel.exchange("fanout")?);
            channel.bind_exchange(&second, &first, "a")?;
            channel.bind_exchange(&second, &first, "a")?;
            let queue = channel.bound(&second, "")?;
            channel.call::<exchange::UnbindOk>(unbinding(&second, &first, "a"))?;
            channel.publish(&first, "a", "x")?;
            expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
        }),
        on_channel(
            "exchange.bind: arguments count on a headers exchange",
            |channel| {
                let (first, second) = (channel.exchange("headers")?, channel.exchange("fanout")?);
                let arguments = table(&[("kind", text("a"))]);
                channel.call::<exchange::BindOk>(exchange::Bind {
                    arguments,
                    ..binding(&second, &first, "")
                })?;
                let queue = channel.bound(&second, "")?;
                for kind in ["a", "b"] {
                    let headers = table(&[("kind", text(kind))]);
                    channel.publish_as(&first, "", &Default::default(), "no header")?;
                    let properties =
                        amq_protocol::protocol::BasicProperties::default().with_headers(headers);
                    channel.publish_as(&first, "", &properties, kind)?;
                }
                expect_eq("the messages", channel.drain(&queue)?, ["a"])
            },
        ),
        on_channel("exchange.bind: no-wait is not answered", |channel| {
            let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
            channel.send(exchange::Bind {
                nowait: true,
                ..binding(&second, &first, "")
            })?;
            channel.is_quiet()?;
            let queue = channel.bound(&second, "")?;
            channel.publish(&first, "", "x")?;
            expect_eq("the messages", channel.drain(&queue)?, ["x"])
        }),
        on_channel("exchange.bind: a missing source is 404", |channel| {
            let there = channel.exchange("fanout")?;
            channel.refuses(404, binding(&there, "conformance-missing", ""))
        }),
        on_channel("exchange.bind: a missing destination is 404", |channel| {
            let there = channel.exchange("fanout")?;
            channel.refuses(404, binding("conformance-missing", &there, ""))
        }),
        on_channel(
            "exchange.bind: the default exchange as source is 403",
            |channel| {
                let there = channel.exchange("fanout")?;
                channel.refuses(403, binding(&there, "", ""))
            },
        ),
        on_channel(
            "exchange.bind: the default exchange as destination is 403",
            |channel| {
                let there = channel.exchange("fanout")?;
                channel.refuses(403, binding("", &there, ""))
            },
        ),
        on_channel(
            "exchange.bind: an internal exchange takes what comes from another",
            |channel| {
                let (first, second) = (channel.exchange("fanout")?, channel.scope().name());
                channel.call::<exchange::DeclareOk>(exchange::Declare {
                    internal: true,
                    ..exchange_of(&second, "fanout")
                })?;
                channel.bind_exchange(&second, &first, "")?;
                let queue = channel.bound(&second, "")?;
                channel.publish(&first, "", "x")?;
                expect_eq("the messages", channel.drain(&queue)?, ["x"])
            },
        ),
        on_channel(
            "exchange.unbind: nothing goes through any more",
            |channel| {
                let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
                channel.bind_exchange(&second, &first, "")?;
                let queue = channel.bound(&second, "")?;
                channel.call::<exchange::UnbindOk>(unbinding(&second, &first, ""))?;
                channel.publish(&first, "", "x")?;
                expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
            },
        ),
        on_channel(
            "exchange.unbind: a binding that is not there is no error",
            |channel| {
                let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
                channel
                    .call::<exchange::UnbindOk>(unbinding(&second, &first, "a"))
                    .map(drop)
            },
        ),
        on_channel("exchange.unbind: no-wait is not answered", |channel| {
            let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
            channel.bind_exchange(&second, &first, "")?;
            channel.send(exchange::Unbind {
                nowait: true,
                ..unbinding(&second, &first, "")
            })?;
            channel.is_quiet()
        }),
        on_channel(
            "exchange.unbind: the last binding of an auto-delete source deletes it",
            |channel| {
                let (first, second) = (channel.scope().name(), channel.exchange("fanout")?);
                channel.call::<exchange::DeclareOk>(exchange::Declare {
                    auto_delete: true,
                    ..exchange_of(&first, "fanout")
                })?;
                channel.bind_exchange(&second, &first, "")?;
                channel.call::<exchange::UnbindOk>(unbinding(&second, &first, ""))?;
                expect_eq(
                    "whether the source is there",
                    channel.has_exchange(&first)?,
                    false,
                )
            },
        ),
        on_channel(
            "exchange.delete: the destination takes its bindings along",
            |channel| {
                let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
                channel.bind_exchange(&second, &first, "")?;
                channel.call::<exchange::DeleteOk>(exchange::Delete {
                    exchange: second.into(),
                    ..exchange::Delete::default()
                })?;
                channel
                    .call::<exchange::DeleteOk>(exchange::Delete {
                        exchange: first.into(),
                        if_unused: true,
                        ..exchange::Delete::default()
                    })
                    .map(drop)
            },
        ),
        on_channel(
            "exchange.delete: if-unused of a source of another exchange is 406",
            |channel| {
                let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
                channel.bind_exchange(&second, &first, "")?;
                channel.refuses(
                    406,
                    exchange::Delete {
                        exchange: first.into(),
                        if_unused: true,
                        ..exchange::Delete::default()
                    },
                )
            },
        ),
        on_channel(
            "exchange.bind: mandatory through an exchange without queues is returned",
            |channel| {
                let (first, second) = (channel.exchange("fanout")?, channel.exchange("fanout")?);
                channel.bind_exchange(&second, &first, "")?;
                let publish = basic::Publish {
                    exchange: first.into(),
                    mandatory: true,
                    ..basic::Publish::default()
                };
                channel.send_content(publish, &Default::default(), b"x")?;
                expect_eq(
                    "the reply code",
                    channel.pushed::<basic::Return>()?.0.reply_code,
                    312,
                )?;
                channel
                    .call::<queue::DeclareOk>(queue::Declare {
                        exclusive: true,
                        ..queue::Declare::default()
                    })
                    .map(drop)
            },
        ),
    ]
}
