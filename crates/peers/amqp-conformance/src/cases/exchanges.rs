//! exchange.declare and exchange.delete.

use super::*;

const TYPES: [&str; 4] = ["direct", "fanout", "topic", "headers"];
const PREDECLARED: [(&str, &str); 5] = [
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
];

type Change = fn(&mut exchange::Declare);

pub(super) fn cases(case: Begin<'_>) {
    declaring(case);
    equivalence(case);
    deleting(case);
}

fn declaring(case: Begin<'_>) {
    case("exchange.declare: a name loses its line breaks, in delete too").on_channel(|channel| {
        let name = channel.scope().name();
        let broken = format!("{}\r\n{}", &name[..3], &name[3..]);
        channel.call(exchange_of(&broken, "fanout"))?;
        ensure!(channel.has_exchange(&name)?, "{name} does not exist");
        channel.bind_exchange(&broken, "amq.topic\n", "#")?;
        channel.call(exchange_deletion(&broken))?;
        ensure!(!channel.has_exchange(&name)?, "{name} exists");
        Ok(())
    });
    case("exchange.declare: passive of a missing one is 404").on_channel(|channel| {
        let ask =
            exchange_of("conformance-missing", "direct").with(|declare| declare.passive = true);
        channel.refuses(404, ask)
    });
    case("exchange.declare: passive looks at nothing but the name").on_channel(|channel| {
        let name = channel.exchange("topic")?;
        let ask = exchange::Declare {
            passive: true,
            durable: true,
            ..exchange_of(&name, "direct")
        };
        channel.call(ask)
    });
    case("exchange.declare: the default exchange is 403").refused(403, exchange_of("", "direct"));
    case("exchange.declare: a new name with amq. is 403")
        .refused(403, exchange_of("amq.conformance", "direct"));
    for (what, kind) in [("an unknown type", "conformance"), ("an empty type", "")] {
        case(&format!("exchange.declare: {what} is 503")).on_broker(move |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            connection.breaks_on(channel.id, 503, exchange_of(&scope.name(), kind))
        });
    }
    case("exchange.declare: no-wait is not answered").on_channel(|channel| {
        let name = channel.scope().name();
        channel.send(exchange_of(&name, "fanout").with(|declare| declare.nowait = true))?;
        channel.is_quiet()?;
        expect_eq("whether it is there", channel.has_exchange(&name)?, true)
    });
    case("exchange.declare: no-wait of something impossible is refused").refused(
        403,
        exchange_of("amq.conformance", "direct").with(|declare| declare.nowait = true),
    );
    case("exchange.declare: a name of 255 bytes").on_channel(|channel| {
        let name = format!("{:x<255}", channel.scope().name());
        channel.call(exchange_of(&name, "direct"))?;
        channel.call(exchange_deletion(&name))
    });
    case("exchange.declare: durable and auto-delete together").on_channel(|channel| {
        channel.exchange_with("direct", |declare| {
            declare.durable = true;
            declare.auto_delete = true;
        })
    });
    case("exchange.declare: publishing to an internal one is 403").on_channel(|channel| {
        let name = channel.exchange_with("fanout", |declare| declare.internal = true)?;
        channel.publish(&name, "", "x")?;
        channel.refused_publish(403)
    });
    case("exchange.declare: an auto-delete one is gone with its last binding").on_channel(
        |channel| {
            let name = channel.exchange_with("direct", |declare| declare.auto_delete = true)?;
            let queue = channel.bound(&name, "a")?;
            channel.bind(&queue, &name, "b")?;
            channel.unbind(&queue, &name, "a")?;
            expect_eq("with one binding", channel.has_exchange(&name)?, true)?;
            channel.unbind(&queue, &name, "b")?;
            expect_eq("with none", channel.has_exchange(&name)?, false)
        },
    );
    case("exchange.declare: an auto-delete one is gone with the queue of its last binding")
        .on_channel(|channel| {
            let name = channel.exchange_with("fanout", |declare| declare.auto_delete = true)?;
            let queue = channel.bound(&name, "")?;
            channel.call(deletion(&queue))?;
            expect_eq("whether it is there", channel.has_exchange(&name)?, false)
        });
    case("exchange.declare: an auto-delete one that was never bound stays").on_channel(|channel| {
        let name = channel.exchange_with("fanout", |declare| declare.auto_delete = true)?;
        expect_eq("whether it is there", channel.has_exchange(&name)?, true)
    });
    case("exchange.declare: it lives on without its connection").on_channel(|channel| {
        let apart = channel.scope().connect()?;
        let name = apart.channel()?.exchange("direct")?;
        apart.close()?;
        expect_eq("whether it is there", channel.has_exchange(&name)?, true)
    });
    for kind in TYPES {
        let name = format!("exchange.declare: type {kind}, twice the same");
        case(&name).on_channel(move |channel| {
            let name = channel.exchange(kind)?;
            channel.call(exchange_of(&name, kind)).map(drop)
        });
    }
    for (name, kind) in PREDECLARED {
        let what = format!("exchange.declare: {name} is there, durable, of type {kind}");
        case(&what).on_channel(move |channel| {
            let declare = exchange_of(name, kind).with(|declare| declare.durable = true);
            channel.call(declare).map(drop)
        });
    }
}

