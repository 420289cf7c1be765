//! Consumers, acknowledgements, confirms, transactions.

use amq_protocol::protocol::tx;

use super::*;

fn ack(tag: u64, multiple: bool) -> Basic {
    Basic::Ack(basic::Ack {
        delivery_tag: tag,
        multiple,
    })
}

fn nack(tag: u64, multiple: bool, requeue: bool) -> Basic {
    Basic::Nack(basic::Nack {
        delivery_tag: tag,
        multiple,
        requeue,
    })
}

fn qos(count: u16, global: bool) -> Basic {
    Basic::Qos(basic::Qos {
        prefetch_count: count,
        global,
    })
}

#[test]
fn consumers_take_turns_and_their_limits_hold() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    stand.basic(id, qos(2, false));
    stand.consume(id, "q", "a", false);
    stand.consume(id, "q", "b", false);
    stand.received(id);
    for number in 1..=6 {
        stand.publish(id, "q", &number.to_string());
    }
    assert_eq!(stand.received(id), ["a 1 1", "b 2 2", "a 3 3", "b 4 4"]);
    stand.basic(id, ack(2, false));
    assert_eq!(stand.received(id), ["b 5 5"]);
    stand.basic(id, ack(3, true));
    assert_eq!(stand.received(id), ["a 6 6"]);
    stand.basic(id, ack(3, false));
    assert_eq!(stand.received(id), ["channel.close 406"]);
}

#[test]
fn a_common_limit_is_for_all_consumers_of_a_channel() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    stand.basic(id, qos(3, true));
    stand.consume(id, "q", "a", false);
    stand.consume(id, "q", "b", false);
    stand.received(id);
    for number in 1..=5 {
        stand.publish(id, "q", &number.to_string());
    }
    assert_eq!(stand.received(id).len(), 3);
    stand.basic(id, ack(1, false));
    assert_eq!(stand.received(id).len(), 1);
    stand.basic(id, qos(0, true));
    assert_eq!(stand.received(id).len(), 2);
}

#[test]
fn requeued_messages_come_again_in_order_and_say_so() {
    let mut stand = Stand::new();
    let (id, other) = (stand.client(), stand.client());
    stand.declare(id, "q", &[]);
    for number in 1..=4 {
        stand.publish(id, "q", &number.to_string());
    }
    stand.consume(other, "q", "c", false);
    assert_eq!(
        stand.received(other),
        ["consume-ok c", "c 1 1", "c 2 2", "c 3 3", "c 4 4"]
    );
    stand.basic(other, nack(3, true, true));
    assert_eq!(
        stand.received(other),
        ["c 5 again1", "c 6 again2", "c 7 again3"].map(|text| text.replace("again", "again "))
    );
    stand.basic(other, Basic::Recover(basic::Recover { requeue: true }));
    let received = stand.received(other);
    assert_eq!(received.last().unwrap(), "c 11 again 4");
    stand.broker.disconnect(other);
    for number in 1..=4 {
        stand.basic(
            id,
            Basic::Get(basic::Get {
                queue: "q".into(),
                no_ack: true,
            }),
        );
        assert_eq!(
            stand.received(id),
            [format!("get {number} {} again {number}", 4 - number)]
        );
    }
    stand.basic(
        id,
        Basic::Get(basic::Get {
            queue: "q".into(),
            no_ack: true,
        }),
    );
    assert_eq!(stand.received(id), ["get-empty"]);
    assert_eq!(stand.broker.memory.meter().get(), 0);
}

#[test]
fn an_exclusive_consumer_is_alone_and_a_tag_is_used_once() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    let exclusive = basic::Consume {
        queue: "q".into(),
        consumer_tag: "a".into(),
        exclusive: true,
        ..basic::Consume::default()
    };
    stand.basic(id, Basic::Consume(exclusive));
    let other = stand.client();
    stand.consume(other, "q", "b", false);
    assert_eq!(stand.received(other), ["channel.close 403"]);
    stand.declare_other(id);
    stand.consume(id, "r", "a", false);
    assert_eq!(stand.received(id), ["connection.close 530"]);
}

impl Stand {
    fn declare_other(&mut self, id: ConnectionId) {
        self.received(id);
        self.declare(id, "r", &[]);
    }
}

#[test]
fn one_confirm_speaks_for_a_batch_and_a_return_comes_before_it() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    stand.select_confirms(id);
    let mut batch = Vec::new();
    for key in ["q", "q", "none", "q"] {
        for frame in publish_frames(("", key), AMQPProperties::default(), b"m") {
            batch.extend(encode(&frame));
        }
    }
    stand.broker.receive(id, &batch);
    assert_eq!(stand.received(id), ["return 312 m", "ack 4 true"]);
    stand.publish(id, "q", "m");
    assert_eq!(stand.received(id), ["ack 5 false"]);
    let select = AMQPClass::Tx(tx::AMQPMethod::Select(tx::Select {}));
    stand.method(id, 1, select);
    assert_eq!(stand.received(id), ["channel.close 406"]);
}

