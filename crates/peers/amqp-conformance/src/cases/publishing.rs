//! basic.publish and basic.return.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    case("basic.publish: through the default exchange to a queue by its name").on_channel(
        |channel| {
            let queue = channel.queue_of(&["x"])?;
            channel.take(&queue)?.was_routed_by("", &queue)
        },
    );
    case("basic.publish: through the default exchange to nobody").on_channel(|channel| {
        channel.publish("", "conformance-missing", "x")?;
        channel.is_quiet()
    });
    case("basic.publish: to a missing exchange is 404").on_channel(|channel| {
        channel.publish("conformance-missing", "a", "x")?;
        channel.refused_publish(404)
    });
    case("basic.publish: to a missing exchange, with an empty body, is 404").on_channel(
        |channel| {
            channel.publish("conformance-missing", "a", "")?;
            channel.refused_publish(404)
        },
    );
    case("basic.publish: to a missing exchange is 404 for all that follows too").on_channel(
        |channel| {
            let queue = channel.queue_of(&["before"])?;
            channel.publish("conformance-missing", "a", "x")?;
            channel.publish("", &queue, "after")?;
            channel.refused_publish(404)?;
            channel.yields(&queue, &["before"])
        },
    );
    case("basic.publish: unroutable and not mandatory is nothing").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        channel.publish(&exchange, "a", "x")?;
        channel.is_quiet()
    });
    case("basic.publish: a routing key of 255 bytes").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        let key = "k".repeat(255);
        let queue = channel.bound(&exchange, &key)?;
        channel.publish(&exchange, &key, "x")?;
        expect_eq("the key", channel.take(&queue)?.routing_key, key)
    });
    case("basic.publish: 1,000 in order").on_channel(|channel| {
        let queue = channel.queue()?;
        let bodies: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        for body in &bodies {
            channel.publish("", &queue, body)?;
        }
        channel.holds(&queue, 1000)?;
        let is_ordered = channel.drain(&queue)? == bodies;
        expect_eq("whether they are in order", is_ordered, true)
    });
    case("basic.publish: one message to three queues").on_channel(|channel| {
        let exchange = channel.exchange("fanout")?;
        let queues = [(); 3].map(|()| channel.bound(&exchange, ""));
        channel.publish(&exchange, "key", "x")?;
        for queue in queues {
            expect_eq("the message", channel.take(&queue?)?.routing_key, "key")?;
        }
        Ok(())
    });
    case("basic.publish: a user-id that is not one's own is 406").on_channel(|channel| {
        let queue = channel.queue()?;
        let properties = BasicProperties::default().with_user_id("conformance".into());
        channel.publish_as("", &queue, &properties, "x")?;
        channel.refused_publish(406)
    });
    case("basic.publish: immediate is 540").breaks(540, |channel| {
        let queue = channel.queue()?;
        let publish = to_queue(&queue).with(|publish| publish.immediate = true);
        channel.send_content(publish, &BasicProperties::default(), b"x")
    });
    case("basic.return: mandatory and unroutable is 312, with everything").on_channel(|channel| {
        let exchange = channel.exchange("direct")?;
        let properties = BasicProperties::default()
            .with_message_id("m".into())
            .with_headers(table(&[("key", text("value"))]));
        let publish = publishing(&exchange, "nobody").with(|publish| publish.mandatory = true);
        channel.send_content(publish, &properties, b"body")?;
        let (returned, content) = channel.returned()?;
        expect_eq("the reply text", returned.reply_text.as_str(), "NO_ROUTE")?;
        let whereto = (returned.exchange.as_str(), returned.routing_key.as_str());
        expect_eq("exchange and key", whereto, (exchange.as_str(), "nobody"))?;
        expect_eq("the properties", content.properties, properties)?;
        expect_eq("the body", content.body, b"body")
    });
    case("basic.return: through the default exchange").on_channel(|channel| {
        channel.publish_mandatory("", "conformance-missing", "x")?;
        channel.returned()
    });
    case("basic.return: an empty body").on_channel(|channel| {
        channel.publish_mandatory("", "conformance-missing", "")?;
        expect_eq("the body", channel.returned()?.1.body, b"")
    });
    case("basic.return: a body of several frames").on_channel(|channel| {
        channel.publish_mandatory("", "conformance-missing", &"x".repeat(300_000))?;
        expect_eq("its length", channel.returned()?.1.body.len(), 300_000)
    });
    case("basic.return: mandatory that is routed is not returned").on_channel(|channel| {
        let queue = channel.queue()?;
        channel.publish_mandatory("", &queue, "x")?;
        channel.yields(&queue, &["x"])?;
        channel.is_quiet()
    });
    case("basic.return: each of several, in order").on_channel(|channel| {
        for body in ["a", "b", "c"] {
            channel.publish_mandatory("", "conformance-missing", body)?;
        }
        for body in ["a", "b", "c"] {
            expect_eq("the body", channel.returned()?.1.body, body.as_bytes())?;
        }
        Ok(())
    });
    case("basic.return: mandatory to a missing exchange is 404 all the same").on_channel(
        |channel| {
            channel.publish_mandatory("conformance-missing", "a", "x")?;
            channel.refused_publish(404)
        },
    );
    case("basic.publish: a channel that was closed for one still serves its queues").on_channel(
        |channel| {
            let queue = channel.queue_of(&["x"])?;
            channel.publish("conformance-missing", "a", "x")?;
            channel.refused_publish(404)?;
            channel.call(passive(&queue))
        },
    );
}
