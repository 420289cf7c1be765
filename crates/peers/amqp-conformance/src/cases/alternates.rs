//! alternate-exchange: the route of messages that an exchange does not route itself.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    case("alternate-exchange: gets what is not routed, and nothing else").on_channel(|channel| {
        let alternate = channel.exchange("fanout")?;
        let name = channel.exchange_with("direct", alternate_to(&alternate))?;
        let (usual, other) = (channel.bound(&name, "a")?, channel.bound(&alternate, "")?);
        channel.publish(&name, "a", "routed")?;
        channel.publish(&name, "b", "not routed")?;
        expect_eq("the usual queue", channel.drain(&usual)?, ["routed"])?;
        let message = channel.take(&other)?;
        expect_eq("the other queue", message.body(), "not routed")?;
        expect_eq("its exchange", message.exchange, name)?;
        expect_eq("its routing key", message.routing_key, "b")
    });
    case("alternate-exchange: a missing one swallows messages").on_channel(|channel| {
        let name = channel.exchange_with("direct", alternate_to("conformance-missing"))?;
        channel.publish(&name, "a", "x")?;
        channel.is_quiet()
    });
    case("alternate-exchange: mandatory is met by it").on_channel(|channel| {
        let alternate = channel.exchange("fanout")?;
        let name = channel.exchange_with("direct", alternate_to(&alternate))?;
        let queue = channel.bound(&alternate, "")?;
        channel.publish_mandatory(&name, "", "x")?;
        channel.yields(&queue, &["x"])?;
        channel.is_quiet()
    });
    case("alternate-exchange: one of one").on_channel(|channel| {
        let last = channel.exchange("fanout")?;
        let middle = channel.exchange_with("direct", alternate_to(&last))?;
        let first = channel.exchange_with("direct", alternate_to(&middle))?;
        let queue = channel.bound(&last, "")?;
        channel.publish(&first, "a", "x")?;
        channel.yields(&queue, &["x"])
    });
}
