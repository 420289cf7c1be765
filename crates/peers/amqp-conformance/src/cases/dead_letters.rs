//! Dead-lettering: conditions, target, and the content of x-death.

use std::collections::BTreeMap;

use amq_protocol::types::{AMQPValue, FieldTable, ShortString};

use super::*;

/// Declares a queue whose dead letters go to another queue; returns both.
fn pair(channel: &Channel<'_>, more: &[(&str, AMQPValue)]) -> anyhow::Result<(String, String)> {
    let dead = channel.queue()?;
    let queue = channel.queue_with(&[&dead_letters_to(&dead)[..], more].concat())?;
    Ok((queue, dead))
}

/// Declares a queue whose dead letters come back to it.
fn ring(channel: &Channel<'_>, more: &[(&str, AMQPValue)]) -> anyhow::Result<String> {
    let name = channel.scope().name();
    let arguments = table(&[&dead_letters_to(&name)[..], more].concat());
    channel.call(named(&name).with(|declare| declare.arguments = arguments))?;
    Ok(name)
}

fn headers(message: &Message) -> anyhow::Result<&BTreeMap<ShortString, AMQPValue>> {
    let headers = message.properties().headers().as_ref();
    Ok(headers.context("the message has no headers")?.inner())
}

/// Returns the entries of x-death.
pub(super) fn deaths(message: &Message) -> anyhow::Result<Vec<FieldTable>> {
    let headers = headers(message)?;
    let Some(AMQPValue::FieldArray(entries)) = headers.get("x-death") else {
        bail!("x-death is {:?}", headers.get("x-death"));
    };
    let entry = |value: &AMQPValue| match value {
        AMQPValue::FieldTable(entry) => Ok(entry.clone()),
        other => bail!("an entry of x-death is {other:?}"),
    };
    entries.as_slice().iter().map(entry).collect()
}

/// Asserts the fields of one entry; its time only has to exist.
fn says(
    entry: &FieldTable,
    reason: &str,
    queue: &str,
    exchange: &str,
    key: &str,
    count: i64,
) -> anyhow::Result<()> {
    let entry = entry.inner();
    for (name, expected) in [("reason", reason), ("queue", queue), ("exchange", exchange)] {
        expect_eq(name, entry.get(name), Some(&text(expected)))?;
    }
    let keys = AMQPValue::FieldArray(vec![text(key)].into());
    expect_eq("routing-keys", entry.get("routing-keys"), Some(&keys))?;
    let count = long(count);
    expect_eq("count", entry.get("count"), Some(&count))?;
    let time = entry.get("time");
    ensure!(
        matches!(time, Some(AMQPValue::Timestamp(_))),
        "time is {time:?}"
    );
    Ok(())
}

type Kill = fn(&Channel<'_>, &str) -> anyhow::Result<()>;
/// A name, the reason in x-death, further arguments of the queue, and the function that makes its message a dead
/// letter.
type Way = (
    &'static str,
    &'static str,
    &'static [(&'static str, AMQPValue)],
    Kill,
);

fn rejected(channel: &Channel<'_>, queue: &str) -> anyhow::Result<()> {
    channel.reject(channel.got(queue)?.tag, false)
}

pub(super) fn cases(case: Begin<'_>) {
    let ways: [Way; 5] = [
        ("basic.reject", "rejected", &[], rejected),
        ("basic.nack", "rejected", &[], |channel, queue| {
            channel.nack(channel.got(queue)?.tag, false, false)
        }),
        (
            "x-message-ttl",
            "expired",
            &[("x-message-ttl", AMQPValue::LongInt(20))],
            |_, _| Ok(()),
        ),
        (
            "x-message-ttl of 0",
            "expired",
            &[("x-message-ttl", AMQPValue::LongInt(0))],
            |_, _| Ok(()),
        ),
        (
            "x-max-length",
            "maxlen",
            &[("x-max-length", AMQPValue::LongInt(1))],
            |channel, queue| channel.publish("", queue, "next"),
        ),
    ];
    for (what, reason, arguments, kill) in ways {
        case(&format!("dead letter: by {what}, with x-death")).on_channel(move |channel| {
            let (queue, dead) = pair(channel, arguments)?;
            channel.publish("", &queue, "x")?;
            kill(channel, &queue)?;
            let message = channel.take(&dead)?;
            expect_eq("the body", message.body(), "x")?;
            expect_eq("the key", &message.routing_key, &dead)?;
            expect_eq("redelivered", message.redelivered, false)?;
            let deaths = deaths(&message)?;
            expect_eq("deaths", deaths.len(), 1)?;
            says(&deaths[0], reason, &queue, "", &queue, 1)?;
            let headers = headers(&message)?;
            for (name, expected) in [
                ("x-first-death-reason", reason),
                ("x-first-death-queue", &queue),
                ("x-first-death-exchange", ""),
            ] {
                expect_eq(name, headers.get(name), Some(&text(expected)))?;
            }
            Ok(())
        });
    }
    whereto(case);
    histories(case);
}

