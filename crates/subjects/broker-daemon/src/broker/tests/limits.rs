//! Lengths, times to live, dead letters, memory.

use super::*;

fn deaths(stand: &mut Stand, id: ConnectionId, queue: &str) -> Vec<(String, String, i64)> {
    stand.get(id, queue, true);
    let header = stand.frames(id).into_iter().find_map(|frame| match frame {
        AMQPFrame::Header(_, header) => Some(header),
        _ => None,
    });
    let headers = header.unwrap().properties.headers().clone().unwrap();
    let deaths = headers.inner()["x-death"]
        .as_array()
        .unwrap()
        .as_slice()
        .to_vec();
    let read = |death: &AMQPValue| {
        let table = death.as_field_table().unwrap().inner().clone();
        let text = |name: &str| table[name].as_long_string().unwrap().to_string();
        (
            text("queue"),
            text("reason"),
            table["count"].as_long_long_int().unwrap(),
        )
    };
    deaths.iter().map(read).collect()
}

#[test]
fn publishers_wait_while_memory_is_short_and_consumers_go_on() {
    let mut stand = Stand::with(Config {
        memory_limit: 100_000,
        ..Config::default()
    });
    let (publisher, consumer) = (stand.client(), stand.client());
    stand.declare(consumer, "q", &[]);
    let body = "x".repeat(30_000);
    for _ in 0..8 {
        stand.publish(publisher, "q", &body);
    }
    assert_eq!(stand.received(publisher), ["connection.blocked"]);
    assert_eq!(stand.ready(consumer, "q"), "queue.declare-ok 4 0");
    let held = stand.connection(publisher);
    assert!(held.is_held() && held.backlog().len() > 100_000);
    let count = stand.take_all(consumer);
    assert_eq!(count, 4);
    let backlog = stand.connection(publisher).take_held_frames().unwrap();
    assert_eq!(stand.received(publisher), ["connection.unblocked"]);
    stand.broker.receive(publisher, &backlog);
    assert_eq!(stand.take_all(consumer), 4);
    assert_eq!(stand.broker.memory.meter.get(), 0);
}

impl Stand {
    fn take_all(&mut self, id: ConnectionId) -> usize {
        for count in 0.. {
            self.get(id, "q", true);
            if self.received(id) == ["get-empty"] {
                return count;
            }
        }
        0
    }
}

#[test]
fn a_client_that_does_not_read_gets_no_more_and_its_requests_wait() {
    let mut stand = Stand::new();
    let (publisher, sleeper) = (stand.client(), stand.client());
    stand.declare(sleeper, "q", &[]);
    stand.consume(sleeper, "q", "c", true);
    let body = "x".repeat(50_000);
    for _ in 0..100 {
        stand.publish(publisher, "q", &body);
    }
    let pending = stand.connection(sleeper).outbox.pending();
    assert!((500_000..700_000).contains(&pending), "{pending}");
    assert!(stand.broker.memory.meter.get() > 4_000_000);
    for _ in 0..100 {
        stand.get(sleeper, "q", true);
    }
    let held = stand.connection(sleeper);
    assert!(held.is_held() && held.outbox.pending() < 1_300_000);
}

#[test]
fn incomplete_messages_take_memory_until_their_client_leaves() {
    let mut stand = Stand::with(Config {
        memory_limit: 100_000,
        ..Config::default()
    });
    let (slow, other) = (stand.client(), stand.client());
    stand.declare(other, "q", &[]);
    let frames = publish_frames(("", "q"), AMQPProperties::default(), &[0; 150_000]);
    for frame in &frames[..frames.len() - 1] {
        stand.frame(slow, frame);
    }
    assert!(stand.broker.memory.meter.get() >= 140_000);
    stand.publish(other, "q", "m");
    assert_eq!(stand.received(other), ["connection.blocked"]);
    stand.broker.disconnect(slow);
    assert_eq!(stand.broker.memory.meter.get(), 0);
    assert_eq!(stand.received(other), ["connection.unblocked"]);
}

#[test]
fn a_blocked_client_is_woken_to_answer_a_shutdown() {
    let mut stand = Stand::with(Config {
        memory_limit: 1000,
        ..Config::default()
    });
    let id = stand.client();
    stand.declare(id, "q", &[]);
    stand.publish(id, "q", &"x".repeat(2000));
    stand.publish(id, "q", "m");
    let connection = stand.connection(id);
    assert!(connection.is_held());
    let wake = Rc::clone(connection.wake());
    stand.broker.shut_down();
    let woken = std::pin::pin!(wake.notified());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(woken.poll(&mut context).is_ready());
}

#[test]
fn requeued_messages_count_for_the_longest_length() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[("x-max-length", AMQPValue::LongInt(2))]);
    for body in ["1", "2"] {
        stand.publish(id, "q", body);
        stand.get(id, "q", false);
    }
    for body in ["3", "4"] {
        stand.publish(id, "q", body);
    }
    stand.received(id);
    stand.basic(id, nack_all(true));
    assert_eq!(stand.ready(id, "q"), "queue.declare-ok 2 0");
    stand.consume(id, "q", "c", true);
    assert_eq!(stand.received(id), ["consume-ok c", "c 3 3", "c 4 4"]);
}

#[test]
fn a_dead_letter_goes_on_without_headers_that_are_too_deep() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "dead", &[]);
    let mut arguments = dead_to("dead").to_vec();
    arguments.push(("x-max-length", AMQPValue::LongInt(0)));
    stand.declare(id, "q", &arguments);
    let mut headers = FieldTable::default();
    for _ in 0..200 {
        headers = table(&[("h", AMQPValue::FieldTable(headers))]);
    }
    let properties = AMQPProperties::default()
        .with_headers(headers)
        .with_correlation_id("kept".into());
    stand.publish_as(id, ("", "q"), properties, b"m");
    stand.received(id);
    assert_eq!(stand.ready(id, "dead"), "queue.declare-ok 1 0");
    assert_eq!(
        deaths(&mut stand, id, "dead"),
        [("q".to_owned(), "maxlen".to_owned(), 1)]
    );
}
