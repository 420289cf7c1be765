//! basic.consume, basic.cancel, basic.deliver.

use super::*;

/// The argument of a queue that delivers to only one of its consumers.
const SINGLE: (&str, AMQPValue) = ("x-single-active-consumer", AMQPValue::Boolean(true));

pub(super) fn cases(case: Begin<'_>) {
    starting(case);
    delivering(case);
    cancelling(case);
    choosing(case);
}

/// Returns `basic.consume` with the tag `mine`.
fn tagged_consumer(queue: &str) -> basic::Consume {
    consumer(queue).with(|consume| consume.consumer_tag = "mine".into())
}

/// Publishes a message and asserts which consumer gets it.
fn goes_to(channel: &Channel<'_>, queue: &str, consumer: &str) -> anyhow::Result<()> {
    channel.publish("", queue, "x")?;
    expect_eq("the consumer", channel.delivery()?.consumer, consumer)
}

fn starting(case: Begin<'_>) {
    case("basic.consume: a missing queue is 404").refused(404, consumer("conformance-missing"));
    case("basic.consume: tags from the broker begin with amq.ctag- and differ").on_channel(
        |channel| {
            let queue = channel.queue()?;
            let (first, second) = (channel.consume(&queue)?, channel.consume(&queue)?);
            let is_generated = first.starts_with("amq.ctag-");
            ensure!(is_generated, "the generated tag is {first:?}");
            ensure!(first != second, "both tags are {first:?}");
            Ok(())
        },
    );
    case("basic.consume: one's own tag is in the answer and in deliveries").on_channel(|channel| {
        let queue = channel.queue()?;
        let tag = channel.consume_as(tagged_consumer(&queue))?;
        expect_eq("the answer", tag, "mine")?;
        channel.publish("", &queue, "x")?;
        expect_eq("the delivery", channel.delivery()?.consumer, "mine")
    });
    case("basic.consume: a tag that the channel has is 530").on_broker(|scope| {
        let connection = scope.connect()?;
        let channel = connection.channel()?;
        let mine = tagged_consumer(&channel.queue()?);
        channel.consume_as(mine.clone())?;
        connection.breaks_on(channel.id, 530, mine)
    });
    case("basic.consume: the same tag on two channels").on_channels(|first, second| {
        let queue = first.queue()?;
        let mine = tagged_consumer(&queue);
        first.consume_as(mine.clone())?;
        second.consume_as(mine)?;
        first.has_consumers(&queue, 2)
    });
    case("basic.consume: a tag can be used again after cancel").on_channel(|channel| {
        let queue = channel.queue()?;
        for _ in 0..3 {
            channel.consume_as(tagged_consumer(&queue))?;
            channel.cancel("mine")?;
        }
        channel.has_consumers(&queue, 0)
    });
    case("basic.consume: exclusive where somebody consumes is 403").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.consume(&queue)?;
        channel.refuses(403, exclusive_consumer(&queue))
    });
    case("basic.consume: where somebody consumes exclusively is 403").on_channels(
        |channel, other| {
            let queue = channel.queue()?;
            other.consume_as(exclusive_consumer(&queue))?;
            channel.refuses(403, consumer(&queue))?;
            other.close()?;
            channel.eventually("the place is free", || {
                Ok((channel.counts(&queue)?.1 == 0).then_some(()))
            })?;
            channel.consume(&queue)
        },
    );
    case("basic.consume: no-wait is not answered, and delivers").on_channel(|channel| {
        let queue = channel.queue_of(&["x"])?;
        channel.send(tagged_consumer(&queue).with(|consume| consume.nowait = true))?;
        expect_eq("the delivery", channel.delivery()?.consumer, "mine")
    });
    case("basic.consume: no-wait of a missing queue is refused").on_channel(|channel| {
        let consume = tagged_consumer("conformance-missing");
        channel.refuses(404, consume.with(|consume| consume.nowait = true))
    });
    case("basic.consume: no-local changes nothing").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.consume_as(consumer(&queue).with(|consume| consume.no_local = true))?;
        channel.publish("", &queue, "x")?;
        channel.delivers("x")
    });
}

