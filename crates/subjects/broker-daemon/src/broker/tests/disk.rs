//! A disk that accepts nothing more: the broker keeps the messages it accepted.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::log::{Log, LogOptions, State};

/// A broker with a log, and the log's folder.
struct Stored {
    stand: Stand,
    woken: mpsc::Receiver<()>,
    folder: tempfile::TempDir,
}

impl Stored {
    fn new() -> Self {
        Self::with(LogOptions::default())
    }

    /// Opens a log that begins a segment with each turn, so that it notices at once that its folder is gone.
    fn with_short_segments() -> Self {
        Self::with(LogOptions {
            segment_bytes: 1,
            ..LogOptions::default()
        })
    }

    fn with(options: LogOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (wake, woken) = mpsc::channel();
        // The test may have dropped the receiver.
        let tell = move || wake.send(()).unwrap_or_default();
        let (log, recovered) = Log::open(folder.path(), options, tell).unwrap();
        let mut stand = Stand::new();
        stand.broker.open_store(log, recovered).unwrap();
        Self {
            stand,
            woken,
            folder,
        }
    }

    /// Waits until the log meets a condition, then lets the broker see that.
    fn wait_for(&mut self, is_met: impl Fn(&Log) -> bool) {
        self.stand.broker.flush_log();
        while !is_met(self.stand.broker.store.log()) {
            self.woken.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        self.stand.broker.finish_turn();
    }

    /// Waits until everything is on disk.
    fn sync(&mut self) {
        self.wait_for(|log| log.synced() == log.ticket());
    }

    /// Removes the folder, and with it the disk.
    fn lose_disk(&mut self) {
        std::fs::remove_dir_all(self.folder.path()).unwrap();
        self.wait_for(|log| matches!(log.state(), State::Failed(_)));
    }

    fn declare_durable(&mut self, id: ConnectionId, queue: &str, arguments: &[(&str, AMQPValue)]) {
        let declare = declare_queue(queue, arguments, |declare| declare.durable = true);
        self.stand.method(id, 1, declare);
        assert_eq!(self.stand.received(id), [""; 0]);
        self.sync();
        assert_eq!(self.stand.received(id), ["queue.declare-ok 0 0"]);
    }
}

impl Stand {
    fn publish_persistent(&mut self, id: ConnectionId, queue: &str) {
        let persistent = AMQPProperties::default().with_delivery_mode(2);
        self.publish_as(id, ("", queue), persistent, b"m");
    }

    /// Closes channel 1 and opens another one with its number, without waiting for answers.
    fn reopen(&mut self, id: ConnectionId) {
        let close = ChannelMethod::Close(channel::Close::default());
        self.method(id, 1, AMQPClass::Channel(close));
        let open = ChannelMethod::Open(channel::Open {});
        self.method(id, 1, AMQPClass::Channel(open));
    }

