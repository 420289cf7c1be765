//! queue.declare: names, passive declarations, and equality with an earlier declaration.

use super::*;

type Change = fn(&mut queue::Declare);

pub(super) fn cases(case: Begin<'_>) {
    declaring(case);
    equivalence(case);
}

fn declaring(case: Begin<'_>) {
    case("queue.declare: names from the broker begin with amq.gen- and differ").on_channel(
        |channel| {
            let (first, second) = (channel.queue()?, channel.queue()?);
            let is_generated = first.starts_with("amq.gen-");
            ensure!(is_generated, "the generated name is {first:?}");
            ensure!(first != second, "both names are {first:?}");
            Ok(())
        },
    );
    case("queue.declare: a name loses its line breaks, in bind and delete too").on_channel(
        |channel| {
            let name = channel.scope().name();
            let broken = format!("\r{}\n{}\r\n", &name[..3], &name[3..]);
            let declared = channel.call(named(&broken))?;
            expect_eq("the name", declared.queue.as_str(), name.as_str())?;
            channel.call(named(&name))?;
            channel.call(passive(&broken))?;
            channel.bind(&broken, "amq.\ndirect", &broken)?;
            channel.publish("amq.direct", &broken, "x")?;
            expect_eq("the message", channel.take(&name)?.body(), "x")?;
            channel.unbind(&broken, "amq.direct\r", &broken)?;
            channel.call(deletion(&broken))?;
            ensure!(!channel.has_queue(&name)?, "the queue exists");
            Ok(())
        },
    );
    case("queue.declare: line breaks alone are no name").on_channel(|channel| {
        let declared = channel.call(named("\r\n").with(|declare| declare.exclusive = true))?;
        let name = declared.queue.as_str();
        let is_generated = name.starts_with("amq.gen-");
        ensure!(is_generated, "the generated name is {name:?}");
        Ok(())
    });
    case("queue.purge: a name keeps its line breaks").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.refuses(404, purging(&format!("{queue}\n")))
    });
    case("queue.declare: answers with the name and two zeros").on_channel(|channel| {
        let name = channel.scope().name();
        let declared = channel.call(named(&name))?;
        let counts = (declared.message_count, declared.consumer_count);
        expect_eq(
            "the answer",
            (declared.queue.as_str(), counts),
            (&*name, (0, 0)),
        )
    });
    case("queue.declare: passive counts messages and consumers").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.qos(1, false)?;
        channel.consume(&queue)?;
        channel.consume(&queue)?;
        channel.publish_all(&queue, &["a", "b", "c", "d", "e"])?;
        channel.deliveries(2)?;
        channel.holds(&queue, 3)?;
        channel.has_consumers(&queue, 2)
    });
    case("queue.declare: passive of a missing one is 404")
        .refused(404, passive("conformance-missing"));
    case("queue.declare: passive looks at nothing but the name").on_channel(|channel| {
        let name = channel.shared_queue()?;
        channel.call(passive(&name).with(|declare| {
            declare.durable = true;
            declare.auto_delete = true;
        }))
    });
    case("queue.declare: a new name with amq. is 403").refused(403, named("amq.conformance"));
    case("queue.declare: no-wait is not answered").on_channel(|channel| {
        let name = channel.scope().name();
        channel.send(named(&name).with(|declare| declare.nowait = true))?;
        channel.is_quiet()?;
        channel.holds(&name, 0)
    });
    case("queue.declare: no-wait of something impossible is refused").refused(
        403,
        named("amq.conformance").with(|declare| declare.nowait = true),
    );
    case("queue.declare: twice the same, with what it holds").on_channel(|channel| {
        let name = channel.shared_queue()?;
        channel.publish("", &name, "x")?;
        channel.call(named(&name))?;
        // The counts of an answer may lag behind the publishes.
        channel.eventually("a message", || {
            Ok((channel.call(named(&name))?.message_count == 1).then_some(()))
        })
    });
    case("queue.declare: a name of 255 bytes").on_channel(|channel| {
        let name = format!("{:x<255}", channel.scope().name());
        let declared = channel.call(named(&name))?;
        expect_eq("the answer", declared.queue.as_str(), name.as_str())?;
        channel.publish("", &name, "x")?;
        expect_eq(
            "its messages",
            channel.call(deletion(&name))?.message_count,
            1,
        )
    });
    case("queue.declare: a name beyond ASCII").on_channel(|channel| {
        let name = format!("{}-äöü-☃", channel.scope().name());
        channel.call(named(&name).with(|declare| declare.exclusive = true))?;
        channel.publish("", &name, "x")?;
        channel.yields(&name, &["x"])
    });
    case("queue.declare: names differ by case").on_channel(|channel| {
        let name = channel.shared_queue()?;
        channel.refuses(404, passive(&name.to_uppercase()))
    });
}

fn equivalence(case: Begin<'_>) {
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
    for (what, change) in other {
        let name = format!("queue.declare: again with another {what} is 406");
        case(&name).on_channel(move |channel| {
            let name = channel.shared_queue()?;
            let mut declare = named(&name);
            change(&mut declare);
            channel.refuses(406, declare)
        });
    }
    case("queue.declare: again as exclusive is 405").on_channel(|channel| {
        let name = channel.shared_queue()?;
        channel.refuses(405, named(&name).with(|declare| declare.exclusive = true))
    });
    case("queue.declare: an exclusive one again as not exclusive is 405").on_channel(|channel| {
        let name = channel.declare(|declare| declare.exclusive = true)?;
        channel.refuses(405, named(&name))
    });
    case("queue.declare: a durable one again as not durable is 406").on_channel(|channel| {
        let name = channel.declare(|declare| declare.durable = true)?;
        channel.refuses(406, named(&name))
    });
}