fn delivering(case: Begin<'_>) {
    case("basic.deliver: what was there before and what comes after, in order").on_channel(
        |channel| {
            let queue = channel.queue_of(&["a", "b"])?;
            channel.consume(&queue)?;
            channel.publish_all(&queue, &["c", "d"])?;
            expect_eq("the bodies", channel.deliveries(4)?, ["a", "b", "c", "d"])
        },
    );
    case("basic.deliver: tags count from 1 on each channel, over all consumers").on_channels(
        |channel, other| {
            let (first, second) = (channel.queue()?, channel.queue()?);
            channel.consume(&first)?;
            channel.consume(&second)?;
            let mut tags = Vec::new();
            for queue in [&first, &second, &first] {
                channel.publish("", queue, "x")?;
                tags.push(channel.delivery()?.tag);
            }
            expect_eq("the tags", tags, [1, 2, 3])?;
            let third = other.queue()?;
            other.consume(&third)?;
            other.publish("", &third, "x")?;
            expect_eq("the first of another channel", other.delivery()?.tag, 1)
        },
    );
    case("basic.deliver: exchange, key and redelivered").on_channel(|channel| {
        let exchange = channel.exchange("topic")?;
        let queue = channel.bound(&exchange, "a.#")?;
        channel.consume(&queue)?;
        channel.publish(&exchange, "a.b.c", "x")?;
        let message = channel.delivery()?;
        message.was_routed_by(&exchange, "a.b.c")?;
        expect_eq("redelivered", message.redelivered, false)
    });
    case("basic.deliver: two consumers take turns").on_channel(|channel| {
        let queue = channel.queue()?;
        let tags = [channel.consume(&queue)?, channel.consume(&queue)?];
        let mut seen = Vec::new();
        for _ in 0..6 {
            channel.publish("", &queue, "x")?;
            let message = channel.delivery()?;
            seen.push(tags.iter().position(|tag| *tag == message.consumer));
        }
        let turns = seen.windows(2).filter(|pair| pair[0] != pair[1]).count();
        expect_eq("turns", turns, 5)
    });
    case("basic.deliver: two consumers get each message once between them").on_channels(
        |channel, other| {
            let queue = channel.queue()?;
            channel.consume(&queue)?;
            other.consume(&queue)?;
            let publisher = channel.connection.channel()?;
            for n in 0..20 {
                publisher.publish("", &queue, &n.to_string())?;
            }
            let mut bodies = [channel.deliveries(10)?, other.deliveries(10)?].concat();
            bodies.sort_by_key(|body| body.parse::<u32>().unwrap_or(u32::MAX));
            let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
            expect_eq("the bodies", bodies, expected)
        },
    );
    case("basic.deliver: no-ack is forgotten once sent").on_channels(|channel, other| {
        let queue = channel.queue()?;
        channel.consume_as(no_ack_consumer(&queue))?;
        channel.publish_all(&queue, &["x"; 100])?;
        channel.deliveries(100)?;
        channel.reopen()?;
        other.holds(&queue, 0)
    });
    case("basic.deliver: an empty body").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.consume(&queue)?;
        channel.publish_all(&queue, &["", "next"])?;
        expect_eq("the bodies", channel.deliveries(2)?, ["", "next"])
    });
    case("basic.deliver: a body of several frames").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.consume(&queue)?;
        channel.publish("", &queue, &"x".repeat(500_000))?;
        expect_eq("its length", channel.delivery()?.body().len(), 500_000)
    });
    case("basic.deliver: from several connections to one consumer").on_channel(|channel| {
        let queue = channel.shared_queue()?;
        channel.consume(&queue)?;
        for _ in 0..3 {
            let apart = channel.scope().connect()?;
            let publisher = apart.channel()?;
            publisher.publish("", &queue, "x")?;
            channel.delivers("x")?;
            publisher.close()?;
            apart.close()?;
        }
        Ok(())
    });
}

/// Adds the cases about the choice among several consumers.
fn choosing(case: Begin<'_>) {
    let with = |queue: &str, key: &str, value: AMQPValue| {
        consumer(queue).with(|consume| consume.arguments = table(&[(key, value)]))
    };
    let refused = [
        ("x-priority", "a string", text("5")),
        ("x-priority", "a boolean", flag(true)),
        ("x-stream-offset", "of a stream", text("first")),
        ("x-cancel-on-ha-failover", "a string", text("true")),
    ];
    for (key, what, value) in refused {
        case(&format!("basic.consume: {key} that is {what} is 406")).on_channel(move |channel| {
            let queue = channel.queue()?;
            channel.refuses(406, with(&queue, key, value.clone()))
        });
    }
    case("basic.consume: an unknown argument changes nothing").on_channel(move |channel| {
        let queue = channel.queue()?;
        channel.consume_as(with(&queue, "x-conformance", int(1)))?;
        channel.publish("", &queue, "x")?;
        channel.delivers("x")
    });
    case("basic.consume: the higher x-priority first, while it has room").on_channel(
        move |channel| {
            let queue = channel.queue()?;
            let low = channel.consume_as(with(&queue, "x-priority", int(-1)))?;
            let normal = channel.consume(&queue)?;
            channel.qos(2, false)?;
            let high = channel.consume_as(with(&queue, "x-priority", int(10)))?;
            let mut seen = Vec::new();
            for _ in 0..4 {
                channel.publish("", &queue, "x")?;
                seen.push(channel.delivery()?.consumer);
            }
            let expected = [&high, &high, &normal, &normal].map(String::clone);
            expect_eq("consumers", seen, expected)?;
            channel.cancel(&normal)?;
            goes_to(channel, &queue, &low)?;
            channel.ack(1, false)?;
            goes_to(channel, &queue, &high)
        },
    );
    case("basic.consume: a single active consumer is followed by the next").on_channel(|channel| {
        let queue = channel.queue_with(&[SINGLE])?;
        let (first, second) = (channel.consume(&queue)?, channel.consume(&queue)?);
        for _ in 0..2 {
            goes_to(channel, &queue, &first)?;
        }
        channel.has_consumers(&queue, 2)?;
        channel.cancel(&first)?;
        goes_to(channel, &queue, &second)
    });
    case("basic.consume: a single active consumer stays before those of a higher x-priority")
        .on_channel(move |channel| {
            let queue = channel.queue_with(&[SINGLE])?;
            let first = channel.consume(&queue)?;
            let normal = channel.consume(&queue)?;
            let high = channel.consume_as(with(&queue, "x-priority", int(10)))?;
            goes_to(channel, &queue, &first)?;
            channel.cancel(&first)?;
            goes_to(channel, &queue, &high)?;
            channel.cancel(&high)?;
            goes_to(channel, &queue, &normal)
        });
    case("basic.consume: without room, a single active consumer is waited for").on_channels(
        |channel, other| {
            let queue = channel.queue_with(&[SINGLE])?;
            channel.qos(1, false)?;
            channel.consume(&queue)?;
            other.consume(&queue)?;
            other.publish_all(&queue, &["a", "b"])?;
            let held = channel.delivery()?;
            other.is_quiet()?;
            channel.ack(held.tag, false)?;
            expect_eq("the next", channel.delivery()?.body(), "b")?;
            channel.close()?;
            other.delivery()?.is_again("b")?;
            channel.open()
        },
    );
    case("basic.consume: exclusive beside a single active consumer is 403").on_channel(|channel| {
        let queue = channel.queue_with(&[SINGLE])?;
        channel.refuses(403, exclusive_consumer(&queue))
    });
}

