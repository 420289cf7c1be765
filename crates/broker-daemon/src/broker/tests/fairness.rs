//! Much at once, and nobody is held up; much that comes and goes, and nothing piles up.

use super::*;

fn cancel(tag: &str) -> Basic {
    Basic::Cancel(basic::Cancel {
        consumer_tag: tag.into(),
        nowait: true,
    })
}

#[test]
fn what_expires_together_does_so_in_several_turns() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "dead", &[]);
    let arguments = [
        ("x-message-ttl", AMQPValue::LongInt(100)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
    ];
    stand.declare(id, "q", &arguments);
    let message = publish_frames(("", "q"), AMQPProperties::default(), b"m");
    let message: Vec<u8> = message.iter().flat_map(encode).collect();
    stand.broker.receive(id, &message.repeat(10_000));
    stand.pass(100);
    let first = stand.ready(id, "dead");
    assert_ne!(first, "queue.declare-ok 10000 0");
    // The next turn is due at once, without anybody doing something.
    let mut turns = 1;
    while stand
        .broker
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
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
    ];
    stand.declare(id, "q", &arguments);
    let message = publish_frames(("", "q"), AMQPProperties::default(), b"m");
    let message: Vec<u8> = message.iter().flat_map(encode).collect();
    stand.consume(id, "q", "c", false);
    stand.broker.receive(id, &message.repeat(10_000));
    let delivered = stand.broker.counts.messages_delivered;
    assert!(delivered > 5000, "{delivered}");
    let wake = Rc::clone(&stand.broker.wake);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    stand.basic(
        id,
        Basic::Nack(basic::Nack {
            delivery_tag: 0,
            multiple: true,
            requeue: false,
        }),
    );
    assert!(stand.broker.has_more());
    let mut turns = 1;
    while stand.broker.has_more() {
        // What is to be written was asked for as well.
        stand.broker.take_dirty();
        stand.broker.finish_turn();
        let is_woken = std::pin::pin!(wake.notified())
            .poll(&mut context)
            .is_ready();
        assert!(is_woken || !stand.broker.has_more());
        turns += 1;
    }
    assert!(turns > 1);
    assert_eq!(stand.broker.counts.messages_dead_lettered, delivered);
}

#[test]
fn consumers_that_come_and_go_leave_no_place_behind() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    stand.consume(id, "q", "stays", false);
    for _ in 0..1000 {
        stand.consume(id, "q", "c", false);
        stand.basic(id, cancel("c"));
    }
    let (_, queue) = stand.broker.queues.iter().next().unwrap();
    assert!(queue.ring.len() < 20, "{}", queue.ring.len());
    assert_eq!(stand.ready(id, "q"), "queue.declare-ok 0 1");
    stand.publish(id, "q", "m");
    assert_eq!(stand.told(id), ["stays 1 m"]);
}

#[test]
fn queues_that_come_and_go_leave_no_timer_behind() {
    let mut stand = Stand::new();
    let id = stand.client();
    for _ in 0..5000 {
        stand.declare(id, "q", &[("x-expires", AMQPValue::LongInt(1_800_000))]);
        let delete = queue::Delete {
            queue: "q".into(),
            nowait: true,
            ..queue::Delete::default()
        };
        stand.method(id, 1, AMQPClass::Queue(QueueMethod::Delete(delete)));
    }
    let count = stand.broker.timers.len();
    assert!(count < 1100, "{count}");
    stand.declare(id, "q", &[("x-expires", AMQPValue::LongInt(100))]);
    stand.pass(100);
    assert_eq!(stand.ready(id, "q"), "channel.close 404");
}

#[test]
fn who_takes_nothing_for_half_an_hour_is_let_go_and_who_takes_little_is_not() {
    let mut stand = Stand::new();
    let (sleeper, other) = (stand.client(), stand.client());
    stand.declare(other, "q", &[]);
    stand.consume(sleeper, "q", "c", false);
    stand.publish(other, "q", "m");
    let minutes = |stand: &mut Stand, minutes: u64| {
        stand.broker.now += minutes * 60_000;
        stand.broker.sweep();
    };
    stand.broker.connection(sleeper).unwrap().is_stuck = true;
    minutes(&mut stand, 29);
    assert_eq!(stand.ready(other, "q"), "queue.declare-ok 0 1");
    stand.broker.connection(sleeper).unwrap().sent = stand.broker.now;
    minutes(&mut stand, 29);
    assert_eq!(stand.ready(other, "q"), "queue.declare-ok 0 1");
    minutes(&mut stand, 2);
    assert_eq!(stand.ready(other, "q"), "queue.declare-ok 1 0");
    assert_eq!(
        stand.broker.connection(sleeper).unwrap().phase,
        Phase::Closed
    );
}

#[test]
fn a_queue_that_goes_takes_none_of_its_dead_letters_with_it() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "dead", &[]);
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
    ];
    stand.declare(id, "q", &arguments);
    stand.consume(id, "q", "c", false);
    let message = publish_frames(("", "q"), AMQPProperties::default(), b"m");
    let message: Vec<u8> = message.iter().flat_map(encode).collect();
    stand.broker.receive(id, &message.repeat(5000));
    assert_eq!(stand.broker.counts.messages_delivered, 5000);
    let nack = basic::Nack {
        delivery_tag: 0,
        multiple: true,
        requeue: false,
    };
    let delete = queue::Delete {
        queue: "q".into(),
        nowait: true,
        ..queue::Delete::default()
    };
    // In one read, and more than one turn makes.
    let both = [
        AMQPClass::Basic(Basic::Nack(nack)),
        AMQPClass::Queue(QueueMethod::Delete(delete)),
    ];
    let both = both.map(|method| encode(&AMQPFrame::Method(1, method)));
    stand.broker.receive(id, &both.concat());
    assert_eq!(stand.ready(id, "dead"), "queue.declare-ok 5000 0");
}
