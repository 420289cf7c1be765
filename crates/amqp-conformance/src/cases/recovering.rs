//! basic.recover and basic.recover-async.

use amq_protocol::protocol::basic;

use crate::case::{Case, case, on_channel};
use crate::client::expect_eq;

pub(super) fn cases() -> Vec<Case> {
    vec![
        on_channel(
            "basic.recover: gives back all, redelivered, in order",
            |channel| {
                let queue = channel.queue()?;
                for body in ["a", "b", "c"] {
                    channel.publish("", &queue, body)?;
                    channel.get(&queue)?;
                }
                channel.ack(2, false)?;
                channel.call::<basic::RecoverOk>(basic::Recover { requeue: true })?;
                let seen = [channel.take(&queue)?, channel.take(&queue)?]
                    .map(|got| (got.body(), got.redelivered));
                expect_eq(
                    "bodies and redelivered",
                    seen,
                    [("a".to_owned(), true), ("c".to_owned(), true)],
                )
            },
        ),
        on_channel("basic.recover: to a consumer, with a new tag", |channel| {
            let queue = channel.queue()?;
            channel.consume(&queue)?;
            channel.publish("", &queue, "x")?;
            expect_eq("the first", channel.delivery()?.tag, 1)?;
            channel.call::<basic::RecoverOk>(basic::Recover { requeue: true })?;
            let again = channel.delivery()?;
            expect_eq(
                "tag and redelivered",
                (again.tag, again.redelivered),
                (2, true),
            )
        }),
        on_channel("basic.recover: with nothing to give back", |channel| {
            channel
                .call::<basic::RecoverOk>(basic::Recover { requeue: true })
                .map(drop)
        }),
        on_channel("basic.recover: tags of before are unknown", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "x")?;
            channel.get(&queue)?;
            channel.call::<basic::RecoverOk>(basic::Recover { requeue: true })?;
            channel.refuses(
                406,
                basic::Ack {
                    delivery_tag: 1,
                    multiple: false,
                },
            )
        }),
        case("basic.recover: without requeue is 540", |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            connection.breaks_on(channel.id, 540, basic::Recover { requeue: false })
        }),
        on_channel(
            "basic.recover-async: gives back all without an answer",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                channel.get(&queue)?;
                channel.send(basic::RecoverAsync { requeue: true })?;
                channel.is_quiet()?;
                let again = channel.take(&queue)?;
                expect_eq(
                    "body and redelivered",
                    (again.body().as_str(), again.redelivered),
                    ("x", true),
                )
            },
        ),
        case("basic.recover-async: without requeue is 540", |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            connection.breaks_on(channel.id, 540, basic::RecoverAsync { requeue: false })
        }),
    ]
}
