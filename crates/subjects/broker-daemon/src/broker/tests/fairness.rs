//! Fairness under load, and no accumulation of state.

use std::collections::BTreeMap;

use super::*;

#[test]
fn messages_that_expire_together_do_so_in_several_turns() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "dead", &[]);
    let mut arguments = dead_to("dead").to_vec();
    arguments.push(("x-message-ttl", AMQPValue::LongInt(100)));
    stand.declare(id, "q", &arguments);
    stand.broker.receive(id, &message(("", "q")).repeat(10_000));
    stand.pass(100);
    let first = stand.ready(id, "dead");
    assert_ne!(first, "queue.declare-ok 10000 0");
    // The next turn is due at once, without any client's action.
    let mut turns = 1;
    while stand
        .broker
        .scheduler
        .next_deadline()
        .is_some_and(|due| due <= stand.broker.now)
    {
        stand.pass(0);
        turns += 1;
    }
    assert!(turns > 2, "{turns}");
    assert_eq!(stand.ready(id, "q"), "queue.declare-ok 0 0");
    assert_eq!(stand.ready(id, "dead"), "queue.declare-ok 10000 0");
}

#[test]
fn dead_letters_are_made_in_several_turns_and_the_server_is_told_that_there_are_more() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "dead", &[]);
    stand.declare(id, "q", &dead_to("dead"));
    stand.consume(id, "q", "c", false);
    stand.broker.receive(id, &message(("", "q")).repeat(10_000));
    let delivered = stand.broker.counts.messages_delivered;
    assert!(delivered > 5000, "{delivered}");
    let wake = Rc::clone(&stand.broker.scheduler.wake);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    stand.basic(id, nack_all(false));
    assert!(stand.broker.scheduler.has_more());
    let mut turns = 1;
    while stand.broker.scheduler.has_more() {
        // The output was also requested.
        stand.broker.scheduler.take_outputs();
        stand.broker.finish_turn();
        let is_woken = std::pin::pin!(wake.notified())
            .poll(&mut context)
            .is_ready();
        assert!(is_woken || !stand.broker.scheduler.has_more());
        turns += 1;
    }
    assert!(turns > 1);
    assert_eq!(stand.broker.counts.messages_dead_lettered, delivered);
}

#[test]
fn queues_that_come_and_go_leave_no_timer_behind() {
    let mut stand = Stand::new();
    let id = stand.client();
    for _ in 0..5000 {
        stand.declare(id, "q", &[("x-expires", AMQPValue::LongInt(1_800_000))]);
        stand.run(id, delete("q"));
    }
    assert_eq!(stand.broker.scheduler.timer_count(), 0);
    stand.declare(id, "q", &[("x-expires", AMQPValue::LongInt(100))]);
    stand.pass(100);
    assert_eq!(stand.ready(id, "q"), "channel.close 404");
}

#[test]
fn a_client_that_takes_nothing_for_half_an_hour_is_closed_and_a_slow_one_is_not() {
    let mut stand = Stand::new();
    let (sleeper, other) = (stand.client(), stand.client());
    stand.declare(other, "q", &[]);
    stand.consume(sleeper, "q", "c", false);
    stand.publish(other, "q", "m");
    let minutes = |stand: &mut Stand, minutes: u64| {
        stand.broker.now += minutes * 60_000;
        stand.broker.sweep();
    };
    stand.write(sleeper, 0);
    minutes(&mut stand, 29);
    assert_eq!(stand.ready(other, "q"), "queue.declare-ok 0 1");
    stand.write(sleeper, 1);
    minutes(&mut stand, 29);
    assert_eq!(stand.ready(other, "q"), "queue.declare-ok 0 1");
    minutes(&mut stand, 2);
    assert_eq!(stand.ready(other, "q"), "queue.declare-ok 1 0");
    assert_eq!(stand.connection(sleeper).phase(), Phase::Closed);
}

#[test]
fn a_queue_that_goes_takes_none_of_its_dead_letters_with_it() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "dead", &[]);
    stand.declare(id, "q", &dead_to("dead"));
    stand.consume(id, "q", "c", false);
    stand.broker.receive(id, &message(("", "q")).repeat(5000));
    assert_eq!(stand.broker.counts.messages_delivered, 5000);
    // More than one turn, in one read.
    let both = [AMQPClass::Basic(nack_all(false)), delete("q")];
    let both = both.map(|method| encode(&AMQPFrame::Method(1, method)));
    stand.broker.receive(id, &both.concat());
    assert_eq!(stand.ready(id, "dead"), "queue.declare-ok 5000 0");
}

