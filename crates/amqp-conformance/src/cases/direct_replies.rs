//! Direct reply-to: replies to `amq.rabbitmq.reply-to`, without a queue.

use amq_protocol::protocol::{BasicProperties, basic, queue};
use anyhow::{Context as _, ensure};

use crate::case::{Case, on_channel};
use crate::channel::Channel;
use crate::client::{consumer, expect_eq, passive};

/// The name of the pseudo-queue.
const REPLY_TO: &str = "amq.rabbitmq.reply-to";

fn replies() -> basic::Consume {
    basic::Consume {
        no_ack: true,
        ..consumer(REPLY_TO)
    }
}

/// Publishes a request to a queue, and returns the reply address that its consumer reads.
fn ask(channel: &Channel<'_>, queue: &str) -> anyhow::Result<String> {
    let question = BasicProperties::default().with_reply_to(REPLY_TO.into());
    channel.publish_as("", queue, &question, "question")?;
    let taken = channel.take(queue)?;
    let address = taken.properties().reply_to().clone();
    Ok(address.context("the request has no reply-to")?.to_string())
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = answering();
    cases.extend(refusing());
    cases
}

fn answering() -> Vec<Case> {
    vec![
        on_channel(
            "direct reply-to: an answer comes to the channel that asked",
            |channel| {
                let queue = channel.queue()?;
                let tag = channel.consume_as(replies())?;
                let address = ask(channel, &queue)?;
                ensure!(
                    address.starts_with("amq.rabbitmq.reply-to."),
                    "the address is {address:?}"
                );
                let apart = channel.scope().connect()?;
                let other = apart.channel()?;
                other.publish("", &address, "answer")?;
                let answer = channel.delivery()?;
                expect_eq(
                    "tag, exchange, key, body",
                    (&answer.consumer, &*answer.exchange, &answer.routing_key),
                    (&tag, "", &address),
                )?;
                expect_eq("the body", answer.body(), "answer")?;
                other.close()?;
                apart.close()
            },
        ),
        on_channel(
            "direct reply-to: the address is there for as long as its consumer",
            |channel| {
                let queue = channel.queue()?;
                let tag = channel.consume_as(replies())?;
                let address = ask(channel, &queue)?;
                // On another channel: RabbitMQ closes a channel that asks about itself.
                let other = channel.connection.channel()?;
                let declared = other.declare(passive(&address))?;
                expect_eq(
                    "messages and consumers",
                    (declared.message_count, declared.consumer_count),
                    (0, 1),
                )?;
                channel.cancel(&tag)?;
                ensure!(!channel.has_queue(&address)?, "{address} exists");
                channel.publish("", &address, "answer")?;
                channel.is_quiet()
            },
        ),
        on_channel(
            "direct reply-to: a mandatory answer is returned, and delivered",
            |channel| {
                let queue = channel.queue()?;
                channel.consume_as(replies())?;
                let address = ask(channel, &queue)?;
                let other = channel.connection.channel()?;
                let publish = basic::Publish {
                    routing_key: address.as_str().into(),
                    mandatory: true,
                    ..basic::Publish::default()
                };
                other.send_content(publish, &BasicProperties::default(), b"answer")?;
                let (returned, _) = other.pushed::<basic::Return>()?;
                expect_eq("the code", returned.reply_code, 312)?;
                expect_eq("the answer", channel.delivery()?.body(), "answer")?;
                other.close()
            },
        ),
        on_channel("direct reply-to: the queue can be asked about", |channel| {
            let declared = channel.declare(passive(REPLY_TO))?;
            expect_eq(
                "messages and consumers",
                (declared.message_count, declared.consumer_count),
                (0, 1),
            )
        }),
    ]
}

fn refusing() -> Vec<Case> {
    vec![
        on_channel("direct reply-to: with acknowledgements is 406", |channel| {
            channel.refuses(406, consumer(REPLY_TO))
        }),
        on_channel("direct reply-to: a second consumer is 406", |channel| {
            channel.consume_as(replies())?;
            channel.refuses(406, replies())
        }),
        on_channel(
            "direct reply-to: asking without a consumer is 406",
            |channel| {
                let question = BasicProperties::default().with_reply_to(REPLY_TO.into());
                channel.publish_as("", "conformance-missing", &question, "question")?;
                channel.is_closed(406, (60, 40))
            },
        ),
        on_channel("direct reply-to: an address of nobody is 404", |channel| {
            let address = format!("{REPLY_TO}.conformance");
            channel.refuses(404, passive(&address))
        }),
        on_channel(
            "direct reply-to: there is nothing to get or purge",
            |channel| {
                let get = basic::Get {
                    queue: REPLY_TO.into(),
                    no_ack: true,
                };
                channel.refuses(404, get)?;
                let purge = queue::Purge {
                    queue: REPLY_TO.into(),
                    nowait: false,
                };
                channel.refuses(404, purge)
            },
        ),
    ]
}
