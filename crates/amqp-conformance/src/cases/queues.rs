//! queue.declare: names, passive declarations, and equality with an earlier declaration.

use amq_protocol::protocol::queue;
use anyhow::ensure;

use crate::case::{Case, on_channel};
use crate::client::{deletion, expect_eq, named, passive};
use crate::values::table;

type Change = fn(&mut queue::Declare);

pub(super) fn cases() -> Vec<Case> {
    let mut cases = declaring();
    cases.extend(equivalence());
    cases
}

fn declaring() -> Vec<Case> {
    vec![
        on_channel(
            "queue.declare: names from the broker begin with amq.gen- and differ",
            |channel| {
                let (first, second) = (channel.queue()?, channel.queue()?);
                ensure!(
                    first.starts_with("amq.gen-"),
                    "the generated name is {first:?}"
                );
                ensure!(first != second, "both names are {first:?}");
                Ok(())
            },
        ),
        on_channel(
            "queue.declare: a name loses its line breaks, in bind and delete too",
            |channel| {
                let name = channel.scope().name();
                let broken = format!("\r{}\n{}\r\n", &name[..3], &name[3..]);
                let declared = channel.declare(named(&broken))?;
                expect_eq("the name", declared.queue.as_str(), name.as_str())?;
                channel.declare(named(&name))?;
                channel.declare(passive(&broken))?;
                channel.bind(&broken, "amq.\ndirect", &broken)?;
                channel.publish("amq.direct", &broken, "x")?;
                expect_eq("the message", channel.take(&name)?.body(), "x")?;
                channel.unbind(&broken, "amq.direct\r", &broken)?;
                channel.call::<queue::DeleteOk>(deletion(&broken))?;
                ensure!(!channel.has_queue(&name)?, "the queue exists");
                Ok(())
            },
        ),
        on_channel("queue.declare: line breaks alone are no name", |channel| {
            let declared = channel.declare(queue::Declare {
                exclusive: true,
                ..named("\r\n")
            })?;
            let name = declared.queue.as_str();
            ensure!(
                name.starts_with("amq.gen-"),
                "the generated name is {name:?}"
            );
            Ok(())
        }),
        on_channel("queue.purge: a name keeps its line breaks", |channel| {
            let queue = channel.queue()?;
            let purge = queue::Purge {
                queue: format!("{queue}\n").into(),
                nowait: false,
            };
            channel.refuses(404, purge)
        }),
        on_channel(
            "queue.declare: answers with the name and two zeros",
            |channel| {
                let name = channel.scope().name();
                let declared = channel.declare(named(&name))?;
                expect_eq(
                    "the answer",
                    (
                        declared.queue.as_str(),
                        declared.message_count,
                        declared.consumer_count,
                    ),
                    (name.as_str(), 0, 0),
                )
            },
        ),
        on_channel(
            "queue.declare: passive counts messages and consumers",
            |channel| {
                let queue = channel.queue()?;
                channel.qos(1, false)?;
                channel.consume(&queue)?;
                channel.consume(&queue)?;
                for body in ["a", "b", "c", "d", "e"] {
                    channel.publish("", &queue, body)?;
                }
                channel.deliveries(2)?;
                channel.holds(&queue, 3)?;
                expect_eq("consumers", channel.counts(&queue)?.1, 2)
            },
        ),
        on_channel(
            "queue.declare: passive of a missing one is 404",
            |channel| channel.refuses(404, passive("conformance-missing")),
        ),
        on_channel(
            "queue.declare: passive looks at nothing but the name",
            |channel| {
                let name = channel.shared_queue(table(&[]))?;
                let ask = queue::Declare {
                    durable: true,
                    auto_delete: true,
                    ..passive(&name)
                };
                channel.declare(ask).map(drop)
            },
        ),
        on_channel("queue.declare: a new name with amq. is 403", |channel| {
            channel.refuses(403, named("amq.conformance"))
        }),
        on_channel("queue.declare: no-wait is not answered", |channel| {
            let name = channel.scope().name();
            channel.send(queue::Declare {
                nowait: true,
                ..named(&name)
            })?;
            channel.is_quiet()?;
            channel.holds(&name, 0)
        }),
        on_channel(
            "queue.declare: no-wait of something impossible is refused",
            |channel| {
                channel.refuses(
                    403,
                    queue::Declare {
                        nowait: true,
                        ..named("amq.conformance")
                    },
                )
            },
        ),
        on_channel(
            "queue.declare: twice the same, with what it holds",
            |channel| {
                let name = channel.shared_queue(table(&[]))?;
                channel.publish("", &name, "x")?;
                channel.declare(named(&name))?;
                // The counts of an answer may lag behind the publishes.
                channel.eventually("a message", || {
                    Ok((channel.declare(named(&name))?.message_count == 1).then_some(()))
                })
            },
        ),
        on_channel("queue.declare: a name of 255 bytes", |channel| {
            let name = format!("{:x<255}", channel.scope().name());
            expect_eq(
                "the answer",
                channel.declare(named(&name))?.queue.as_str(),
                name.as_str(),
            )?;
            channel.publish("", &name, "x")?;
            expect_eq(
                "its messages",
                channel
                    .call::<queue::DeleteOk>(deletion(&name))?
                    .message_count,
                1,
            )
        }),
        on_channel("queue.declare: a name beyond ASCII", |channel| {
            let name = format!("{}-äöü-☃", channel.scope().name());
            channel.declare(queue::Declare {
                exclusive: true,
                ..named(&name)
            })?;
            channel.publish("", &name, "x")?;
            expect_eq("the messages", channel.drain(&name)?, ["x"])
        }),
        on_channel("queue.declare: names differ by case", |channel| {
            let name = channel.shared_queue(table(&[]))?;
            channel.refuses(404, passive(&name.to_uppercase()))
        }),
    ]
}

fn equivalence() -> Vec<Case> {
    let other: [(&str, Change); 4] = [
        ("durable", |declare| declare.durable = true),
        ("auto-delete", |declare| declare.auto_delete = true),
        ("durable and auto-delete", |declare| {
            declare.durable = true;
            declare.auto_delete = true;
        }),
        ("auto-delete, without an answer", |declare| {
            declare.auto_delete = true;
            declare.nowait = true;
        }),
    ];
    let mut cases: Vec<Case> = other
        .into_iter()
        .map(|(what, change)| {
            on_channel(
                format!("queue.declare: again with another {what} is 406"),
                move |channel| {
                    let name = channel.shared_queue(table(&[]))?;
                    let mut declare = named(&name);
                    change(&mut declare);
                    channel.refuses(406, declare)
                },
            )
        })
        .collect();
    cases.push(on_channel(
        "queue.declare: again as exclusive is 405",
        |channel| {
            let name = channel.shared_queue(table(&[]))?;
            channel.refuses(
                405,
                queue::Declare {
                    exclusive: true,
                    ..named(&name)
                },
            )
        },
    ));
    cases.push(on_channel(
        "queue.declare: an exclusive one again as not exclusive is 405",
        |channel| {
            let name = channel.scope().name();
            channel.declare(queue::Declare {
                exclusive: true,
                ..named(&name)
            })?;
            channel.refuses(405, named(&name))
        },
    ));
    cases.push(on_channel(
        "queue.declare: a durable one again as not durable is 406",
        |channel| {
            let name = channel.scope().name();
            channel.declare(queue::Declare {
                durable: true,
                ..named(&name)
            })?;
            channel.refuses(406, named(&name))
        },
    ));
    cases
}