fn whereto(case: Begin<'_>) {
    case("dead letter: without a routing key it keeps its own").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        let dead = channel.bound(&exchange, "a")?;
        let queue = channel.queue_with(&[("x-dead-letter-exchange", text(&exchange))])?;
        channel.bind(&queue, "amq.direct", &queue)?;
        let source = channel.exchange("fanout")?;
        channel.bind(&queue, &source, "")?;
        channel.publish(&source, "a", "x")?;
        rejected(channel, &queue)?;
        let message = channel.take(&dead)?;
        message.was_routed_by(&exchange, "a")?;
        says(&deaths(&message)?[0], "rejected", &queue, &source, "a", 1)
    });
    case("dead letter: to a topic exchange with a routing key of its own").on_channel(|channel| {
        let exchange = channel.exchange("topic")?;
        let dead = channel.bound(&exchange, "dead.*")?;
        let arguments = [
            ("x-dead-letter-exchange", text(&exchange)),
            ("x-dead-letter-routing-key", text("dead.letter")),
        ];
        let queue = channel.queue_with(&arguments)?;
        channel.publish("", &queue, "x")?;
        rejected(channel, &queue)?;
        expect_eq("the key", channel.take(&dead)?.routing_key, "dead.letter")
    });
    case("dead letter: a missing exchange swallows it").on_channel(|channel| {
        let queue =
            channel.queue_with(&[("x-dead-letter-exchange", text("conformance-missing"))])?;
        channel.publish("", &queue, "x")?;
        rejected(channel, &queue)?;
        channel.is_quiet()?;
        channel.holds(&queue, 0)
    });
    case("dead letter: without an exchange it is gone").on_channel(|channel| {
        let queue = channel.queue_of(&["x"])?;
        rejected(channel, &queue)?;
        channel.holds(&queue, 0)
    });
    case("dead letter: reject with requeue is none").on_channel(|channel| {
        let (queue, dead) = pair(channel, &[])?;
        channel.publish("", &queue, "x")?;
        channel.reject(channel.got(&queue)?.tag, true)?;
        expect_eq("the queue", channel.drain(&queue)?, ["x"])?;
        channel.holds(&dead, 0)
    });
    case("dead letter: purge and delete make none").on_channel(|channel| {
        let (first, dead) = pair(channel, &[])?;
        channel.publish("", &first, "x")?;
        channel.call(purging(&first))?;
        channel.publish("", &first, "x")?;
        channel.call(deletion(&first))?;
        channel.holds(&dead, 0)
    });
    case("dead letter: several in order").on_channel(|channel| {
        let (queue, dead) = pair(channel, &[])?;
        for body in ["a", "b", "c"] {
            channel.publish("", &queue, body)?;
            channel.get(&queue)?;
        }
        channel.nack(0, true, false)?;
        for body in ["a", "b", "c"] {
            expect_eq("the body", channel.take(&dead)?.body(), body)?;
        }
        Ok(())
    });
    case("dead letter: properties, headers and body stay").on_channel(|channel| {
        let (queue, dead) = pair(channel, &[])?;
        let sent = BasicProperties::default()
            .with_content_type("text/plain".into())
            .with_message_id("m".into())
            .with_headers(table(&[("mine", int(7))]));
        channel.publish_as("", &queue, &sent, "x")?;
        rejected(channel, &queue)?;
        let message = channel.take(&dead)?;
        let kept = message.properties();
        expect_eq("content type", kept.content_type(), sent.content_type())?;
        expect_eq("message id", kept.message_id(), sent.message_id())?;
        expect_eq("the header", headers(&message)?.get("mine"), Some(&int(7)))
    });
}

