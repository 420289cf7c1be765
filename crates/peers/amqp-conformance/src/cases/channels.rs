//! Class channel: open, close, use after an error, flow.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    case("channel.open: any number, in any order").on_connection(|connection| {
        for id in [7, 3, 2000, 1] {
            connection.channel_of(id)?;
        }
        connection.unopened(3).call(basic::Qos::default())
    });
    case("channel.close: the number can be used again").on_connection(|connection| {
        for _ in 0..5 {
            connection.channel_of(9)?.close()?;
        }
        Ok(())
    });
    case("channel.close: 100 channels opened and closed").on_connection(|connection| {
        let channels = (1..=100).map(|id| connection.channel_of(id));
        for channel in channels.collect::<anyhow::Result<Vec<_>>>()? {
            channel.close()?;
        }
        Ok(())
    });
    case("channel.open: a second time is 504").fatal(504, channel::Open {});
    case("channel.open: on channel 0 is 504")
        .on_broker(|scope| scope.connect()?.breaks_on(0, 504, channel::Open {}));
    case("channel.close: of a channel that is not open is 504").on_broker(|scope| {
        let connection = scope.connect()?;
        connection.breaks_on(5, 504, channel::Close::default())
    });
    case("channel.close-ok: out of the blue is 503").fatal(503, channel::CloseOk {});
    case("channel: a method on one that is not open is 504")
        .on_broker(|scope| scope.connect()?.breaks_on(4, 504, named("")));
    case("channel: a method after close-ok is 504").on_broker(|scope| {
        let connection = scope.connect()?;
        let channel = connection.channel()?;
        channel.close()?;
        connection.breaks_on(channel.id, 504, queue::Declare::default())
    });
    case("channel: publishing on one that is not open is 504").on_broker(|scope| {
        let connection = scope.connect()?;
        connection.unopened(4).publish("", "nowhere", "x")?;
        connection.breaks(504)
    });
    case("channel: between its error and close-ok everything is passed over").on_channel(
        |channel| {
            channel.send(passive("conformance-missing"))?;
            let name = channel.scope().name();
            channel.send(named(&name))?;
            channel.publish("conformance-missing", "", "x")?;
            channel.is_closed(404, passive("").ids())?;
            expect_eq("whether it is there", channel.has_queue(&name)?, false)
        },
    );
    case("channel: an error on one leaves the others alone").on_channels(|channel, other| {
        let queue = other.queue()?;
        other.consume(&queue)?;
        channel.refuses(404, passive("conformance-missing"))?;
        other.publish("", &queue, "still there")?;
        other.delivers("still there")
    });
    case("channel: an error on one gives its unacknowledged messages back").on_channels(
        |channel, other| {
            let queue = channel.queue_of(&["again"])?;
            expect_eq("the message", channel.got(&queue)?.body(), "again")?;
            channel.refuses(404, passive("conformance-missing"))?;
            other.take(&queue)?.is_again("again")
        },
    );
    case("channel.close: unacknowledged messages go back, with redelivered").on_connection(
        |connection| {
            let (channel, other) = (connection.channel()?, connection.channel()?);
            let queue = other.queue_of(&["again"])?;
            channel.consume(&queue)?;
            expect_eq("the first time", channel.delivery()?.redelivered, false)?;
            channel.close()?;
            expect_eq("the second time", other.take(&queue)?.redelivered, true)
        },
    );
    case("channel.close: its consumers are gone").on_connection(|connection| {
        let (channel, other) = (connection.channel()?, connection.channel()?);
        let queue = other.queue()?;
        channel.consume(&queue)?;
        other.has_consumers(&queue, 1)?;
        channel.close()?;
        other.has_consumers(&queue, 0)
    });
    case("channel.flow: active is answered").on_channel(|channel| {
        let flow = channel.call(channel::Flow { active: true })?;
        expect_eq("active", flow.active, true)
    });
    case("channel.flow: not active is 540").fatal(540, channel::Flow { active: false });
    case("channel: answers come in the order of the methods").on_channel(|channel| {
        channel.send(queue::Declare::default().with(|declare| declare.exclusive = true))?;
        channel.send(exchange_of("amq.direct", "").with(|declare| declare.passive = true))?;
        channel.send(basic::Qos::default())?;
        channel.answer::<queue::DeclareOk>()?;
        channel.answer::<exchange::DeclareOk>()?;
        channel.answer::<basic::QosOk>()
    });
}