    fn reject(&mut self, id: ConnectionId, delivery_tag: u64) {
        let requeue = false;
        self.basic(
            id,
            Basic::Reject(basic::Reject {
                delivery_tag,
                requeue,
            }),
        );
    }
}

#[test]
fn a_dead_letter_is_not_lost_to_a_disk_that_takes_nothing() {
    let mut stored = Stored::with_short_segments();
    let id = stored.stand.client();
    stored.declare_durable(id, "dead", &[]);
    stored.declare_durable(id, "q", &dead_to("dead"));
    stored.stand.publish_persistent(id, "q");
    stored.stand.consume(id, "q", "c", false);
    assert_eq!(stored.stand.received(id), ["consume-ok c", "c 1 m"]);
    stored.lose_disk();
    let stand = &mut stored.stand;
    stand.select_confirms(id);
    stand.publish_persistent(id, "q");
    assert_eq!(stand.received(id), ["nack 1 false"]);
    stand.reject(id, 1);
    assert_eq!(stand.ready(id, "dead"), "queue.declare-ok 1 0");
}

#[test]
fn a_transaction_that_cannot_be_stored_gives_back_what_it_was_to_settle() {
    let mut stored = Stored::with_short_segments();
    let id = stored.stand.client();
    stored.declare_durable(id, "q", &[]);
    stored.stand.publish_persistent(id, "q");
    stored.stand.method(id, 1, select_tx());
    stored.stand.consume(id, "q", "c", false);
    stored.stand.received(id);
    stored.stand.reject(id, 1);
    stored.stand.publish_persistent(id, "q");
    stored.lose_disk();
    let stand = &mut stored.stand;
    stand.method(id, 1, commit());
    assert_eq!(stand.received(id), ["channel.close 406"]);
    let other = stand.client();
    assert_eq!(stand.ready(other, "q"), "queue.declare-ok 1 0");
}

#[test]
fn publishes_that_wait_for_a_failing_disk_are_nacked() {
    let mut stored = Stored::with_short_segments();
    let id = stored.stand.client();
    stored.declare_durable(id, "q", &[]);
    stored.stand.select_confirms(id);
    stored.stand.publish_persistent(id, "q");
    assert_eq!(stored.stand.received(id), [""; 0]);
    stored.lose_disk();
    assert_eq!(stored.stand.received(id), ["nack 1 false"]);
}

#[test]
fn a_deleted_queue_leaves_nothing_in_the_log_also_of_what_is_unacknowledged() {
    let mut stored = Stored::new();
    let id = stored.stand.client();
    stored.declare_durable(id, "q", &[]);
    let stand = &mut stored.stand;
    stand.publish_persistent(id, "q");
    stand.publish_persistent(id, "q");
    stand.get(id, "q", false);
    assert_eq!(stand.received(id), ["get 1 1 m"]);
    let live = |stand: &Stand| stand.broker.store.log().usage().live_bytes;
    assert!(live(stand) > 0);
    stand.method(id, 1, delete("q"));
    assert_eq!(live(stand), 0);
    stored.sync();
    assert_eq!(stored.stand.received(id), ["queue.delete-ok 1"]);
}

#[test]
fn a_channel_that_takes_the_number_of_another_is_answered_behind_its_commit() {
    let mut stored = Stored::new();
    let id = stored.stand.client();
    stored.declare_durable(id, "q", &[]);
    stored.stand.method(id, 1, select_tx());
    stored.stand.publish_persistent(id, "q");
    stored.stand.received(id);
    stored.stand.method(id, 1, commit());
    stored.stand.reopen(id);
    assert_eq!(stored.stand.received(id), [""; 0]);
    stored.sync();
    let received = stored.stand.received(id);
    assert_eq!(received, ["90.21", "20.41", "channel.open-ok"]);
    assert_eq!(stored.stand.ready(id, "q"), "queue.declare-ok 1 0");
}

#[test]
fn durable_declarations_are_answered_once_they_are_on_disk() {
    let mut stored = Stored::new();
    let id = stored.stand.client();
    // Each method with its answer.
    let methods = [
        (
            declare_exchange("x", "direct", durable),
            "exchange.declare-ok",
        ),
        (declare_durable("q"), "queue.declare-ok 0 0"),
        (bind("q", "x", ""), "50.21"),
        (bind_exchange("x", "amq.topic", ""), "40.31"),
        (unbind("q", "x"), "50.51"),
        (unbind_exchange("x", "amq.topic"), "40.51"),
        (delete_exchange("x"), "40.21"),
        (delete("q"), "queue.delete-ok 0"),
    ];
    for (method, answer) in methods {
        assert_eq!(stored.stand.run(id, method), [""; 0], "{answer}");
        stored.sync();
        assert_eq!(stored.stand.received(id), [answer]);
    }
}

#[test]
fn a_stored_purge_is_answered_once_it_is_on_disk_and_another_at_once() {
    let mut stored = Stored::new();
    let id = stored.stand.client();
    stored.declare_durable(id, "q", &[]);
    stored.stand.publish_persistent(id, "q");
    stored.sync();
    let purge = || {
        let purge = queue::Purge {
            queue: "q".into(),
            nowait: false,
        };
        AMQPClass::Queue(QueueMethod::Purge(purge))
    };
    assert_eq!(stored.stand.run(id, purge()), [""; 0]);
    stored.sync();
    assert_eq!(stored.stand.received(id), ["queue.purge-ok 1"]);
    stored.stand.publish(id, "q", "m");
    assert_eq!(stored.stand.run(id, purge()), ["queue.purge-ok 1"]);
    stored.stand.declare(id, "transient", &[]);
    assert_eq!(
        stored.stand.run(id, delete("transient")),
        ["queue.delete-ok 0"]
    );
}

#[test]
fn a_client_hears_that_something_is_there_when_that_is_on_disk_whoever_made_it() {
    let mut stored = Stored::new();
    let (maker, other) = (stored.stand.client(), stored.stand.client());
    stored.stand.method(maker, 1, declare_durable("q"));
    stored
        .stand
        .method(maker, 1, declare_exchange("x", "direct", durable));
    stored.stand.method(maker, 1, bind("q", "x", ""));
    let asked = [
        declare_queue("q", &[], |declare| declare.passive = true),
        declare_durable("q"),
        declare_exchange("x", "direct", durable),
        bind("q", "x", ""),
    ];
    for method in asked {
        stored.stand.method(other, 1, method);
    }
    stored.stand.method(maker, 1, delete("q"));
    assert_eq!(stored.stand.run(other, delete("q")), [""; 0]);
    stored.sync();
    let received = stored.stand.received(other);
    let expected = [
        "queue.declare-ok 0 0",
        "queue.declare-ok 0 0",
        "exchange.declare-ok",
        "50.21",
        "queue.delete-ok 0",
    ];
    assert_eq!(received, expected);
}

#[test]
fn nothing_overtakes_an_answer_that_waits_and_other_channels_do_not_wait_for_it() {
    let mut stored = Stored::new();
    let id = stored.stand.client();
    let stand = &mut stored.stand;
    let open = || AMQPClass::Channel(ChannelMethod::Open(channel::Open {}));
    stand.method(id, 2, open());
    stand.received(id);
    stand.select_confirms(id);
    stand.method(id, 1, declare_durable("q"));
    stand.consume(id, "q", "c", true);
    stand.publish(id, "q", "m");
    stand.publish(id, "nowhere", "m");
    stand.get(id, "q", true);
    stand.method(id, 1, declare_durable("q2"));
    let close = ChannelMethod::Close(channel::Close::default());
    stand.method(id, 1, AMQPClass::Channel(close));
    // On the other channel, and to another client.
    stand.method(id, 2, declare_queue("other", &[], |_| ()));
    assert_eq!(stand.received(id), ["queue.declare-ok 0 0"]);
    let second = stand.client();
    stand.declare(second, "third", &[]);
    stored.sync();
    let expected = [
        "queue.declare-ok 0 0",
        "consume-ok c",
        "c 1 m",
        "ack 1 false",
        "return 312 m",
        "ack 2 false",
        "get-empty",
        "queue.declare-ok 0 0",
        "20.41",
    ];
    assert_eq!(stored.stand.received(id), expected);
}

#[test]
fn a_client_that_leaves_is_answered_before_it_is_told_good_bye() {
    let mut stored = Stored::new();
    let id = stored.stand.client();
    stored.stand.method(id, 1, declare_durable("q"));
    let close = ConnectionMethod::Close(connection::Close::default());
    stored.stand.method(id, 0, AMQPClass::Connection(close));
    assert_eq!(stored.stand.received(id), [""; 0]);
    stored.sync();
    let received = stored.stand.received(id);
    assert_eq!(received, ["queue.declare-ok 0 0", "connection.close-ok"]);
    // The client closes the socket.
    assert_eq!(stored.stand.connection(id).phase(), Phase::Closing);
}

#[test]
fn a_request_that_waits_for_a_failing_disk_ends_its_channel_and_no_other() {
    let mut stored = Stored::with_short_segments();
    let id = stored.stand.client();
    stored.declare_durable(id, "before", &[]);
    stored.stand.method(id, 1, declare_durable("q"));
    // This channel is closed before, and the new one with its number is not closed instead.
    let other = stored.stand.client();
    stored.stand.method(other, 1, declare_durable("q2"));
    stored.stand.reopen(other);
    stored.lose_disk();
    assert_eq!(stored.stand.received(id), ["channel.close 406"]);
    assert_eq!(stored.stand.received(other), ["20.41", "channel.open-ok"]);
    assert_eq!(stored.stand.ready(other, "before"), "queue.declare-ok 0 0");
    // Answers that cannot come true are no longer promised.
    assert_eq!(
        stored.stand.run(other, delete("before")),
        ["channel.close 406"]
    );
}

fn durable(declare: &mut exchange::Declare) {
    declare.durable = true;
}

fn declare_durable(queue: &str) -> AMQPClass {
    declare_queue(queue, &[], |declare| declare.durable = true)
}

fn unbind(queue: &str, exchange: &str) -> AMQPClass {
    let unbind = queue::Unbind {
        queue: queue.into(),
        exchange: exchange.into(),
        ..queue::Unbind::default()
    };
    AMQPClass::Queue(QueueMethod::Unbind(unbind))
}

fn unbind_exchange(destination: &str, source: &str) -> AMQPClass {
    let unbind = exchange::Unbind {
        destination: destination.into(),
        source: source.into(),
        ..exchange::Unbind::default()
    };
    AMQPClass::Exchange(exchange::AMQPMethod::Unbind(unbind))
}

fn delete_exchange(exchange: &str) -> AMQPClass {
    let delete = exchange::Delete {
        exchange: exchange.into(),
        ..exchange::Delete::default()
    };
    AMQPClass::Exchange(exchange::AMQPMethod::Delete(delete))
}
