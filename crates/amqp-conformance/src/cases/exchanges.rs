//! exchange.declare and exchange.delete.

use amq_protocol::protocol::{basic, exchange};
use anyhow::ensure;

use crate::case::{Case, case, on_channel};
use crate::client::{binding, exchange_of, expect_eq, passive};
use crate::method::Method as _;
use crate::values::{int, table, text};

const TYPES: [&str; 4] = ["direct", "fanout", "topic", "headers"];
const PREDECLARED: [(&str, &str); 5] = [
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
];

type Change = fn(&mut exchange::Declare);

/// Returns `exchange.delete` of an exchange that may be in use.
fn deletion(exchange: &str) -> exchange::Delete {
    exchange::Delete {
        exchange: exchange.into(),
        ..exchange::Delete::default()
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = declaring();
    cases.extend(equivalence());
    cases.extend(deleting());
    cases
}

fn declaring() -> Vec<Case> {
    let mut cases = vec![
        on_channel(
            "exchange.declare: a name loses its line breaks, in delete too",
            |channel| {
                let name = channel.scope().name();
                let broken = format!("{}\r\n{}", &name[..3], &name[3..]);
                let declare = exchange_of(&broken, "fanout");
                channel.call::<exchange::DeclareOk>(declare)?;
                ensure!(channel.has_exchange(&name)?, "{name} does not exist");
                channel.bind_exchange(&broken, "amq.topic\n", "#")?;
                channel.call::<exchange::DeleteOk>(deletion(&broken))?;
                ensure!(!channel.has_exchange(&name)?, "{name} exists");
                Ok(())
            },
        ),
        on_channel(
            "exchange.declare: passive of a missing one is 404",
            |channel| {
                let ask = exchange::Declare {
                    passive: true,
                    ..exchange_of("conformance-missing", "direct")
                };
                channel.refuses(404, ask)
            },
        ),
        on_channel(
            "exchange.declare: passive looks at nothing but the name",
            |channel| {
                let name = channel.exchange("topic")?;
                let ask = exchange::Declare {
                    passive: true,
                    durable: true,
                    ..exchange_of(&name, "direct")
                };
                channel.call::<exchange::DeclareOk>(ask).map(drop)
            },
        ),
        on_channel("exchange.declare: the default exchange is 403", |channel| {
            channel.refuses(403, exchange_of("", "direct"))
        }),
        on_channel("exchange.declare: a new name with amq. is 403", |channel| {
            channel.refuses(403, exchange_of("amq.conformance", "direct"))
        }),
        case("exchange.declare: an unknown type is 503", |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            connection.breaks_on(channel.id, 503, exchange_of(&scope.name(), "conformance"))
        }),
        case("exchange.declare: an empty type is 503", |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            connection.breaks_on(channel.id, 503, exchange_of(&scope.name(), ""))
        }),
        on_channel("exchange.declare: no-wait is not answered", |channel| {
            let name = channel.scope().name();
            channel.send(exchange::Declare {
                nowait: true,
                ..exchange_of(&name, "fanout")
            })?;
            channel.is_quiet()?;
            expect_eq("whether it is there", channel.has_exchange(&name)?, true)
        }),
        on_channel(
            "exchange.declare: no-wait of something impossible is refused",
            |channel| {
                channel.refuses(
                    403,
                    exchange::Declare {
                        nowait: true,
                        ..exchange_of("amq.conformance", "direct")
                    },
                )
            },
        ),
        on_channel("exchange.declare: a name of 255 bytes", |channel| {
            let name = format!("{:x<255}", channel.scope().name());
            channel.call::<exchange::DeclareOk>(exchange_of(&name, "direct"))?;
            channel
                .call::<exchange::DeleteOk>(deletion(&name))
                .map(drop)
        }),
        on_channel(
            "exchange.declare: durable and auto-delete together",
            |channel| {
                let name = channel.scope().name();
                let declare = exchange::Declare {
                    durable: true,
                    auto_delete: true,
                    ..exchange_of(&name, "direct")
                };
                channel.call::<exchange::DeclareOk>(declare).map(drop)
            },
        ),
        on_channel(
            "exchange.declare: publishing to an internal one is 403",
            |channel| {
                let name = channel.scope().name();
                let declare = exchange::Declare {
                    internal: true,
                    ..exchange_of(&name, "fanout")
                };
                channel.call::<exchange::DeclareOk>(declare)?;
                channel.publish(&name, "", "x")?;
                channel.is_closed(403, basic::Publish::default().ids())
            },
        ),
        on_channel(
            "exchange.declare: an auto-delete one is gone with its last binding",
            |channel| {
                let name = channel.scope().name();
                let declare = exchange::Declare {
                    auto_delete: true,
                    ..exchange_of(&name, "direct")
                };
                channel.call::<exchange::DeclareOk>(declare)?;
                let queue = channel.bound(&name, "a")?;
                channel.bind(&queue, &name, "b")?;
                channel.unbind(&queue, &name, "a")?;
                expect_eq(
                    "whether it is there with one binding",
                    channel.has_exchange(&name)?,
                    true,
                )?;
                channel.unbind(&queue, &name, "b")?;
                expect_eq(
                    "whether it is there with none",
                    channel.has_exchange(&name)?,
                    false,
                )
            },
        ),
        on_channel(
            "exchange.declare: an auto-delete one is gone with the queue of its last binding",
            |channel| {
                let name = channel.scope().name();
                let declare = exchange::Declare {
                    auto_delete: true,
                    ..exchange_of(&name, "fanout")
                };
                channel.call::<exchange::DeclareOk>(declare)?;
                let queue = channel.bound(&name, "")?;
                channel.call::<amq_protocol::protocol::queue::DeleteOk>(
                    crate::client::deletion(&queue),
                )?;
                expect_eq("whether it is there", channel.has_exchange(&name)?, false)
            },
        ),
        on_channel(
            "exchange.declare: an auto-delete one that was never bound stays",
            |channel| {
                let name = channel.scope().name();
                let declare = exchange::Declare {
                    auto_delete: true,
                    ..exchange_of(&name, "fanout")
                };
                channel.call::<exchange::DeclareOk>(declare)?;
                expect_eq("whether it is there", channel.has_exchange(&name)?, true)
            },
        ),
        on_channel(
            "exchange.declare: it lives on without its connection",
            |channel| {
                let name = {
                    let apart = channel.scope().connect()?;
                    let name = apart.channel()?.exchange("direct")?;
                    apart.close()?;
                    name
                };
                expect_eq("whether it is there", channel.has_exchange(&name)?, true)
            },
        ),
    ];
    cases.extend(TYPES.map(|kind| {
        on_channel(
            format!("exchange.declare: type {kind}, twice the same"),
            move |channel| {
                let name = channel.exchange(kind)?;
                channel
                    .call::<exchange::DeclareOk>(exchange_of(&name, kind))
                    .map(drop)
            },
        )
    }));
    cases.extend(PREDECLARED.map(|(name, kind)| {
        on_channel(
            format!("exchange.declare: {name} is there, durable, of type {kind}"),
            move |channel| {
                let declare = exchange::Declare {
                    durable: true,
                    ..exchange_of(name, kind)
                };
                channel.call::<exchange::DeclareOk>(declare).map(drop)
            },
        )
    }));
    cases
}

