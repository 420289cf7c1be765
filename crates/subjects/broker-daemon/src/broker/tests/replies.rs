//! Direct replies, and messages with several routing keys.

use super::*;
use crate::incoming::REPLY_TO;

impl Stand {
    /// Fetches a message, and returns its properties.
    fn fetch(&mut self, id: ConnectionId, queue: &str) -> AMQPProperties {
        self.get(id, queue, true);
        let frames = self.frames(id);
        let header = frames.into_iter().find_map(|frame| match frame {
            AMQPFrame::Header(_, header) => Some(header.properties),
            _ => None,
        });
        header.expect("there is a message")
    }
}

fn copies(entries: &[(&str, &[&str])]) -> AMQPProperties {
    let array = |keys: &[&str]| {
        let keys: Vec<AMQPValue> = keys.iter().map(|key| text(key)).collect();
        AMQPValue::FieldArray(keys.into())
    };
    let entries: Vec<_> = entries
        .iter()
        .map(|(name, keys)| (*name, array(keys)))
        .collect();
    AMQPProperties::default().with_headers(table(&entries))
}

#[test]
fn a_channel_that_ends_takes_its_address_along() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.consume(id, REPLY_TO, "replies", true);
    stand.broker.disconnect(id);
    assert!(stand.broker.topology.replies.is_empty());
}

#[test]
fn copies_go_to_each_queue_once_and_the_blind_ones_are_not_shown() {
    let mut stand = Stand::new();
    let id = stand.client();
    for queue in ["a", "b", "c"] {
        stand.declare(id, queue, &[]);
    }
    // Also in a transaction, and with a rewritten reply address.
    stand.consume(id, REPLY_TO, "replies", true);
    stand.received(id);
    for in_tx in [false, true] {
        if in_tx {
            stand.method(id, 1, select_tx());
        }
        let properties = copies(&[("BCC", &["c", "b"]), ("CC", &["b", "nowhere"])]);
        let properties = properties.with_reply_to(REPLY_TO.into());
        stand.publish_as(id, ("", "a"), properties, b"m");
        if in_tx {
            stand.method(id, 1, commit());
        }
        stand.received(id);
        for queue in ["a", "b", "c"] {
            assert_eq!(stand.ready(id, queue), "queue.declare-ok 1 0", "{queue}");
            let seen = stand.fetch(id, queue);
            let headers = seen.headers().as_ref().unwrap();
            assert_eq!(headers.inner().len(), 1);
            assert!(headers.contains_key("CC"));
            assert_ne!(seen.reply_to().as_ref().unwrap().as_str(), REPLY_TO);
        }
        // The next one has the same address and no copies.
        stand.publish(id, "a", "m");
        if in_tx {
            stand.method(id, 1, roll_back());
        } else {
            stand.fetch(id, "a");
            assert_eq!(stand.ready(id, "b"), "queue.declare-ok 0 0");
        }
        stand.received(id);
    }
}

#[test]
fn a_dead_letter_goes_where_its_copies_go_unless_it_has_another_key() {
    for (own_key, expected) in [(false, ["1", "1", "0"]), (true, ["0", "0", "1"])] {
        let mut stand = Stand::new();
        let id = stand.client();
        for queue in ["k", "copy", "dead"] {
            stand.declare(id, queue, &[]);
        }
        let mut arguments = vec![
            ("x-dead-letter-exchange", text("")),
            ("x-max-length", AMQPValue::LongInt(0)),
        ];
        if own_key {
            arguments.push(("x-dead-letter-routing-key", text("dead")));
        }
        stand.declare(id, "dies", &arguments);
        stand.run(id, bind("dies", "amq.fanout", ""));
        stand.publish_as(id, ("amq.fanout", "k"), copies(&[("CC", &["copy"])]), b"m");
        for (queue, count) in ["k", "copy", "dead"].into_iter().zip(expected) {
            let ready = stand.ready(id, queue);
            assert_eq!(ready, format!("queue.declare-ok {count} 0"), "{queue}");
        }
    }
}

#[test]
fn a_copy_counts_at_every_exchange_and_its_route_spares_the_alternate() {
    let mut stand = Stand::new();
    let id = stand.client();
    for queue in ["own", "copy", "alternate"] {
        stand.declare(id, queue, &[]);
    }
    let alternate = table(&[("alternate-exchange", text("unrouted"))]);
    for method in [
        declare_exchange("unrouted", "fanout", |_| ()),
        declare_exchange("first", "direct", |declare| declare.arguments = alternate),
        declare_exchange("second", "direct", |_| ()),
        bind_exchange("second", "first", "a"),
        bind("own", "second", "own"),
        bind("copy", "second", "copy"),
        bind("alternate", "unrouted", ""),
    ] {
        stand.run(id, method);
    }
    // One of the keys leads from the first exchange to the second, and another one from there to a queue.
    stand.publish_as(id, ("first", "a"), copies(&[("CC", &["copy"])]), b"m");
    stand.publish_as(id, ("first", "own"), copies(&[("BCC", &["a"])]), b"m");
    for (queue, count) in [("own", 1), ("copy", 1), ("alternate", 0)] {
        let expected = format!("queue.declare-ok {count} 0");
        assert_eq!(stand.ready(id, queue), expected, "{queue}");
    }
}
