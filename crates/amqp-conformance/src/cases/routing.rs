//! Routing of messages to queues: direct, fanout, topic, headers.

use amq_protocol::protocol::BasicProperties;
use amq_protocol::types::{AMQPValue, FieldTable};

use crate::case::{Case, on_channel};
use crate::client::expect_eq;
use crate::values::{flag, int, table, text};

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

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        on_channel(
            "direct: the routing key is the binding key, byte by byte",
            |channel| {
                let exchange = channel.exchange("direct")?;
                let queue = channel.bound(&exchange, "a.*")?;
                for key in ["a.*", "a.b", "a", "A.*", "", "#"] {
                    channel.publish(&exchange, key, key)?;
                }
                expect_eq("the messages", channel.drain(&queue)?, ["a.*"])
            },
        ),
        on_channel("direct: an empty key is a key", |channel| {
            let exchange = channel.exchange("direct")?;
            let queue = channel.bound(&exchange, "")?;
            for key in ["", "a"] {
                channel.publish(&exchange, key, key)?;
            }
            expect_eq("the messages", channel.drain(&queue)?, [""])
        }),
        on_channel(
            "direct: several queues by one key, one queue by several",
            |channel| {
                let exchange = channel.exchange("direct")?;
                let (first, second) = (
                    channel.bound(&exchange, "a")?,
                    channel.bound(&exchange, "a")?,
                );
                channel.bind(&second, &exchange, "b")?;
                for key in ["a", "b", "c"] {
                    channel.publish(&exchange, key, key)?;
                }
                expect_eq("the first", channel.drain(&first)?, ["a"])?;
                expect_eq("the second", channel.drain(&second)?, ["a", "b"])
            },
        ),
        on_channel("fanout: keys do not count", |channel| {
            let exchange = channel.exchange("fanout")?;
            let (first, second) = (
                channel.bound(&exchange, "a")?,
                channel.bound(&exchange, "")?,
            );
            for key in ["a", "b", ""] {
                channel.publish(&exchange, key, key)?;
            }
            expect_eq("the first", channel.drain(&first)?, ["a", "b", ""])?;
            expect_eq("the second", channel.drain(&second)?, ["a", "b", ""])
        }),
        on_channel("topic: many queues, each gets its own", |channel| {
            let exchange = channel.exchange("topic")?;
            let keys = [
                "stock.usd.nyse",
                "stock.*.nyse",
                "stock.#",
                "#.nasdaq",
                "*.eur.*",
            ];
            let queues = keys.map(|key| channel.bound(&exchange, key));
            for key in [
                "stock.usd.nyse",
                "stock.eur.nasdaq",
                "bond.eur.nyse",
                "stock",
            ] {
                channel.publish(&exchange, key, key)?;
            }
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
        }),
        on_channel(
            "topic: unbinding one pattern leaves those that share its words",
            |channel| {
                let exchange = channel.exchange("topic")?;
                let queue = channel.bound(&exchange, "a.*.c")?;
                channel.bind(&queue, &exchange, "a.*")?;
                channel.bind(&queue, &exchange, "a.#.d")?;
                channel.unbind(&queue, &exchange, "a.*")?;
                for key in ["a.b", "a.b.c", "a.d", "a.b.c.d"] {
                    channel.publish(&exchange, key, key)?;
                }
                expect_eq(
                    "the messages",
                    channel.drain(&queue)?,
                    ["a.b.c", "a.d", "a.b.c.d"],
                )
            },
        ),
    ];
    cases.extend(TOPICS.map(|(pattern, matching, others)| {
        on_channel(
            format!(
                "topic: {pattern} matches {} and not {}",
                matching.join(" "),
                others.join(" ")
            ),
            move |channel| {
                let exchange = channel.exchange("topic")?;
                let queue = channel.bound(&exchange, pattern)?;
                for key in matching.iter().chain(others) {
                    channel.publish(&exchange, key, key)?;
                }
                expect_eq("the messages", channel.drain(&queue)?, matching.to_vec())
            },
        )
    }));
    cases.extend(headers());
    cases
}

