//! Class tx.

use amq_protocol::protocol::{BasicProperties, basic, tx};

use crate::case::{Case, on_channel, on_connection};
use crate::client::{expect_eq, to_queue};
use crate::method::Method as _;

pub(super) fn cases() -> Vec<Case> {
    vec![
        on_channel("tx.commit: without tx.select is 406", |channel| {
            channel.refuses(406, tx::Commit {})
        }),
        on_channel("tx.rollback: without tx.select is 406", |channel| {
            channel.refuses(406, tx::Rollback {})
        }),
        on_channel("tx.select: twice", |channel| {
            channel.transactional()?;
            channel.transactional()
        }),
        on_channel("tx.commit: with nothing to do", |channel| {
            channel.transactional()?;
            channel.commit()?;
            channel.roll_back()?;
            channel.commit()
        }),
        on_channel(
            "tx.commit: messages are there afterwards, not before",
            |channel| {
                let queue = channel.queue()?;
                channel.transactional()?;
                channel.publish("", &queue, "a")?;
                channel.publish("", &queue, "b")?;
                expect_eq("before", channel.drain(&queue)?, Vec::<String>::new())?;
                channel.commit()?;
                expect_eq("after", channel.drain(&queue)?, ["a", "b"])
            },
        ),
        on_channel("tx.rollback: messages are gone", |channel| {
            let queue = channel.queue()?;
            channel.transactional()?;
            channel.publish("", &queue, "a")?;
            channel.roll_back()?;
            channel.publish("", &queue, "b")?;
            channel.commit()?;
            expect_eq("the messages", channel.drain(&queue)?, ["b"])
        }),
        on_channel("tx.commit: acks count afterwards", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "x")?;
            channel.get(&queue)?;
            channel.transactional()?;
            channel.ack(1, false)?;
            channel.commit()?;
            channel.close()?;
            channel.open()?;
            expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
        }),
        on_channel("tx.commit: acks without it count for nothing", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "x")?;
            channel.get(&queue)?;
            channel.transactional()?;
            channel.ack(1, false)?;
            channel.close()?;
            channel.open()?;
            expect_eq("the messages", channel.drain(&queue)?, ["x"])
        }),
        on_channel("tx.rollback: acks can be given again", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "x")?;
            channel.get(&queue)?;
            channel.transactional()?;
            channel.ack(1, false)?;
            channel.roll_back()?;
            channel.ack(1, false)?;
            channel.commit()?;
            channel.close()?;
            channel.open()?;
            expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
        }),
        on_channel("tx.commit: reject with requeue", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "x")?;
            channel.get(&queue)?;
            channel.transactional()?;
            channel.reject(1, true)?;
            channel.holds(&queue, 0)?;
            channel.commit()?;
            expect_eq("after", channel.take(&queue)?.redelivered, true)
        }),
        on_channel("tx.commit: publish and ack together", |channel| {
            let (source, target) = (channel.queue()?, channel.queue()?);
            channel.publish("", &source, "in")?;
            channel.get(&source)?;
            channel.transactional()?;
            channel.publish("", &target, "out")?;
            channel.ack(1, false)?;
            channel.commit()?;
            channel.close()?;
            channel.open()?;
            expect_eq(
                "both queues",
                (channel.drain(&source)?, channel.drain(&target)?),
                (Vec::new(), vec!["out".to_owned()]),
            )
        }),
        on_channel("tx.rollback: publish and ack together", |channel| {
            let (source, target) = (channel.queue()?, channel.queue()?);
            channel.publish("", &source, "in")?;
            channel.get(&source)?;
            channel.transactional()?;
            channel.publish("", &target, "out")?;
            channel.ack(1, false)?;
            channel.roll_back()?;
            channel.close()?;
            channel.open()?;
            expect_eq(
                "both queues",
                (channel.drain(&source)?, channel.drain(&target)?),
                (vec!["in".to_owned()], Vec::new()),
            )
        }),
        on_channel("tx.commit: a missing exchange is 404 at once", |channel| {
            channel.transactional()?;
            channel.publish("conformance-missing", "a", "x")?;
            channel.is_closed(404, basic::Publish::default().ids())
        }),
        on_channel("tx.commit: an unknown tag is 406 at once", |channel| {
            channel.transactional()?;
            channel.refuses(
                406,
                basic::Ack {
                    delivery_tag: 7,
                    multiple: false,
                },
            )
        }),
        on_channel(
            "tx.commit: mandatory and unroutable is returned by then",
            |channel| {
                channel.transactional()?;
                let publish = basic::Publish {
                    mandatory: true,
                    ..to_queue("conformance-missing")
                };
                channel.send_content(publish, &BasicProperties::default(), b"x")?;
                channel.commit()?;
                expect_eq(
                    "the return",
                    channel.pushed::<basic::Return>()?.0.reply_code,
                    312,
                )
            },
        ),
        on_connection("tx: of one channel, not of the other", |connection| {
            let (channel, other) = (connection.channel()?, connection.channel()?);
            let queue = channel.queue()?;
            channel.transactional()?;
            channel.publish("", &queue, "waits")?;
            other.publish("", &queue, "at once")?;
            expect_eq("the messages", other.drain(&queue)?, ["at once"])?;
            channel.commit()?;
            expect_eq("the messages", channel.drain(&queue)?, ["waits"])
        }),
        on_channel(
            "tx: a channel that is closed takes its messages along",
            |channel| {
                let queue = channel.queue()?;
                channel.transactional()?;
                channel.publish("", &queue, "x")?;
                channel.close()?;
                channel.open()?;
                expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
            },
        ),
        on_channel(
            "tx: an error takes what is not committed along",
            |channel| {
                let queue = channel.queue()?;
                channel.transactional()?;
                channel.publish("", &queue, "x")?;
                channel.refuses(404, crate::client::passive("conformance-missing"))?;
                expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
            },
        ),
        on_channel("tx: several commits in a row, in order", |channel| {
            let queue = channel.queue()?;
            channel.transactional()?;
            for body in ["a", "b", "c"] {
                channel.publish("", &queue, body)?;
                channel.commit()?;
            }
            expect_eq("the messages", channel.drain(&queue)?, ["a", "b", "c"])
        }),
    ]
}
