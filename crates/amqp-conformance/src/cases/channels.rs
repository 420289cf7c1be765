//! Class channel: open, close, use after an error, flow.

use amq_protocol::protocol::{basic, channel, exchange, queue};

use crate::case::{Case, case, on_channel, on_connection};
use crate::client::{expect_eq, passive};
use crate::method::Method as _;

pub(super) fn cases() -> Vec<Case> {
    vec![
        on_connection("channel.open: any number, in any order", |connection| {
            for id in [7, 3, 2000, 1] {
                connection.channel_of(id)?;
            }
            connection
                .unopened(3)
                .call::<basic::QosOk>(basic::Qos::default())
                .map(drop)
        }),
        on_connection(
            "channel.close: the number can be used again",
            |connection| {
                for _ in 0..5 {
                    connection.channel_of(9)?.close()?;
                }
                Ok(())
            },
        ),
        on_connection(
            "channel.close: 100 channels opened and closed",
            |connection| {
                let channels = (1..=100).map(|id| connection.channel_of(id));
                for channel in channels.collect::<anyhow::Result<Vec<_>>>()? {
                    channel.close()?;
                }
                Ok(())
            },
        ),
        case("channel.open: a second time is 504", |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            connection.breaks_on(channel.id, 504, channel::Open {})
        }),
        case("channel.open: on channel 0 is 504", |scope| {
            scope.connect()?.breaks_on(0, 504, channel::Open {})
        }),
        case(
            "channel.close: of a channel that is not open is 504",
            |scope| {
                scope
                    .connect()?
                    .breaks_on(5, 504, channel::Close::default())
            },
        ),
        case("channel.close-ok: out of the blue is 503", |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            connection.breaks_on(channel.id, 503, channel::CloseOk {})
        }),
        case(
            "channel: a method on one that is not open is 504",
            |scope| {
                scope
                    .connect()?
                    .breaks_on(4, 504, queue::Declare::default())
            },
        ),
        case("channel: a method after close-ok is 504", |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            channel.close()?;
            connection.breaks_on(channel.id, 504, queue::Declare::default())
        }),
        case(
            "channel: publishing on one that is not open is 504",
            |scope| {
                let connection = scope.connect()?;
                connection.unopened(4).publish("", "nowhere", "x")?;
                connection.breaks(504).map(drop)
            },
        ),
        on_channel(
            "channel: between its error and close-ok everything is passed over",
            |channel| {
                channel.send(passive("conformance-missing"))?;
                let name = channel.scope().name();
                channel.send(queue::Declare {
                    queue: name.as_str().into(),
                    ..queue::Declare::default()
                })?;
                channel.publish("conformance-missing", "", "x")?;
                channel.is_closed(404, passive("").ids())?;
                expect_eq(
                    "whether the queue is there",
                    channel.has_queue(&name)?,
                    false,
                )
            },
        ),
        on_channel(
            "channel: an error on one leaves the others alone",
            |channel| {
                let other = channel.connection.channel()?;
                let queue = other.queue()?;
                other.consume(&queue)?;
                channel.refuses(404, passive("conformance-missing"))?;
                other.publish("", &queue, "still there")?;
                expect_eq("the delivery", other.delivery()?.body(), "still there")
            },
        ),
        on_channel(
            "channel: an error on one gives its unacknowledged messages back",
            |channel| {
                let other = channel.connection.channel()?;
                let queue = channel.queue()?;
                channel.publish("", &queue, "again")?;
                expect_eq(
                    "the message",
                    channel.get(&queue)?.map(|got| got.body()),
                    Some("again".to_owned()),
                )?;
                channel.refuses(404, passive("conformance-missing"))?;
                let again = other.take(&queue)?;
                expect_eq(
                    "body and redelivered",
                    (again.body().as_str(), again.redelivered),
                    ("again", true),
                )
            },
        ),
        on_connection(
            "channel.close: unacknowledged messages go back, with redelivered",
            |connection| {
                let (channel, other) = (connection.channel()?, connection.channel()?);
                let queue = other.queue()?;
                other.publish("", &queue, "again")?;
                channel.consume(&queue)?;
                expect_eq("the first time", channel.delivery()?.redelivered, false)?;
                channel.close()?;
                expect_eq("the second time", other.take(&queue)?.redelivered, true)
            },
        ),
        on_connection("channel.close: its consumers are gone", |connection| {
            let (channel, other) = (connection.channel()?, connection.channel()?);
            let queue = other.queue()?;
            channel.consume(&queue)?;
            expect_eq("consumers before", other.counts(&queue)?.1, 1)?;
            channel.close()?;
            expect_eq("consumers after", other.counts(&queue)?.1, 0)
        }),
        on_channel("channel.flow: active is answered", |channel| {
            let flow: channel::FlowOk = channel.call(channel::Flow { active: true })?;
            expect_eq("active", flow.active, true)
        }),
        case("channel.flow: not active is 540", |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            connection.breaks_on(channel.id, 540, channel::Flow { active: false })
        }),
        on_channel(
            "channel: answers come in the order of the methods",
            |channel| {
                channel.send(queue::Declare {
                    exclusive: true,
                    ..queue::Declare::default()
                })?;
                channel.send(exchange::Declare {
                    exchange: "amq.direct".into(),
                    passive: true,
                    ..exchange::Declare::default()
                })?;
                channel.send(basic::Qos::default())?;
                channel.answer::<queue::DeclareOk>()?;
                channel.answer::<exchange::DeclareOk>()?;
                channel.answer::<basic::QosOk>().map(drop)
            },
        ),
    ]
}
