//! Memory besides the bodies of messages.

use super::*;

#[test]
fn a_fanout_takes_memory_in_each_queue_and_publishers_wait_before_it_is_too_much() {
    let mut stand = Stand::with(Config {
        memory_limit: 1_000_000,
        ..Config::default()
    });
    let (id, other) = (stand.client(), stand.client());
    for number in 0..1000 {
        let queue = format!("q{number}");
        stand.declare(id, &queue, &[]);
        stand.run(id, bind(&queue, "amq.fanout", ""));
    }
    // A single read.
    let read = message(("amq.fanout", "")).repeat(1000);
    stand.broker.receive(id, &read);
    let published = stand.broker.counts.messages_published;
    // 64 bytes in each of 1,000 queues.
    assert!((10..20).contains(&published), "{published}");
    assert!(stand.connection(id).is_held());
    for number in 0..1000 {
        stand.run(other, delete(&format!("q{number}")));
    }
    assert_eq!(stand.broker.memory.meter.get(), 0);
}

#[test]
fn unread_output_takes_memory_and_so_does_the_beginning_of_a_frame() {
    let mut stand = Stand::new();
    let (publisher, sleeper) = (stand.client(), stand.client());
    stand.declare(sleeper, "q", &[]);
    stand.consume(sleeper, "q", "c", true);
    for _ in 0..200 {
        stand.publish(publisher, "q", &"x".repeat(1000));
    }
    stand.write(sleeper, 0);
    assert!(stand.broker.memory.meter.get() >= 200_000);
    stand.broker.disconnect(sleeper);
    assert_eq!(stand.broker.memory.meter.get(), 0);
    stand.broker.receive(publisher, &[1, 0, 1, 0, 0, 0x30, 0]);
    assert!(stand.broker.memory.meter.get() >= 7);
    stand.broker.disconnect(publisher);
    assert_eq!(stand.broker.memory.meter.get(), 0);
}

#[test]
fn a_client_that_was_cut_off_is_not_told_that_memory_is_free() {
    let mut stand = Stand::with(Config {
        memory_limit: 1_000,
        ..Config::default()
    });
    let (id, other) = (stand.client(), stand.client());
    stand.declare(other, "q", &[]);
    stand.publish(id, "q", &"x".repeat(2_000));
    assert_eq!(stand.received(id), ["connection.blocked"]);
    stand.broker.close_when_written(id);
    stand.run(other, delete("q"));
    assert!(!stand.broker.memory.is_short());
    assert_eq!(stand.received(id), [""; 0]);
}
