//! alternate-exchange: the route of messages that an exchange does not route itself.

use amq_protocol::protocol::basic;

use crate::case::{Case, on_channel};
use crate::client::expect_eq;
use crate::values::{table, text};

pub(super) fn cases() -> Vec<Case> {
    vec![
        on_channel(
            "alternate-exchange: gets what is not routed, and nothing else",
            |channel| {
                let alternate = channel.exchange("fanout")?;
                let name = channel
                    .exchange_with("direct", table(&[("alternate-exchange", text(&alternate))]))?;
                let (usual, other) = (channel.bound(&name, "a")?, channel.bound(&alternate, "")?);
                channel.publish(&name, "a", "routed")?;
                channel.publish(&name, "b", "not routed")?;
                expect_eq("the usual queue", channel.drain(&usual)?, ["routed"])?;
                let message = channel.take(&other)?;
                expect_eq("the other queue", message.body(), "not routed")?;
                expect_eq("its exchange", message.exchange, name)?;
                expect_eq("its routing key", message.routing_key, "b")
            },
        ),
        on_channel(
            "alternate-exchange: a missing one swallows messages",
            |channel| {
                let name = channel.exchange_with(
                    "direct",
                    table(&[("alternate-exchange", text("conformance-missing"))]),
                )?;
                channel.publish(&name, "a", "x")?;
                channel.is_quiet()
            },
        ),
        on_channel("alternate-exchange: mandatory is met by it", |channel| {
            let alternate = channel.exchange("fanout")?;
            let name = channel
                .exchange_with("direct", table(&[("alternate-exchange", text(&alternate))]))?;
            let queue = channel.bound(&alternate, "")?;
            let publish = basic::Publish {
                exchange: name.into(),
                mandatory: true,
                ..basic::Publish::default()
            };
            channel.send_content(publish, &Default::default(), b"x")?;
            expect_eq("the messages", channel.drain(&queue)?, ["x"])?;
            channel.is_quiet()
        }),
        on_channel("alternate-exchange: one of one", |channel| {
            let last = channel.exchange("fanout")?;
            let middle =
                channel.exchange_with("direct", table(&[("alternate-exchange", text(&last))]))?;
            let first =
                channel.exchange_with("direct", table(&[("alternate-exchange", text(&middle))]))?;
            let queue = channel.bound(&last, "")?;
            channel.publish(&first, "a", "x")?;
            expect_eq("the messages", channel.drain(&queue)?, ["x"])
        }),
    ]
}
