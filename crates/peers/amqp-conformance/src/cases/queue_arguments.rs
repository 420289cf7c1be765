//! The arguments of queue.declare: types, ranges, and equality in a second declaration.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    refused(case);
    taken(case);
    compared(case);
}

type Arguments<'a> = &'a [(&'a str, AMQPValue)];

fn declaration(name: &str, arguments: Arguments<'_>) -> queue::Declare {
    named(name).with(|declare| declare.arguments = table(arguments))
}

/// Declares a queue, and asserts that another declaration with other arguments is refused.
fn differs(
    channel: &Channel<'_>,
    first: Arguments<'_>,
    second: Arguments<'_>,
) -> anyhow::Result<()> {
    let name = channel.scope().name();
    channel.call(declaration(&name, first))?;
    channel.refuses(406, declaration(&name, second))
}

/// Declares a queue again with each of these arguments.
fn is_same(channel: &Channel<'_>, declarations: &[Arguments<'_>]) -> anyhow::Result<()> {
    let name = channel.scope().name();
    declarations
        .iter()
        .try_for_each(|arguments| channel.call(declaration(&name, arguments)).map(drop))
}

fn refused(case: Begin<'_>) {
    let wrong: [(&'static str, &str, AMQPValue); 33] = [
        ("x-message-ttl", "a string", text("1000")),
        ("x-message-ttl", "negative", int(-1)),
        ("x-message-ttl", "a boolean", flag(true)),
        ("x-message-ttl", "a double", AMQPValue::Double(1.5)),
        ("x-message-ttl", "beyond 32 bits", long(1 << 40)),
        ("x-expires", "a string", text("1000")),
        ("x-expires", "0", int(0)),
        ("x-expires", "negative", int(-1)),
        ("x-max-length", "a string", text("10")),
        ("x-max-length", "negative", int(-1)),
        ("x-max-length-bytes", "a string", text("10")),
        ("x-max-length-bytes", "negative", int(-1)),
        ("x-overflow", "unknown", text("conformance")),
        ("x-overflow", "a number", int(1)),
        ("x-dead-letter-exchange", "a number", int(1)),
        ("x-dead-letter-exchange", "a boolean", flag(true)),
        (
            "x-dead-letter-routing-key",
            "without an exchange",
            text("a"),
        ),
        ("x-queue-type", "unknown", text("conformance")),
        ("x-queue-type", "a number", int(1)),
        ("x-single-active-consumer", "a string", text("true")),
        ("x-single-active-consumer", "a number", int(1)),
        ("x-queue-mode", "unknown", text("conformance")),
        ("x-queue-version", "unknown", int(3)),
        ("x-queue-version", "a string", text("2")),
        ("x-delivery-limit", "of a quorum queue", int(3)),
        ("x-max-in-memory-length", "of a quorum queue", int(3)),
        ("x-max-in-memory-bytes", "of a quorum queue", int(3)),
        ("x-quorum-initial-group-size", "of a quorum queue", int(3)),
        ("x-initial-cluster-size", "of a stream", int(3)),
        (
            "x-queue-leader-locator",
            "of a stream",
            text("client-local"),
        ),
        (
            "x-dead-letter-strategy",
            "of a quorum queue",
            text("at-most-once"),
        ),
        ("x-max-age", "of a stream", text("1h")),
        ("x-stream-max-segment-size-bytes", "of a stream", int(1000)),
    ];
    for (key, what, value) in wrong {
        case(&format!("queue.declare: {key} that is {what} is 406")).on_channel(move |channel| {
            let name = channel.scope().name();
            channel.refuses(406, declaration(&name, &[(key, value.clone())]))
        });
    }
}

fn taken(case: Begin<'_>) {
    let right: [(&'static str, &str, AMQPValue); 18] = [
        ("x-message-ttl", "0", int(0)),
        (
            "x-message-ttl",
            "an unsigned byte",
            AMQPValue::ShortShortUInt(200),
        ),
        ("x-message-ttl", "a short", AMQPValue::ShortInt(1000)),
        ("x-message-ttl", "64 bits wide", long(1000)),
        ("x-expires", "1 minute", int(60_000)),
        ("x-max-length", "0", int(0)),
        ("x-max-length-bytes", "64 bits wide", long(1 << 40)),
        ("x-overflow", "drop-head", text("drop-head")),
        ("x-overflow", "reject-publish", text("reject-publish")),
        (
            "x-overflow",
            "reject-publish-dlx",
            text("reject-publish-dlx"),
        ),
        ("x-dead-letter-exchange", "the default exchange", text("")),
        (
            "x-dead-letter-exchange",
            "missing so far",
            text("conformance-missing"),
        ),
        ("x-queue-type", "classic", text("classic")),
        ("x-conformance", "unknown to everybody", int(1)),
        ("x-queue-mode", "lazy", text("lazy")),
        ("x-queue-version", "2", int(2)),
        ("x-single-active-consumer", "on", flag(true)),
        ("x-single-active-consumer", "off", flag(false)),
    ];
    for (key, what, value) in right {
        case(&format!("queue.declare: {key} that is {what}")).on_channel(move |channel| {
            let arguments = [(key, value.clone())];
            is_same(channel, &[&arguments, &arguments])
        });
    }
}

fn compared(case: Begin<'_>) {
    let values: [(&'static str, AMQPValue, AMQPValue); 7] = [
        ("x-message-ttl", int(60_000), int(70_000)),
        ("x-expires", int(60_000), int(70_000)),
        ("x-max-length", int(10), int(11)),
        ("x-max-length-bytes", int(10), int(11)),
        ("x-overflow", text("drop-head"), text("reject-publish")),
        ("x-dead-letter-exchange", text("a"), text("b")),
        ("x-single-active-consumer", flag(true), flag(false)),
    ];
    for (key, one, other) in values {
        let (one, other) = ([(key, one)], [(key, other)]);
        let first = one.clone();
        let name = format!("queue.declare: again with another {key} is 406");
        case(&name).on_channel(move |channel| differs(channel, &first, &other));
        let first = one.clone();
        let name = format!("queue.declare: again without its {key} is 406");
        case(&name).on_channel(move |channel| differs(channel, &first, &[]));
        let name = format!("queue.declare: again with {key} that it had not is 406");
        case(&name).on_channel(move |channel| differs(channel, &[], &one));
    }
    let name = "queue.declare: again with another x-dead-letter-routing-key is 406";
    case(name).on_channel(|channel| differs(channel, &dead_letters_to("a"), &dead_letters_to("b")));
    case("queue.declare: again with the same number in another width").on_channel(|channel| {
        let ttl = "x-message-ttl";
        is_same(channel, &[&[(ttl, int(1000))], &[(ttl, long(1000))]])
    });
    case("queue.declare: without a type it is a classic queue").on_channel(|channel| {
        let classic = [("x-queue-type", text("classic"))];
        is_same(channel, &[&[], &classic, &[]])
    });
    case("queue.declare: again with another unknown argument is the same").on_channel(|channel| {
        let unknown = "x-conformance";
        is_same(channel, &[&[(unknown, int(1))], &[(unknown, int(2))]])
    });
    case("queue.declare: again with the arguments in another order").on_channel(|channel| {
        let (ttl, length) = (("x-message-ttl", int(1000)), ("x-max-length", int(10)));
        let reversed = [length.clone(), ttl.clone()];
        is_same(channel, &[&[ttl, length], &reversed])
    });
}
