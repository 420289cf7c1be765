//! Sender-selected distribution: the routing keys in the headers `CC` and `BCC`.

use super::*;

fn keys(keys: &[&str]) -> AMQPValue {
    let keys: Vec<AMQPValue> = keys.iter().map(|key| text(key)).collect();
    AMQPValue::FieldArray(keys.into())
}

fn with(headers: &[(&str, AMQPValue)]) -> BasicProperties {
    BasicProperties::default().with_headers(table(headers))
}

pub(super) fn cases(case: Begin<'_>) {
    let refused = [
        ("CC", "a string", text("a")),
        ("CC", "a number", int(1)),
        ("BCC", "a string", text("a")),
    ];
    for (name, what, value) in refused {
        case(&format!("basic.publish: {name} that is {what} is 406")).on_channel(move |channel| {
            let properties = with(&[(name, value.clone())]);
            channel.publish_as("", "conformance-missing", &properties, "x")?;
            channel.refused_publish(406)
        });
    }
    case("basic.publish: CC and BCC go to their queues too, each once").on_channel(|channel| {
        let (own, open, blind) = (channel.queue()?, channel.queue()?, channel.queue()?);
        let properties = with(&[
            ("CC", keys(&[&open, &own])),
            ("BCC", keys(&[&blind, &open])),
        ]);
        channel.publish_as("", &own, &properties, "x")?;
        for queue in [&own, &open, &blind] {
            let message = channel.take(queue)?;
            expect_eq("the key", &message.routing_key, &own)?;
            expect_eq("the remaining messages", message.left, 0)?;
            let headers = message.properties().headers().clone().unwrap_or_default();
            ensure!(headers.contains_key("CC"), "the header CC is missing");
            ensure!(
                !headers.contains_key("BCC"),
                "the header BCC is still there"
            );
        }
        Ok(())
    });
    case("basic.publish: CC is matched by the exchange").on_channel(|channel| {
        for kind in ["direct", "topic"] {
            let exchange = channel.exchange(kind)?;
            let own = channel.bound(&exchange, "a.b")?;
            let copy = channel.bound(&exchange, "c.d")?;
            let properties = with(&[("CC", keys(&["c.d", "e.f"]))]);
            channel.publish_as(&exchange, "a.b", &properties, "x")?;
            channel.take(&own)?;
            channel.take(&copy)?;
            channel.publish(&exchange, "a.b", "y")?;
            expect_eq("without CC", channel.take(&own)?.body(), "y")?;
            expect_eq("the copies", channel.counts(&copy)?.0, 0)?;
        }
        Ok(())
    });
    case("basic.publish: CC counts at the second exchange too").on_channel(|channel| {
        let (first, second) = (channel.exchange("direct")?, channel.exchange("direct")?);
        channel.bind_exchange(&second, &first, "a")?;
        let copy = channel.bound(&second, "c")?;
        channel.publish_as(&first, "a", &with(&[("CC", keys(&["c"]))]), "x")?;
        expect_eq("the message", channel.take(&copy)?.body(), "x")
    });
    case("basic.publish: what is no text in CC does not count").on_channel(|channel| {
        let (own, copy) = (channel.queue()?, channel.queue()?);
        let mixed = AMQPValue::FieldArray(vec![int(1), text(&copy)].into());
        channel.publish_as("", &own, &with(&[("CC", mixed)]), "x")?;
        channel.take(&own)?;
        channel.take(&copy)
    });
    case("dead letters: CC goes on with a message, and is told in x-death").on_channel(|channel| {
        let (dead, copy) = (channel.queue()?, channel.queue()?);
        let dies = channel.queue_with(&[
            ("x-dead-letter-exchange", text("")),
            ("x-max-length", int(0)),
        ])?;
        let exchange = channel.exchange("fanout")?;
        channel.bind(&dies, &exchange, "")?;
        let properties = with(&[("CC", keys(&[&copy]))]);
        channel.publish_as(&exchange, &dead, &properties, "x")?;
        for queue in [&dead, &copy] {
            let deaths = dead_letters::deaths(&channel.take(queue)?)?;
            let told = deaths
                .first()
                .and_then(|death| death.inner().get("routing-keys"));
            expect_eq("routing-keys", told, Some(&keys(&[&dead, &copy])))?;
        }
        Ok(())
    });
}
