//! Routing of messages to queues: direct, fanout, topic, headers.

use amq_protocol::types::{AMQPValue, FieldTable};

use super::*;

/// A binding key, routing keys that match it, and some that do not.
const TOPICS: [(&str, &[&str], &[&str]); 16] = [
    ("a", &["a"], &["", "b", "a.b", "aa"]),
    ("a.b", &["a.b"], &["a", "a.", "a.b.c", "a.B"]),
    // An empty key has no words.
    ("*", &["a", "abc"], &["", "a.b", "."]),
    ("*.*", &["a.b", "."], &["a", "a.b.c", ""]),
    ("a.*", &["a.b", "a."], &["a", "a.b.c", "b.b"]),
    ("*.b", &["a.b", ".b"], &["b", "a.b.c"]),
    ("a.*.c", &["a.b.c", "a..c"], &["a.c", "a.b.b.c"]),
    ("#", &["", "a", "a.b", "a.b.c", "."], &[]),
    ("a.#", &["a", "a.b", "a.b.c", "a."], &["", "b", "ab", "b.a"]),
    ("#.a", &["a", "b.a", "c.b.a", ".a"], &["", "b", "a.b", "ba"]),
    (
        "a.#.c",
        &["a.c", "a.b.c", "a.b.b.c"],
        &["a", "c", "a.b", "b.c"],
    ),
    ("#.#", &["", "a", "a.b", "a.b.c"], &[]),
    ("*.#", &["a", "a.b", "a.b.c"], &[""]),
    (
        "#.b.#",
        &["b", "a.b", "b.c", "a.b.c", "b.b"],
        &["", "a", "a.c", "ab"],
    ),
    (
        "*.b.#",
        &["a.b", "a.b.c", "a.b.c.d"],
        &["b", "b.c", "a.c.b"],
    ),
    ("a*.#b", &["a*.#b"], &["ab.b", "a.b", "aa.bb"]),
];

pub(super) fn cases(case: Begin<'_>) {
    case("direct: the routing key is the binding key, byte by byte").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        let queue = channel.bound(&exchange, "a.*")?;
        channel.publish_keys(&exchange, &["a.*", "a.b", "a", "A.*", "", "#"])?;
        channel.yields(&queue, &["a.*"])
    });
    case("direct: an empty key is a key").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        let queue = channel.bound(&exchange, "")?;
        channel.publish_keys(&exchange, &["", "a"])?;
        channel.yields(&queue, &[""])
    });
    case("direct: several queues by one key, one queue by several").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        let (first, second) = (
            channel.bound(&exchange, "a")?,
            channel.bound(&exchange, "a")?,
        );
        channel.bind(&second, &exchange, "b")?;
        channel.publish_keys(&exchange, &["a", "b", "c"])?;
        expect_eq("the first", channel.drain(&first)?, ["a"])?;
        expect_eq("the second", channel.drain(&second)?, ["a", "b"])
    });
    case("fanout: keys do not count").on_channel(|channel| {
        let exchange = channel.exchange("fanout")?;
        let (first, second) = (
            channel.bound(&exchange, "a")?,
            channel.bound(&exchange, "")?,
        );
        channel.publish_keys(&exchange, &["a", "b", ""])?;
        expect_eq("the first", channel.drain(&first)?, ["a", "b", ""])?;
        expect_eq("the second", channel.drain(&second)?, ["a", "b", ""])
    });
    case("topic: many queues, each gets its own").on_channel(|channel| {
        let exchange = channel.exchange("topic")?;
        let keys = [
            "stock.usd.nyse",
            "stock.*.nyse",
            "stock.#",
            "#.nasdaq",
            "*.eur.*",
        ];
        let queues = keys.map(|key| channel.bound(&exchange, key));
        channel.publish_keys(
            &exchange,
            &[
                "stock.usd.nyse",
                "stock.eur.nasdaq",
                "bond.eur.nyse",
                "stock",
            ],
        )?;
        let expected: [&[&str]; 5] = [
            &["stock.usd.nyse"],
            &["stock.usd.nyse"],
            &["stock.usd.nyse", "stock.eur.nasdaq", "stock"],
            &["stock.eur.nasdaq"],
            &["stock.eur.nasdaq", "bond.eur.nyse"],
        ];
        for (queue, expected) in queues.into_iter().zip(expected) {
            expect_eq("the messages", channel.drain(&queue?)?, expected.to_vec())?;
        }
        Ok(())
    });
    case("topic: unbinding one pattern leaves those that share its words").on_channel(|channel| {
        let exchange = channel.exchange("topic")?;
        let queue = channel.bound(&exchange, "a.*.c")?;
        channel.bind(&queue, &exchange, "a.*")?;
        channel.bind(&queue, &exchange, "a.#.d")?;
        channel.unbind(&queue, &exchange, "a.*")?;
        channel.publish_keys(&exchange, &["a.b", "a.b.c", "a.d", "a.b.c.d"])?;
        channel.yields(&queue, &["a.b.c", "a.d", "a.b.c.d"])
    });
    for (pattern, matching, others) in TOPICS {
        let name = format!(
            "topic: {pattern} matches {} and not {}",
            matching.join(" "),
            others.join(" ")
        );
        case(&name).on_channel(move |channel| {
            let exchange = channel.exchange("topic")?;
            let queue = channel.bound(&exchange, pattern)?;
            for key in matching.iter().chain(others) {
                channel.publish(&exchange, key, key)?;
            }
            expect_eq("the messages", channel.drain(&queue)?, matching.to_vec())
        });
    }
    headers(case);
}