fn equivalence() -> Vec<Case> {
    let other: [(&str, Change); 6] = [
        ("type", |declare| declare.kind = "fanout".into()),
        ("durable", |declare| declare.durable = true),
        ("auto-delete", |declare| declare.auto_delete = true),
        ("internal", |declare| declare.internal = true),
        ("alternate-exchange", |declare| {
            declare.arguments = table(&[("alternate-exchange", text("amq.fanout"))]);
        }),
        ("type, without an answer", |declare| {
            declare.kind = "topic".into();
            declare.nowait = true;
        }),
    ];
    let mut cases: Vec<Case> = other
        .into_iter()
        .map(|(what, change)| {
            on_channel(
                format!("exchange.declare: again with another {what} is 406"),
                move |channel| {
                    let name = channel.exchange("direct")?;
                    let mut declare = exchange_of(&name, "direct");
                    change(&mut declare);
                    channel.refuses(406, declare)
                },
            )
        })
        .collect();
    cases.push(on_channel(
        "exchange.declare: again without its alternate-exchange is 406",
        |channel| {
            let name = channel.exchange_with(
                "direct",
                table(&[("alternate-exchange", text("amq.fanout"))]),
            )?;
            channel.refuses(406, exchange_of(&name, "direct"))
        },
    ));
    cases.push(on_channel(
        "exchange.declare: again with an unknown argument is the same",
        |channel| {
            let name = channel.exchange("direct")?;
            let arguments = table(&[("x-conformance", int(1))]);
            let declare = exchange::Declare {
                arguments,
                ..exchange_of(&name, "direct")
            };
            channel.call::<exchange::DeclareOk>(declare).map(drop)
        },
    ));
    cases.push(on_channel(
        "exchange.declare: amq.direct with another type is 406",
        |channel| {
            channel.refuses(
                406,
                exchange::Declare {
                    durable: true,
                    ..exchange_of("amq.direct", "topic")
                },
            )
        },
    ));
    cases.push(on_channel(
        "exchange.declare: an alternate-exchange that is no string is 406",
        |channel| {
            let arguments = table(&[("alternate-exchange", int(1))]);
            let name = channel.scope().name();
            channel.refuses(
                406,
                exchange::Declare {
                    arguments,
                    ..exchange_of(&name, "direct")
                },
            )
        },
    ));
    cases
}