#[test]
fn a_transaction_takes_effect_at_commit() {
    let mut stand = Stand::new();
    let id = stand.client();
    let watcher = stand.client();
    stand.declare(id, "q", &[]);
    stand.publish(id, "q", "first");
    stand.basic(
        id,
        Basic::Get(basic::Get {
            queue: "q".into(),
            no_ack: false,
        }),
    );
    let tx_method = |method| AMQPClass::Tx(method);
    stand.method(id, 1, tx_method(tx::AMQPMethod::Select(tx::Select {})));
    stand.publish(id, "q", "second");
    stand.basic(id, ack(1, false));
    assert_eq!(stand.ready(watcher, "q"), "queue.declare-ok 0 0");
    stand.method(id, 1, tx_method(tx::AMQPMethod::Rollback(tx::Rollback {})));
    stand.publish(id, "q", "third");
    stand.basic(id, ack(1, false));
    stand.method(id, 1, tx_method(tx::AMQPMethod::Commit(tx::Commit {})));
    assert_eq!(stand.ready(watcher, "q"), "queue.declare-ok 1 0");
    stand.basic(
        watcher,
        Basic::Get(basic::Get {
            queue: "q".into(),
            no_ack: true,
        }),
    );
    assert_eq!(stand.received(watcher), ["get 1 0 third"]);
    assert_eq!(stand.broker.memory.meter().get(), 0);
}

#[test]
fn methods_that_rabbitmq_does_not_implement_are_540() {
    for method in [
        Basic::Recover(basic::Recover { requeue: false }),
        Basic::Publish(basic::Publish {
            immediate: true,
            ..basic::Publish::default()
        }),
    ] {
        let mut stand = Stand::new();
        let id = stand.client();
        let is_publish = matches!(method, Basic::Publish(_));
        stand.basic(id, method);
        if is_publish {
            stand.frame(
                id,
                &publish_frames(("", ""), AMQPProperties::default(), b"").remove(1),
            );
        }
        assert_eq!(stand.received(id), ["connection.close 540"]);
    }
}

#[test]
fn a_commit_makes_room_under_the_common_limit() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    for body in ["1", "2"] {
        stand.publish(id, "q", body);
    }
    stand.method(id, 1, AMQPClass::Tx(tx::AMQPMethod::Select(tx::Select {})));
    stand.basic(id, qos(1, true));
    stand.received(id);
    stand.consume(id, "q", "c", false);
    assert_eq!(stand.received(id), ["consume-ok c", "c 1 1"]);
    stand.basic(id, ack(1, false));
    stand.method(id, 1, AMQPClass::Tx(tx::AMQPMethod::Commit(tx::Commit {})));
    let received = stand.received(id);
    assert!(received.contains(&"c 2 2".to_owned()), "{received:?}");
}

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

    fn cancel(&mut self, id: ConnectionId, tag: &str) {
        let cancel = basic::Cancel {
            consumer_tag: tag.into(),
            nowait: true,
        };
        self.basic(id, Basic::Cancel(cancel));
    }
}

#[test]
fn a_consumer_of_a_higher_priority_is_served_for_as_long_as_it_has_room() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    let qos = basic::Qos {
        prefetch_count: 2,
        global: false,
    };
    stand.basic(id, Basic::Qos(qos));
    stand.consume(id, "q", "low", true);
    stand.consume_first(id, "high", 1);
    stand.received(id);
    for _ in 0..4 {
        stand.publish(id, "q", "m");
    }
    assert_eq!(
        stand.received(id),
        ["high 1 m", "high 2 m", "low 3 m", "low 4 m"]
    );
    stand.basic(
        id,
        Basic::Ack(basic::Ack {
            delivery_tag: 1,
            multiple: false,
        }),
    );
    stand.publish(id, "q", "m");
    assert_eq!(stand.received(id), ["high 5 m"]);
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
fn a_single_active_consumer_without_room_lets_nobody_else_take_its_messages() {
    let mut stand = Stand::new();
    let id = stand.client();
    let single = [("x-single-active-consumer", AMQPValue::Boolean(true))];
    stand.declare(id, "q", &single);
    let qos = basic::Qos {
        prefetch_count: 1,
        global: false,
    };
    stand.basic(id, Basic::Qos(qos));
    stand.consume(id, "q", "active", false);
    stand.consume(id, "q", "waits", true);
    stand.publish(id, "q", "m");
    stand.publish(id, "q", "m");
    let received = stand.received(id);
    assert_eq!(
        received[1..],
        ["consume-ok active", "consume-ok waits", "active 1 m"]
    );
    let exclusive = basic::Consume {
        queue: "q".into(),
        exclusive: true,
        ..basic::Consume::default()
    };
    stand.basic(id, Basic::Consume(exclusive));
    assert_eq!(stand.received(id), ["channel.close 403"]);
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