/// Returns arguments of a binding, headers of a message, and true if they match.
fn matches() -> Vec<(&'static str, FieldTable, FieldTable, bool)> {
    let two = || [("a", int(1)), ("b", text("x"))];
    let with = |how: &str| table(&[&two()[..], &[("x-match", text(how))]].concat());
    let all = || with("all");
    let any = || with("any");
    vec![
        ("all: both", all(), table(&two()), true),
        (
            "all: both and more",
            all(),
            table(&[&two()[..], &[("c", int(1))]].concat()),
            true,
        ),
        ("all: one is missing", all(), table(&two()[..1]), false),
        (
            "all: one is different",
            all(),
            table(&[("a", int(1)), ("b", text("y"))]),
            false,
        ),
        ("all: no headers", all(), table(&[]), false),
        ("any: both", any(), table(&two()), true),
        ("any: the first", any(), table(&two()[..1]), true),
        (
            "any: the second and a wrong first",
            any(),
            table(&[("a", int(2)), ("b", text("x"))]),
            true,
        ),
        ("any: none", any(), table(&[("c", int(1))]), false),
        ("any: no headers", any(), table(&[]), false),
        ("without x-match: both", table(&two()), table(&two()), true),
        (
            "without x-match: one",
            table(&two()),
            table(&two()[..1]),
            false,
        ),
        (
            "all of nothing",
            table(&[("x-match", text("all"))]),
            table(&two()),
            true,
        ),
        (
            "any of nothing",
            table(&[("x-match", text("any"))]),
            table(&two()),
            false,
        ),
        ("no arguments at all", table(&[]), table(&[]), true),
        (
            "all: a void argument asks for the header alone",
            table(&[("x-match", text("all")), ("a", AMQPValue::Void)]),
            table(&[("a", int(7))]),
            true,
        ),
        (
            "all: a void argument and no such header",
            table(&[("x-match", text("all")), ("a", AMQPValue::Void)]),
            table(&[("b", int(7))]),
            false,
        ),
        (
            "all: x- arguments do not count",
            table(&[("x-match", text("all")), ("x-other", int(1)), ("a", int(1))]),
            table(&[("a", int(1))]),
            true,
        ),
        (
            "all: a boolean",
            table(&[("x-match", text("all")), ("a", flag(true))]),
            table(&[("a", flag(true))]),
            true,
        ),
        (
            "all: a boolean that differs",
            table(&[("x-match", text("all")), ("a", flag(true))]),
            table(&[("a", flag(false))]),
            false,
        ),
    ]
}

fn headers() -> Vec<Case> {
    let mut cases: Vec<Case> = matches()
        .into_iter()
        .map(|(what, arguments, headers, matching)| {
            let verb = if matching { "reaches" } else { "misses" };
            on_channel(
                format!("headers: x-match {what} {verb} the queue"),
                move |channel| {
                    let exchange = channel.exchange("headers")?;
                    let queue = channel.queue()?;
                    channel.bind_with(&queue, &exchange, "", arguments.clone())?;
                    let properties = BasicProperties::default().with_headers(headers.clone());
                    channel.publish_as(&exchange, "any key", &properties, "x")?;
                    expect_eq(
                        "messages",
                        channel.drain(&queue)?.len(),
                        usize::from(matching),
                    )
                },
            )
        })
        .collect();
    for wrong in [text("some"), int(1)] {
        cases.push(on_channel(
            format!("headers: x-match {wrong:?} is 406"),
            move |channel| {
                let exchange = channel.exchange("headers")?;
                let queue = channel.queue()?;
                let arguments = table(&[("x-match", wrong.clone())]);
                let bind = crate::client::binding(&queue, &exchange, "");
                channel.refuses(
                    406,
                    amq_protocol::protocol::queue::Bind { arguments, ..bind },
                )
            },
        ));
    }
    cases.push(on_channel(
        "headers: a message without properties misses the queue",
        |channel| {
            let exchange = channel.exchange("headers")?;
            let queue = channel.queue()?;
            channel.bind_with(&queue, &exchange, "", table(&[("a", int(1))]))?;
            channel.publish(&exchange, "", "x")?;
            expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
        },
    ));
    cases
}