fn ack(delivery_tag: u64) -> Basic {
    let multiple = false;
    Basic::Ack(basic::Ack {
        delivery_tag,
        multiple,
    })
}

fn qos(prefetch_count: u16) -> Basic {
    Basic::Qos(basic::Qos {
        prefetch_count,
        global: true,
    })
}

impl Stand {
    /// Creates a client whose channel has a common limit, and queues with these numbers of messages.
    fn limited(&mut self, limit: u16, queues: &[(&str, usize)]) -> ConnectionId {
        let id = self.client();
        for (queue, count) in queues {
            self.declare(id, queue, &[]);
            for _ in 0..*count {
                self.publish(id, queue, "m");
            }
        }
        self.basic(id, qos(limit));
        assert_eq!(self.received(id), ["60.11"]);
        id
    }

    fn consume_all(&mut self, id: ConnectionId, queues: &[&str], no_ack: bool) -> Vec<String> {
        for queue in queues {
            self.consume(id, queue, queue, no_ack);
        }
        let mut received = self.received(id);
        received.retain(|line| !line.starts_with("consume-ok"));
        received
    }
}

#[test]
fn a_queue_that_is_published_to_all_the_time_does_not_keep_the_limit_to_itself() {
    let mut stand = Stand::new();
    let id = stand.limited(1, &[("a", 10), ("b", 10)]);
    stand.consume_all(id, &["a", "b"], false);
    let mut got = BTreeMap::new();
    for tag in 1..=10 {
        // In one read: `a` is dispatched before there is room.
        let mut read = message(("", "a"));
        let acked = AMQPClass::Basic(ack(tag));
        read.extend(encode(&AMQPFrame::Method(1, acked)));
        stand.broker.receive(id, &read);
        for delivery in stand.received(id) {
            let tag = delivery.split_once(' ').unwrap().0.to_owned();
            *got.entry(tag).or_insert(0) += 1;
        }
    }
    assert_eq!(got.into_values().collect::<Vec<_>>(), [5, 5]);
}

#[test]
fn room_that_one_queue_does_not_take_goes_to_another() {
    let mut stand = Stand::new();
    let id = stand.limited(1, &[("a", 10), ("b", 1)]);
    stand.consume_all(id, &["a", "b"], false);
    // It takes the only message for which the first waits.
    let other = stand.client();
    stand.consume(other, "b", "other", true);
    assert_eq!(stand.received(other), ["consume-ok other", "other 1 m"]);
    for tag in 1..=5 {
        stand.basic(id, ack(tag));
        assert_eq!(stand.received(id), [format!("a {} m", tag + 1)]);
    }
}

#[test]
fn consumers_without_acknowledgements_wait_for_room_too_and_take_turns() {
    let mut stand = Stand::new();
    let id = stand.limited(2, &[("acks", 10), ("never", 10)]);
    let first = stand.consume_all(id, &["acks"], false);
    assert_eq!(first, ["acks 1 m", "acks 2 m"]);
    assert!(stand.consume_all(id, &["never"], true).is_empty());
    stand.basic(id, ack(1));
    assert_eq!(stand.received(id), ["never 3 m", "acks 4 m"]);
    stand.basic(id, qos(0));
    assert_eq!(stand.received(id).len(), 1 + 9 + 7);
}

#[test]
fn fetched_messages_do_not_count_and_acknowledgements_in_a_transaction_do() {
    let mut stand = Stand::new();
    let id = stand.limited(1, &[("q", 10)]);
    stand.get(id, "q", false);
    assert_eq!(stand.received(id), ["get 1 9 m"]);
    stand.run(id, select_tx());
    assert_eq!(stand.consume_all(id, &["q"], false), ["q 2 m"]);
    stand.basic(id, ack(1));
    stand.basic(id, ack(2));
    let other = stand.client();
    stand.publish(other, "q", "m");
    assert_eq!(stand.received(id), [""; 0]);
    assert_eq!(stand.run(id, roll_back()), ["90.31"]);
    stand.basic(id, ack(2));
    assert_eq!(stand.run(id, commit()), ["90.21", "q 3 m"]);
}

#[test]
fn consumers_that_come_and_go_while_there_is_no_room_leave_nothing_behind() {
    let mut stand = Stand::new();
    let id = stand.limited(1, &[("q", 10)]);
    stand.consume_all(id, &["q"], false);
    for _ in 0..100 {
        stand.consume(id, "q", "c", false);
        stand.cancel(id, "c");
    }
    let deliveries = &mut stand.connection(id).channel(1).unwrap().deliveries;
    deliveries.limit = 0;
    assert_eq!(deliveries.take_held_back().len(), 1);
}