fn equivalence(case: Begin<'_>) {
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
    for (what, change) in other {
        let name = format!("exchange.declare: again with another {what} is 406");
        case(&name).on_channel(move |channel| {
            let name = channel.exchange("direct")?;
            let mut declare = exchange_of(&name, "direct");
            change(&mut declare);
            channel.refuses(406, declare)
        });
    }
    case("exchange.declare: again without its alternate-exchange is 406").on_channel(|channel| {
        let name = channel.exchange_with("direct", alternate_to("amq.fanout"))?;
        channel.refuses(406, exchange_of(&name, "direct"))
    });
    case("exchange.declare: again with an unknown argument is the same").on_channel(|channel| {
        let name = channel.exchange("direct")?;
        let arguments = table(&[("x-conformance", int(1))]);
        channel.call(exchange_of(&name, "direct").with(|declare| declare.arguments = arguments))
    });
    case("exchange.declare: amq.direct with another type is 406").on_channel(|channel| {
        let declare = exchange_of("amq.direct", "topic");
        channel.refuses(406, declare.with(|declare| declare.durable = true))
    });
    case("exchange.declare: an alternate-exchange that is no string is 406").on_channel(
        |channel| {
            let arguments = table(&[("alternate-exchange", int(1))]);
            let name = channel.scope().name();
            let declare = exchange_of(&name, "direct");
            channel.refuses(406, declare.with(|declare| declare.arguments = arguments))
        },
    );
}

fn deleting(case: Begin<'_>) {
    case("exchange.delete: it is gone").on_channel(|channel| {
        let name = channel.exchange("direct")?;
        channel.call(exchange_deletion(&name))?;
        expect_eq("whether it is there", channel.has_exchange(&name)?, false)
    });
    case("exchange.delete: of a missing one is no error")
        .on_channel(|channel| channel.call(exchange_deletion("conformance-missing")));
    case("exchange.delete: no-wait is not answered").on_channel(|channel| {
        let name = channel.exchange("direct")?;
        channel.send(exchange_deletion(&name).with(|delete| delete.nowait = true))?;
        channel.is_quiet()?;
        expect_eq("whether it is there", channel.has_exchange(&name)?, false)
    });
    case("exchange.delete: if-unused of one with a binding is 406").on_channel(|channel| {
        let name = channel.exchange("direct")?;
        channel.bound(&name, "a")?;
        channel.refuses(406, unused_deletion(&name))
    });
    case("exchange.delete: if-unused of one whose binding is gone").on_channel(|channel| {
        let name = channel.exchange("direct")?;
        let queue = channel.bound(&name, "a")?;
        channel.unbind(&queue, &name, "a")?;
        channel.call(unused_deletion(&name))
    });
    case("exchange.delete: the default exchange is 403").refused(403, exchange_deletion(""));
    case("exchange.delete: amq.direct is 403").refused(403, exchange_deletion("amq.direct"));
    case("exchange.delete: what was bound to it stays").on_channel(|channel| {
        let name = channel.exchange("fanout")?;
        let queue = channel.bound(&name, "")?;
        channel.publish(&name, "", "before")?;
        channel.call(exchange_deletion(&name))?;
        channel.yields(&queue, &["before"])
    });
    case("exchange.delete: a new one of the same name has no bindings").on_channel(|channel| {
        let name = channel.exchange("fanout")?;
        let queue = channel.bound(&name, "")?;
        channel.call(exchange_deletion(&name))?;
        channel.call(exchange_of(&name, "fanout"))?;
        channel.publish(&name, "", "nobody gets it")?;
        channel.yields(&queue, &[])
    });
    case("exchange.delete: publishing and binding to it afterwards are 404").on_channel(
        |channel| {
            let name = channel.exchange("fanout")?;
            let queue = channel.queue()?;
            channel.call(exchange_deletion(&name))?;
            channel.refuses(404, binding(&queue, &name, ""))?;
            channel.publish(&name, "", "x")?;
            channel.refused_publish(404)?;
            channel.call(passive(&queue))
        },
    );
}
