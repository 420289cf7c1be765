//! queue.declare, queue.delete and queue.purge.

use amq_protocol::protocol::{basic, queue};
use anyhow::ensure;

use crate::conformance::case::{Case, case, on_channel, on_connection};
use crate::conformance::channel::Channel;
use crate::conformance::usual::{binding, consumer, passive, same, unbinding};
use crate::conformance::values::table;

type Change = fn(&mut queue::Declare);
type Use = fn(&Channel<'_>, &str) -> anyhow::Result<()>;

/// `queue.delete` of one that may be in use and hold messages.
pub(super) fn deletion(queue: &str) -> queue::Delete {
    queue::Delete {
        queue: queue.into(),
        ..queue::Delete::default()
    }
}

fn purging(queue: &str) -> queue::Purge {
    queue::Purge {
        queue: queue.into(),
        nowait: false,
    }
}

fn named(queue: &str) -> queue::Declare {
    queue::Declare {
        queue: queue.into(),
        ..queue::Declare::default()
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = declaring();
    cases.extend(equivalence());
    cases.extend(lifetimes());
    cases.extend(exclusive());
    cases.extend(last_declared());
    cases.extend(deleting());
    cases.extend(purges());
    cases
}

fn declaring() -> Vec<Case> {
    vec![
        on_channel(
            "queue.declare: names from the broker begin with amq.gen- and differ",
            |channel| {
                let (first, second) = (channel.queue()?, channel.queue()?);
                ensure!(first.starts_with("amq.gen-"), "a name is {first:?}");
                ensure!(first != second, "both are {first:?}");
                Ok(())
            },
        ),
        on_channel(
            "queue.declare: answers with the name and two zeros",
            |channel| {
                let name = channel.scope().name();
                let declared = channel.declare(named(&name))?;
                same(
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
                same("consumers", channel.counts(&queue)?.1, 2)
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
                // The counts of an answer may lag behind what was published.
                channel.eventually("a message", || {
                    Ok((channel.declare(named(&name))?.message_count == 1).then_some(()))
                })
            },
        ),
        on_channel("queue.declare: a name of 255 bytes", |channel| {
            let name = format!("{:x<255}", channel.scope().name());
            same(
                "the answer",
                channel.declare(named(&name))?.queue.as_str(),
                name.as_str(),
            )?;
            channel.publish("", &name, "x")?;
            same(
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
            same("the messages", channel.drain(&name)?, ["x"])
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

fn lifetimes() -> Vec<Case> {
    vec![
        on_channel(
            "queue.declare: an auto-delete one is gone with its last consumer",
            |channel| {
                let name = channel.scope().name();
                channel.declare(queue::Declare {
                    auto_delete: true,
                    ..named(&name)
                })?;
                let (first, second) = (channel.consume(&name)?, channel.consume(&name)?);
                channel.cancel(&first)?;
                same("consumers", channel.counts(&name)?.1, 1)?;
                channel.cancel(&second)?;
                channel.eventually("the queue is gone", || {
                    Ok((!channel.has_queue(&name)?).then_some(()))
                })
            },
        ),
        on_channel(
            "queue.declare: an auto-delete one without a consumer stays",
            |channel| {
                let name = channel.scope().name();
                channel.declare(queue::Declare {
                    auto_delete: true,
                    ..named(&name)
                })?;
                channel.publish("", &name, "x")?;
                same("what basic.get takes", channel.drain(&name)?, ["x"])?;
                channel.holds(&name, 0)
            },
        ),
        on_channel(
            "queue.declare: an auto-delete one is gone with the channel of its consumer",
            |channel| {
                let name = channel.scope().name();
                channel.declare(queue::Declare {
                    auto_delete: true,
                    ..named(&name)
                })?;
                let other = channel.connection.channel()?;
                other.consume(&name)?;
                other.close()?;
                channel.eventually("the queue is gone", || {
                    Ok((!channel.has_queue(&name)?).then_some(()))
                })
            },
        ),
        on_channel(
            "queue.declare: one that is neither lives on without its connection",
            |channel| {
                let apart = channel.scope().connect()?;
                let name = apart.channel()?.shared_queue(table(&[]))?;
                apart.close()?;
                channel.holds(&name, 0)
            },
        ),
        on_channel(
            "queue.declare: an exclusive one lives on without its channel",
            |channel| {
                let other = channel.connection.channel()?;
                let name = other.queue()?;
                other.close()?;
                channel.holds(&name, 0)
            },
        ),
        on_channel(
            "queue.declare: an exclusive one is gone with its connection",
            |channel| {
                let apart = channel.scope().connect()?;
                let name = apart.channel()?.queue()?;
                apart.close()?;
                channel.eventually("the queue is gone", || {
                    Ok((!channel.has_queue(&name)?).then_some(()))
                })
            },
        ),
        on_channel(
            "queue.declare: an exclusive one is gone with a connection that breaks off",
            |channel| {
                let apart = channel.scope().connect()?;
                let name = channel.scope().name();
                apart.channel()?.declare(queue::Declare {
                    exclusive: true,
                    ..named(&name)
                })?;
                apart.wire.hang_up();
                channel.eventually("the name is free", || {
                    let asking = channel.connection.channel()?;
                    asking.send(named(&name))?;
                    let event = asking.connection.event(asking.id)?;
                    let free = <queue::DeclareOk as crate::conformance::method::Method>::unwrap(
                        event.method,
                    )
                    .is_ok();
                    if !free {
                        asking.send(amq_protocol::protocol::channel::CloseOk {})?;
                    }
                    Ok(free.then_some(()))
                })
            },
        ),
    ]
}

/// What another connection may not do with an exclusive queue.
fn exclusive() -> Vec<Case> {
    let uses: [(&str, Use); 9] = [
        ("queue.declare: the same", |channel, queue| {
            channel.refuses(
                405,
                queue::Declare {
                    exclusive: true,
                    ..named(queue)
                },
            )
        }),
        ("queue.declare: passive", |channel, queue| {
            channel.refuses(405, passive(queue))
        }),
        ("queue.bind: it", |channel, queue| {
            channel.refuses(405, binding(queue, "amq.direct", "a"))
        }),
        ("queue.unbind: it", |channel, queue| {
            channel.refuses(405, unbinding(queue, "amq.direct", queue))
        }),
        ("queue.purge: it", |channel, queue| {
            channel.refuses(405, purging(queue))
        }),
        ("queue.delete: it", |channel, queue| {
            channel.refuses(405, deletion(queue))
        }),
        ("basic.consume: from it", |channel, queue| {
            channel.refuses(405, consumer(queue))
        }),
        ("basic.get: from it", |channel, queue| {
            channel.refuses(
                405,
                basic::Get {
                    queue: queue.into(),
                    no_ack: true,
                },
            )
        }),
        ("queue.declare: not exclusive", |channel, queue| {
            channel.refuses(405, named(queue))
        }),
    ];
    let mut cases: Vec<Case> = uses
        .into_iter()
        .map(|(what, refused)| {
            on_channel(
                format!("{what} where it is exclusive to another connection is 405"),
                move |channel| {
                    let owner = channel.scope().connect()?;
                    let (owning, queue) = (owner.channel()?, channel.scope().name());
                    owning.declare(queue::Declare {
                        exclusive: true,
                        ..named(&queue)
                    })?;
                    owning.bind(&queue, "amq.direct", &queue)?;
                    refused(channel, &queue)?;
                    owner.close()
                },
            )
        })
        .collect();
    cases.push(on_channel(
        "basic.publish: to a queue that is exclusive to another connection",
        |channel| {
            let owner = channel.scope().connect()?;
            let receiver = owner.channel()?;
            let queue = receiver.queue()?;
            channel.publish("", &queue, "x")?;
            same("the message", receiver.take(&queue)?.body(), "x")?;
            owner.close()
        },
    ));
    cases
}

/// An empty name means the queue that the channel has declared last: section 3.1.4 of the specification's rules.
fn last_declared() -> Vec<Case> {
    vec![
        on_channel(
            "queue.declare: an empty name afterwards means this one",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                channel.bind("", "amq.direct", &queue)?;
                channel.consume("")?;
                same("the delivery", channel.delivery()?.body(), "x")?;
                channel.publish("amq.direct", &queue, "bound")?;
                same("the second", channel.delivery()?.body(), "bound")?;
                channel.call::<queue::PurgeOk>(purging(""))?;
                channel.call::<queue::DeleteOk>(deletion(""))?;
                same("whether it is there", channel.has_queue(&queue)?, false)
            },
        ),
        on_channel(
            "queue.declare: an empty routing key with an empty name is that name",
            |channel| {
                let queue = channel.queue()?;
                channel.bind("", "amq.direct", "")?;
                channel.publish("amq.direct", &queue, "x")?;
                same("the message", channel.take(&queue)?.body(), "x")
            },
        ),
        on_channel(
            "queue.bind: an empty name without a declaration before is 404",
            |channel| channel.refuses(404, binding("", "amq.direct", "a")),
        ),
        on_channel(
            "basic.consume: an empty name without a declaration before is 404",
            |channel| channel.refuses(404, consumer("")),
        ),
        on_channel(
            "basic.get: an empty name without a declaration before is 404",
            |channel| channel.refuses(404, basic::Get::default()),
        ),
        on_channel(
            "queue.delete: an empty name without a declaration before is 404",
            |channel| channel.refuses(404, deletion("")),
        ),
    ]
}

fn deleting() -> Vec<Case> {
    vec![
        on_channel("queue.delete: counts its messages", |channel| {
            let queue = channel.queue()?;
            for body in ["a", "b", "c"] {
                channel.publish("", &queue, body)?;
            }
            same(
                "messages",
                channel
                    .call::<queue::DeleteOk>(deletion(&queue))?
                    .message_count,
                3,
            )
        }),
        on_channel("queue.delete: of a missing one is no error", |channel| {
            let deleted: queue::DeleteOk = channel.call(deletion("conformance-missing"))?;
            same("messages", deleted.message_count, 0)
        }),
        on_channel(
            "queue.delete: if-unused of one with a consumer is 406",
            |channel| {
                let queue = channel.queue()?;
                channel.consume(&queue)?;
                channel.refuses(
                    406,
                    queue::Delete {
                        if_unused: true,
                        ..deletion(&queue)
                    },
                )?;
                channel
                    .call::<queue::DeleteOk>(queue::Delete {
                        if_unused: true,
                        ..deletion(&queue)
                    })
                    .map(drop)
            },
        ),
        on_channel(
            "queue.delete: if-empty of one with a message is 406",
            |channel| {
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                channel.refuses(
                    406,
                    queue::Delete {
                        if_empty: true,
                        ..deletion(&queue)
                    },
                )?;
                same("the message", channel.drain(&queue)?, ["x"])?;
                channel
                    .call::<queue::DeleteOk>(queue::Delete {
                        if_empty: true,
                        ..deletion(&queue)
                    })
                    .map(drop)
            },
        ),
        on_channel("queue.delete: no-wait is not answered", |channel| {
            let queue = channel.queue()?;
            channel.send(queue::Delete {
                nowait: true,
                ..deletion(&queue)
            })?;
            channel.is_quiet()?;
            same("whether it is there", channel.has_queue(&queue)?, false)
        }),
        on_channel("queue.delete: its bindings are gone too", |channel| {
            let exchange = channel.exchange("fanout")?;
            let name = channel.shared_queue(table(&[]))?;
            channel.bind(&name, &exchange, "")?;
            channel.call::<queue::DeleteOk>(deletion(&name))?;
            channel.declare(named(&name))?;
            channel.publish(&exchange, "", "x")?;
            same("the messages", channel.drain(&name)?, Vec::<String>::new())
        }),
        on_connection("queue.delete: by another connection", |connection| {
            let name = connection.channel()?.shared_queue(table(&[]))?;
            let other = connection.scope.connect()?;
            let channel = other.channel()?;
            channel.call::<queue::DeleteOk>(deletion(&name))?;
            same("whether it is there", channel.has_queue(&name)?, false)?;
            other.close()
        }),
        case(
            "queue.delete: what was delivered of it can still be acknowledged",
            |scope| {
                let connection = scope.connect()?;
                let channel = connection.channel()?;
                let queue = channel.queue()?;
                channel.publish("", &queue, "x")?;
                let got = channel.get(&queue)?;
                channel.call::<queue::DeleteOk>(deletion(&queue))?;
                channel.ack(got.map_or(0, |got| got.tag), false)?;
                channel.is_quiet()?;
                connection.close()
            },
        ),
    ]
}

fn purges() -> Vec<Case> {
    vec![
        on_channel("queue.purge: counts what it removes", |channel| {
            let queue = channel.queue()?;
            for body in ["a", "b", "c"] {
                channel.publish("", &queue, body)?;
            }
            same(
                "messages",
                channel
                    .call::<queue::PurgeOk>(purging(&queue))?
                    .message_count,
                3,
            )?;
            channel.holds(&queue, 0)
        }),
        on_channel("queue.purge: of an empty queue", |channel| {
            let queue = channel.queue()?;
            same(
                "messages",
                channel
                    .call::<queue::PurgeOk>(purging(&queue))?
                    .message_count,
                0,
            )
        }),
        on_channel("queue.purge: a missing one is 404", |channel| {
            channel.refuses(404, purging("conformance-missing"))
        }),
        on_channel("queue.purge: what is not acknowledged stays", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "a")?;
            channel.publish("", &queue, "b")?;
            let got = channel.get(&queue)?.map_or(0, |got| got.tag);
            same(
                "messages",
                channel
                    .call::<queue::PurgeOk>(purging(&queue))?
                    .message_count,
                1,
            )?;
            channel.reject(got, true)?;
            same("what is left", channel.take(&queue)?.body(), "a")
        }),
        on_channel("queue.purge: no-wait is not answered", |channel| {
            let queue = channel.queue()?;
            channel.publish("", &queue, "a")?;
            channel.send(queue::Purge {
                queue: queue.as_str().into(),
                nowait: true,
            })?;
            channel.is_quiet()?;
            channel.holds(&queue, 0)
        }),
    ]
}
