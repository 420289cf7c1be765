//! Direct reply-to: replies to `amq.rabbitmq.reply-to`, without a queue.

use super::*;

/// The name of the pseudo-queue.
const REPLY_TO: &str = "amq.rabbitmq.reply-to";

fn replies() -> basic::Consume {
    no_ack_consumer(REPLY_TO)
}

/// Publishes a request to a queue, and returns the reply address that its consumer reads.
fn ask(channel: &Channel<'_>, queue: &str) -> anyhow::Result<String> {
    let question = BasicProperties::default().with_reply_to(REPLY_TO.into());
    channel.publish_as("", queue, &question, "question")?;
    let taken = channel.take(queue)?;
    let address = taken.properties().reply_to().clone();
    Ok(address.context("the request has no reply-to")?.to_string())
}

pub(super) fn cases(case: Begin<'_>) {
    answering(case);
    refusing(case);
}

fn answering(case: Begin<'_>) {
    case("direct reply-to: an answer comes to the channel that asked").on_channel(|channel| {
        let queue = channel.queue()?;
        let tag = channel.consume_as(replies())?;
        let address = ask(channel, &queue)?;
        let is_generated = address.starts_with("amq.rabbitmq.reply-to.");
        ensure!(is_generated, "the address is {address:?}");
        let apart = channel.scope().connect()?;
        let other = apart.channel()?;
        other.publish("", &address, "answer")?;
        let answer = channel.delivery()?;
        answer.was_routed_by("", &address)?;
        expect_eq("the tag", &answer.consumer, &tag)?;
        expect_eq("the body", answer.body(), "answer")?;
        other.close()?;
        apart.close()
    });
    case("direct reply-to: the address is there for as long as its consumer").on_channels(
        |channel, other| {
            let queue = channel.queue()?;
            let tag = channel.consume_as(replies())?;
            let address = ask(channel, &queue)?;
            // On another channel: RabbitMQ closes a channel that asks about itself.
            expect_eq("messages and consumers", other.counts(&address)?, (0, 1))?;
            channel.cancel(&tag)?;
            ensure!(!channel.has_queue(&address)?, "{address} exists");
            channel.publish("", &address, "answer")?;
            channel.is_quiet()
        },
    );
    case("direct reply-to: a mandatory answer is returned, and delivered").on_channels(
        |channel, other| {
            let queue = channel.queue()?;
            channel.consume_as(replies())?;
            let address = ask(channel, &queue)?;
            other.publish_mandatory("", &address, "answer")?;
            other.returned()?;
            expect_eq("the answer", channel.delivery()?.body(), "answer")?;
            other.close()
        },
    );
    case("direct reply-to: the queue can be asked about").on_channel(|channel| {
        expect_eq("messages and consumers", channel.counts(REPLY_TO)?, (0, 1))
    });
}

fn refusing(case: Begin<'_>) {
    case("direct reply-to: with acknowledgements is 406").refused(406, consumer(REPLY_TO));
    case("direct reply-to: a second consumer is 406").on_channel(|channel| {
        channel.consume_as(replies())?;
        channel.refuses(406, replies())
    });
    case("direct reply-to: asking without a consumer is 406").on_channel(|channel| {
        let question = BasicProperties::default().with_reply_to(REPLY_TO.into());
        channel.publish_as("", "conformance-missing", &question, "question")?;
        channel.refused_publish(406)
    });
    case("direct reply-to: an address of nobody is 404").on_channel(|channel| {
        let address = format!("{REPLY_TO}.conformance");
        channel.refuses(404, passive(&address))
    });
    case("direct reply-to: there is nothing to get or purge").on_channel(|channel| {
        channel.refuses(404, getting(REPLY_TO))?;
        channel.refuses(404, purging(REPLY_TO))
    });
}