fn cancelling(case: Begin<'_>) {
    case("basic.cancel: answers with the tag, and nothing is delivered any more").on_channel(
        |channel| {
            let queue = channel.queue()?;
            let tag = channel.consume(&queue)?;
            expect_eq("the answer", channel.cancel(&tag)?, tag)?;
            channel.publish("", &queue, "x")?;
            channel.is_quiet()?;
            expect_eq("its counts", channel.counts(&queue)?, (1, 0))
        },
    );
    case("basic.cancel: an unknown tag is answered all the same").on_channel(|channel| {
        expect_eq("the answer", channel.cancel("conformance")?, "conformance")
    });
    case("basic.cancel: no-wait is not answered").on_channel(|channel| {
        let queue = channel.queue()?;
        let tag = channel.consume(&queue)?;
        channel.send(basic::Cancel {
            consumer_tag: tag.into(),
            nowait: true,
        })?;
        channel.is_quiet()?;
        channel.has_consumers(&queue, 0)
    });
    case("basic.cancel: what was delivered can still be acknowledged").on_channel(|channel| {
        let queue = channel.queue_of(&["a", "b"])?;
        let tag = channel.consume(&queue)?;
        let messages = [channel.delivery()?, channel.delivery()?];
        channel.cancel(&tag)?;
        channel.ack(messages[0].tag, false)?;
        channel.reject(messages[1].tag, true)?;
        channel.yields(&queue, &["b"])
    });
    case("basic.cancel: of one consumer leaves the other").on_channel(|channel| {
        let queue = channel.queue()?;
        let (first, second) = (channel.consume(&queue)?, channel.consume(&queue)?);
        channel.cancel(&first)?;
        goes_to(channel, &queue, &second)
    });
    case("basic.cancel: is sent to a consumer whose queue is deleted").on_channels(
        |channel, other| {
            let queue = channel.queue()?;
            let tag = channel.consume(&queue)?;
            other.call(deletion(&queue))?;
            let (cancel, _) = channel.pushed::<basic::Cancel>()?;
            let seen = (cancel.consumer_tag.as_str(), cancel.nowait);
            expect_eq("tag and no-wait", seen, (tag.as_str(), true))
        },
    );
    case("basic.cancel: is sent to a consumer on the channel that deletes its queue").on_channel(
        |channel| {
            let queue = channel.queue()?;
            let tag = channel.consume(&queue)?;
            channel.call(deletion(&queue))?;
            let (cancel, _) = channel.pushed::<basic::Cancel>()?;
            expect_eq("the tag", cancel.consumer_tag.as_str(), tag)
        },
    );
    case("basic.cancel: is not sent to a client without consumer_cancel_notify").on_broker(
        |scope| {
            let client = Connection::greet(scope)?;
            let start_ok = client.login();
            client.start_with(start_ok.with(|start_ok| start_ok.client_properties = table(&[])))?;
            client.open_default()?;
            let channel = client.channel()?;
            let queue = channel.queue()?;
            channel.consume(&queue)?;
            channel.call(deletion(&queue))?;
            channel.is_quiet()?;
            client.close()
        },
    );
}