fn deleting() -> Vec<Case> {
    vec![
        on_channel("exchange.delete: it is gone", |channel| {
            let name = channel.exchange("direct")?;
            channel.call::<exchange::DeleteOk>(deletion(&name))?;
            expect_eq("whether it is there", channel.has_exchange(&name)?, false)
        }),
        on_channel("exchange.delete: of a missing one is no error", |channel| {
            channel
                .call::<exchange::DeleteOk>(deletion("conformance-missing"))
                .map(drop)
        }),
        on_channel("exchange.delete: no-wait is not answered", |channel| {
            let name = channel.exchange("direct")?;
            channel.send(exchange::Delete {
                nowait: true,
                ..deletion(&name)
            })?;
            channel.is_quiet()?;
            expect_eq("whether it is there", channel.has_exchange(&name)?, false)
        }),
        on_channel(
            "exchange.delete: if-unused of one with a binding is 406",
            |channel| {
                let name = channel.exchange("direct")?;
                channel.bound(&name, "a")?;
                channel.refuses(
                    406,
                    exchange::Delete {
                        if_unused: true,
                        ..deletion(&name)
                    },
                )
            },
        ),
        on_channel(
            "exchange.delete: if-unused of one whose binding is gone",
            |channel| {
                let name = channel.exchange("direct")?;
                let queue = channel.bound(&name, "a")?;
                channel.unbind(&queue, &name, "a")?;
                channel
                    .call::<exchange::DeleteOk>(exchange::Delete {
                        if_unused: true,
                        ..deletion(&name)
                    })
                    .map(drop)
            },
        ),
        on_channel("exchange.delete: the default exchange is 403", |channel| {
            channel.refuses(403, deletion(""))
        }),
        on_channel("exchange.delete: amq.direct is 403", |channel| {
            channel.refuses(403, deletion("amq.direct"))
        }),
        on_channel("exchange.delete: what was bound to it stays", |channel| {
            let name = channel.exchange("fanout")?;
            let queue = channel.bound(&name, "")?;
            channel.publish(&name, "", "before")?;
            channel.call::<exchange::DeleteOk>(deletion(&name))?;
            expect_eq("the messages", channel.drain(&queue)?, ["before"])
        }),
        on_channel(
            "exchange.delete: a new one of the same name has no bindings",
            |channel| {
                let name = channel.exchange("fanout")?;
                let queue = channel.bound(&name, "")?;
                channel.call::<exchange::DeleteOk>(deletion(&name))?;
                channel.call::<exchange::DeclareOk>(exchange_of(&name, "fanout"))?;
                channel.publish(&name, "", "nobody gets it")?;
                expect_eq("the messages", channel.drain(&queue)?, Vec::<String>::new())
            },
        ),
        on_channel(
            "exchange.delete: publishing and binding to it afterwards are 404",
            |channel| {
                let name = channel.exchange("fanout")?;
                let queue = channel.queue()?;
                channel.call::<exchange::DeleteOk>(deletion(&name))?;
                channel.refuses(404, binding(&queue, &name, ""))?;
                channel.publish(&name, "", "x")?;
                channel.is_closed(404, basic::Publish::default().ids())?;
                channel
                    .call::<amq_protocol::protocol::queue::DeclareOk>(passive(&queue))
                    .map(drop)
            },
        ),
    ]
}
