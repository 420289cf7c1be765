//! The choice among consumers, and their acknowledgements.

use proptest::prelude::*;

use super::*;

impl Stand {
    fn consume_first(&mut self, id: ConnectionId, tag: &str, priority: i32) {
        let consume = basic::Consume {
            queue: "q".into(),
            consumer_tag: tag.into(),
            arguments: table(&[("x-priority", AMQPValue::LongInt(priority))]),
            ..basic::Consume::default()
        };
        self.basic(id, Basic::Consume(consume));
    }
}

#[test]
fn a_single_active_consumer_is_followed_by_the_first_of_the_highest_priority() {
    let mut stand = Stand::new();
    let id = stand.client();
    let single = [("x-single-active-consumer", AMQPValue::Boolean(true))];
    stand.declare(id, "q", &single);
    // The first consumer stays active, whatever priorities come later.
    stand.consume(id, "q", "first", false);
    stand.consume(id, "q", "second", false);
    stand.consume_first(id, "important", 5);
    stand.consume_first(id, "late", 5);
    stand.received(id);
    for _ in 0..3 {
        stand.publish(id, "q", "m");
    }
    assert_eq!(stand.received(id), ["first 1 m", "first 2 m", "first 3 m"]);
    stand.cancel(id, "second");
    stand.cancel(id, "first");
    stand.publish(id, "q", "m");
    assert_eq!(stand.received(id), ["important 4 m"]);
    stand.cancel(id, "important");
    stand.publish(id, "q", "m");
    assert_eq!(stand.received(id), ["late 5 m"]);
    // A closed channel removes its consumers, and their messages go to the next one.
    let other = stand.client();
    stand.consume(other, "q", "other", true);
    stand.received(other);
    stand.broker.disconnect(id);
    assert_eq!(stand.received(other).len(), 5);
}

#[test]
fn a_consumer_whose_connection_is_missing_gets_nothing_and_the_message_stays() {
    let mut stand = Stand::new();
    let (id, missing) = (stand.client(), stand.client());
    stand.declare(id, "q", &[]);
    stand.consume(missing, "q", "c", false);
    stand.broker.connections.remove(missing);
    stand.publish(id, "q", "m");
    assert_eq!(stand.ready(id, "q"), "queue.declare-ok 1 1");
}

#[test]
fn a_method_on_a_missing_channel_is_an_error_of_its_connection() {
    let mut stand = Stand::new();
    let id = ChannelId::new(stand.client(), 2);
    assert_eq!(stand.broker.tx_select(id).unwrap_err().code, 541);
}

/// Returns what a client with eight deliveries receives after these acknowledgements, and the deliveries that are not
/// settled. Each slice is a read.
fn acknowledge<'a>(reads: impl Iterator<Item = &'a [u64]>) -> (Vec<String>, Vec<u64>) {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    stand.consume(id, "q", "c", false);
    for _ in 0..8 {
        stand.publish(id, "q", "m");
    }
    stand.received(id);
    for tags in reads {
        let ack = |tag: &u64| {
            let ack = basic::Ack {
                delivery_tag: *tag,
                multiple: false,
            };
            encode(&AMQPFrame::Method(1, AMQPClass::Basic(Basic::Ack(ack))))
        };
        let frames: Vec<u8> = tags.iter().flat_map(ack).collect();
        stand.read(id, &frames);
    }
    let unsettled = stand.connection(id).channels().flat_map(Channel::unsettled);
    let unsettled = unsettled.map(|delivered| delivered.tag).collect();
    (stand.received(id), unsettled)
}

proptest! {
    #[test]
    fn acknowledgements_of_one_read_have_the_effect_of_single_ones(runs in prop::collection::vec((1u64..7, 1u64..6), 2..6)) {
        let tags: Vec<u64> = runs.iter().flat_map(|(first, count)| *first..first + count).collect();
        prop_assert_eq!(acknowledge([&tags[..]].into_iter()), acknowledge(tags.chunks(1)));
    }
}