/// Declares a headers exchange, and a queue that is bound to it with these arguments.
fn headers_bound(
    channel: &Channel<'_>,
    arguments: &FieldTable,
) -> anyhow::Result<(String, String)> {
    let (exchange, queue) = (channel.exchange("headers")?, channel.queue()?);
    channel.call(binding(&queue, &exchange, "").with(|bind| bind.arguments = arguments.clone()))?;
    Ok((exchange, queue))
}

/// Adds the cases about arguments of a binding, headers of a message, and if they match.
fn headers(case: Begin<'_>) {
    let (one, two) = ([("a", int(1))], [("a", int(1)), ("b", text("x"))]);
    let others = [("a", int(1)), ("b", text("y"))];
    let another = [("a", int(2)), ("b", text("x"))];
    let more = [("a", int(1)), ("b", text("x")), ("c", int(1))];
    let void = [("a", AMQPValue::Void)];
    let yes = [("a", flag(true))];
    let with = |how: &str, rest: &[_]| table(&[rest, &[("x-match", text(how))]].concat());
    let (all, any) = (
        |rest: &[_]| with("all", rest),
        |rest: &[_]| with("any", rest),
    );
    let matches = [
        ("all: both", all(&two), table(&two), true),
        ("all: both and more", all(&two), table(&more), true),
        ("all: one is missing", all(&two), table(&one), false),
        ("all: one is different", all(&two), table(&others), false),
        ("all: no headers", all(&two), table(&[]), false),
        ("any: both", any(&two), table(&two), true),
        ("any: the first", any(&two), table(&one), true),
        (
            "any: the second and a wrong first",
            any(&two),
            table(&another),
            true,
        ),
        ("any: none", any(&two), table(&[("c", int(1))]), false),
        ("any: no headers", any(&two), table(&[]), false),
        ("without x-match: both", table(&two), table(&two), true),
        ("without x-match: one", table(&two), table(&one), false),
        ("all of nothing", all(&[]), table(&two), true),
        ("any of nothing", any(&[]), table(&two), false),
        ("no arguments at all", table(&[]), table(&[]), true),
        (
            "all: a void argument asks for the header alone",
            all(&void),
            table(&[("a", int(7))]),
            true,
        ),
        (
            "all: a void argument and no such header",
            all(&void),
            table(&[("b", int(7))]),
            false,
        ),
        (
            "all: x- arguments do not count",
            all(&[("x-other", int(1)), ("a", int(1))]),
            table(&one),
            true,
        ),
        ("all: a boolean", all(&yes), table(&yes), true),
        (
            "all: a boolean that differs",
            all(&yes),
            table(&[("a", flag(false))]),
            false,
        ),
    ];
    for (what, arguments, headers, matching) in matches {
        let verb = if matching { "reaches" } else { "misses" };
        case(&format!("headers: x-match {what} {verb} the queue")).on_channel(move |channel| {
            let (exchange, queue) = headers_bound(channel, &arguments)?;
            let properties = BasicProperties::default().with_headers(headers.clone());
            channel.publish_as(&exchange, "any key", &properties, "x")?;
            let expected: &[&str] = if matching { &["x"] } else { &[] };
            channel.yields(&queue, expected)
        });
    }
    for wrong in [text("some"), int(1)] {
        case(&format!("headers: x-match {wrong:?} is 406")).on_channel(move |channel| {
            let exchange = channel.exchange("headers")?;
            let queue = channel.queue()?;
            let arguments = table(&[("x-match", wrong.clone())]);
            let bind = binding(&queue, &exchange, "");
            channel.refuses(406, queue::Bind { arguments, ..bind })
        });
    }
    case("headers: a message without properties misses the queue").on_channel(|channel| {
        let (exchange, queue) = headers_bound(channel, &table(&[("a", int(1))]))?;
        channel.publish(&exchange, "", "x")?;
        channel.yields(&queue, &[])
    });
}