fn histories(case: Begin<'_>) {
    case("dead letter: expiration is taken off and stands in x-death").on_channel(|channel| {
        let (queue, dead) = pair(channel, &[])?;
        let properties = BasicProperties::default().with_expiration("20".into());
        channel.publish_as("", &queue, &properties, "x")?;
        let message = channel.take(&dead)?;
        expect_eq("expiration", message.properties().expiration(), &None)?;
        let death = &deaths(&message)?[0];
        let original = death.inner().get("original-expiration");
        expect_eq("original-expiration", original, Some(&text("20")))?;
        says(death, "expired", &queue, "", &queue, 1)
    });
    case("dead letter: a second death is put before the first").on_channel(|channel| {
        let (middle, last) = pair(channel, &[])?;
        let arguments = [&dead_letters_to(&middle)[..], &[("x-message-ttl", int(0))]].concat();
        let first = channel.queue_with(&arguments)?;
        channel.publish("", &first, "x")?;
        let got = channel.eventually("a message", || channel.get(&middle))?;
        channel.reject(got.tag, false)?;
        let message = channel.take(&last)?;
        let deaths = deaths(&message)?;
        expect_eq("deaths", deaths.len(), 2)?;
        says(&deaths[0], "rejected", &middle, "", &middle, 1)?;
        says(&deaths[1], "expired", &first, "", &first, 1)?;
        let headers = headers(&message)?;
        let first_queue = headers.get("x-first-death-queue");
        expect_eq("the first queue", first_queue, Some(&text(&first)))
    });
    case("dead letter: the same death again is counted").on_channel(|channel| {
        let (queue, dead) = pair(channel, &[])?;
        channel.publish("", &queue, "x")?;
        rejected(channel, &queue)?;
        let once = channel.take(&dead)?;
        channel.publish_as("", &queue, once.properties(), "x")?;
        rejected(channel, &queue)?;
        let twice = channel.take(&dead)?;
        let deaths = deaths(&twice)?;
        expect_eq("deaths", deaths.len(), 1)?;
        says(&deaths[0], "rejected", &queue, "", &queue, 2)
    });
    case("dead letter: a ring of expiries alone is cut").on_channel(|channel| {
        let name = ring(channel, &[("x-message-ttl", int(20))])?;
        channel.publish("", &name, "x")?;
        // A message that is later sent to the end of the ring proves it: it is alone there.
        let (after, dead) = pair(channel, &[("x-message-ttl", int(100))])?;
        channel.publish("", &after, "later")?;
        channel.take(&dead)?;
        channel.holds(&name, 0)
    });
    case("dead letter: a ring with a rejection goes on").on_channel(|channel| {
        let name = ring(channel, &[])?;
        channel.publish("", &name, "x")?;
        rejected(channel, &name)?;
        let again = channel.eventually("a message", || channel.get(&name))?;
        channel.reject(again.tag, false)?;
        let third = channel.take(&name)?;
        says(&deaths(&third)?[0], "rejected", &name, "", &name, 2)
    });
    case("dead letter: reject-publish-dlx sends the new one there, with nack").on_channel(
        |channel| {
            let overflow = ("x-overflow", text("reject-publish-dlx"));
            let (queue, dead) = pair(channel, &[("x-max-length", int(1)), overflow])?;
            channel.publish("", &queue, "a")?;
            channel.holds(&queue, 1)?;
            channel.confirms()?;
            channel.publish("", &queue, "b")?;
            channel.nacks(1)?;
            let message = channel.take(&dead)?;
            expect_eq("the dead letter", message.body(), "b")?;
            says(&deaths(&message)?[0], "maxlen", &queue, "", &queue, 1)?;
            expect_eq("the queue", channel.drain(&queue)?, ["a"])
        },
    );
    case("dead letter: x-max-length of 0 sends each one there").on_channel(|channel| {
        let (queue, dead) = pair(channel, &[("x-max-length", int(0))])?;
        channel.publish("", &queue, "a")?;
        expect_eq("the dead letter", channel.take(&dead)?.body(), "a")
    });
}
