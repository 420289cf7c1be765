//! basic.publish and basic.return.

use amq_protocol::protocol::{BasicProperties, basic};

use crate::case::{Case, case, on_channel};
use crate::channel::Channel;
use crate::client::{expect_eq, passive, to_queue};
use crate::method::Method as _;
use crate::values::{table, text};

fn mandatory(exchange: &str, key: &str) -> basic::Publish {
    basic::Publish {
        exchange: exchange.into(),
        routing_key: key.into(),
        mandatory: true,
        ..basic::Publish::default()
    }
}

fn closed_by_publish(channel: &Channel<'_>, code: u16) -> anyhow::Result<()> {
    channel.is_closed(code, basic::Publish::default().ids())
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        on_channel(
            "basic.publish: through the default exchange to a queue by its name",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                let message = channel.take(&queue)?;
                expect_eq(
                    "exchange and key",
                    (message.exchange.as_str(), &message.routing_key),
                    ("", &queue),
                )
            },
        ),
        on_channel(
            "basic.publish: through the default exchange to nobody",
            |channel| {
                channel.publish("", "conformance-missing", "x")?;
                channel.is_quiet()
            },
        ),
        on_channel("basic.publish: to a missing exchange is 404", |channel| {
            channel.publish("conformance-missing", "a", "x")?;
            closed_by_publish(channel, 404)
        }),
        on_channel(
            "basic.publish: to a missing exchange, with an empty body, is 404",
            |channel| {
                channel.publish("conformance-missing", "a", "")?;
                closed_by_publish(channel, 404)
            },
        ),
        on_channel(
            "basic.publish: to a missing exchange is 404 for all that follows too",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "before")?;
                channel.publish("conformance-missing", "a", "x")?;
                channel.publish("", &queue, "after")?;
                closed_by_publish(channel, 404)?;
                expect_eq("the messages", channel.drain(&queue)?, ["before"])
            },
        ),
        on_channel(
            "basic.publish: unroutable and not mandatory is nothing",
            |channel| {
                let exchange = channel.exchange("direct")?;
                channel.publish(&exchange, "a", "x")?;
                channel.is_quiet()
            },
        ),
        on_channel("basic.publish: a routing key of 255 bytes", |channel| {
            let exchange = channel.exchange("direct")?;
            let key = "k".repeat(255);
            let queue = channel.bound(&exchange, &key)?;
            channel.publish(&exchange, &key, "x")?;
            expect_eq("the key", channel.take(&queue)?.routing_key, key)
        }),
        on_channel("basic.publish: 1,000 in order", |channel| {
            let queue = channel.queue()?;
            let bodies: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
            for body in &bodies {
                channel.publish("", &queue, body)?;
            }
            channel.holds(&queue, 1000)?;
            expect_eq(
                "whether they are in order",
                channel.drain(&queue)? == bodies,
                true,
            )
        }),
        on_channel("basic.publish: one message to three queues", |channel| {
            let exchange = channel.exchange("fanout")?;
            let queues = [
                channel.bound(&exchange, "")?,
                channel.bound(&exchange, "")?,
                channel.bound(&exchange, "")?,
            ];
            channel.publish(&exchange, "key", "x")?;
            for queue in &queues {
                expect_eq("the message", channel.take(queue)?.routing_key, "key")?;
            }
            Ok(())
        }),
        on_channel(
            "basic.publish: a user-id that is not one's own is 406",
            |channel| {
                let queue = channel.queue()?;
                let properties = BasicProperties::default().with_user_id("conformance".into());
                channel.publish_as("", &queue, &properties, "x")?;
                closed_by_publish(channel, 406)
            },
        ),
        case("basic.publish: immediate is 540", |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            let queue = channel.queue()?;
            let publish = basic::Publish {
                immediate: true,
                ..to_queue(&queue)
            };
            channel.send_content(publish, &BasicProperties::default(), b"x")?;
            connection.breaks(540).map(drop)
        }),
        on_channel(
            "basic.return: mandatory and unroutable is 312, with everything",
            |channel| {
                let exchange = channel.exchange("direct")?;
                let properties = BasicProperties::default()
                    .with_message_id("m".into())
                    .with_headers(table(&[("key", text("value"))]));
                channel.send_content(mandatory(&exchange, "nobody"), &properties, b"body")?;
                let (returned, content) = channel.pushed::<basic::Return>()?;
                let said = (returned.reply_code, returned.reply_text.as_str());
                expect_eq("the reply", said, (312, "NO_ROUTE"))?;
                let whereto = (returned.exchange.as_str(), returned.routing_key.as_str());
                expect_eq("exchange and key", whereto, (exchange.as_str(), "nobody"))?;
                expect_eq("the properties", content.properties, properties)?;
                expect_eq("the body", content.body, b"body")
            },
        ),
        on_channel("basic.return: through the default exchange", |channel| {
            channel.send_content(
                mandatory("", "conformance-missing"),
                &BasicProperties::default(),
                b"x",
            )?;
            expect_eq(
                "the reply",
                channel.pushed::<basic::Return>()?.0.reply_code,
                312,
            )
        }),
        on_channel("basic.return: an empty body", |channel| {
            channel.send_content(
                mandatory("", "conformance-missing"),
                &BasicProperties::default(),
                b"",
            )?;
            let (returned, content) = channel.pushed::<basic::Return>()?;
            expect_eq(
                "reply and body",
                (returned.reply_code, content.body),
                (312, Vec::new()),
            )
        }),
        on_channel("basic.return: a body of several frames", |channel| {
            let body = vec![b'x'; 300_000];
            channel.send_content(
                mandatory("", "conformance-missing"),
                &BasicProperties::default(),
                &body,
            )?;
            expect_eq(
                "its length",
                channel.pushed::<basic::Return>()?.1.body.len(),
                300_000,
            )
        }),
        on_channel(
            "basic.return: mandatory that is routed is not returned",
            |channel| {
                let queue = channel.queue()?;
                channel.send_content(mandatory("", &queue), &BasicProperties::default(), b"x")?;
                expect_eq("the messages", channel.drain(&queue)?, ["x"])?;
                channel.is_quiet()
            },
        ),
        on_channel("basic.return: each of several, in order", |channel| {
            for body in ["a", "b", "c"] {
                channel.send_content(
                    mandatory("", "conformance-missing"),
                    &BasicProperties::default(),
                    body.as_bytes(),
                )?;
            }
            for body in ["a", "b", "c"] {
                expect_eq(
                    "the body",
                    channel.pushed::<basic::Return>()?.1.body,
                    body.as_bytes(),
                )?;
            }
            Ok(())
        }),
        on_channel(
            "basic.return: mandatory to a missing exchange is 404 all the same",
            |channel| {
                channel.send_content(
                    mandatory("conformance-missing", "a"),
                    &BasicProperties::default(),
                    b"x",
                )?;
                closed_by_publish(channel, 404)
            },
        ),
        on_channel(
            "basic.publish: a channel that was closed for one still serves its queues",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                channel.publish("conformance-missing", "a", "x")?;
                closed_by_publish(channel, 404)?;
                channel.declare(passive(&queue)).map(drop)
            },
        ),
    ]
}
