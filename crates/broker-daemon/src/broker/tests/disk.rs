//! A disk that takes nothing more: what it was trusted with stays with the broker.

use std::sync::mpsc;
use std::time::Duration;

use amq_protocol::protocol::tx;

use super::*;
use crate::log::{Options, State};

impl Stand {
    /// A broker whose log fails after `prepare`, since its folder goes.
    fn with_failing_disk(prepare: impl FnOnce(&mut Self) -> ConnectionId) -> (Self, ConnectionId) {
        let folder = tempfile::tempdir().unwrap();
        let (wake, woken) = mpsc::channel();
        // The test may have seen enough.
        let tell = move || wake.send(()).unwrap_or_default();
        let (log, recovered) = Log::open(folder.path(), Options::default(), tell).unwrap();
        let mut stand = Self::new();
        stand.broker.open_store(log, recovered).unwrap();
        let id = prepare(&mut stand);
        folder.close().unwrap();
        stand.broker.flush_log();
        let has_failed =
            |broker: &Broker| matches!(broker.log.as_ref().map(Log::state), Some(State::Failed(_)));
        while !has_failed(&stand.broker) {
            woken.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        stand.broker.finish_turn();
        (stand, id)
    }

    fn declare_durable(&mut self, id: ConnectionId, queue: &str, arguments: &[(&str, AMQPValue)]) {
        let declare = queue::Declare {
            durable: true,
            ..queue_declare(queue, arguments)
        };
        self.method(id, 1, AMQPClass::Queue(QueueMethod::Declare(declare)));
        assert_eq!(self.told(id), ["queue.declare-ok 0 0"]);
    }

    fn publish_persistent(&mut self, id: ConnectionId, queue: &str) {
        let persistent = AMQPProperties::default().with_delivery_mode(2);
        self.publish_as(id, ("", queue), persistent, b"m");
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
    let (mut stand, id) = Stand::with_failing_disk(|stand| {
        let id = stand.client();
        let dead = [
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dead")),
        ];
        stand.declare_durable(id, "dead", &[]);
        stand.declare_durable(id, "q", &dead);
        stand.publish_persistent(id, "q");
        stand.consume(id, "q", "c", false);
        assert_eq!(stand.told(id), ["consume-ok c", "c 1 m"]);
        id
    });
    stand.select_confirms(id);
    stand.publish_persistent(id, "q");
    assert_eq!(stand.told(id), ["nack 1 false"]);
    stand.reject(id, 1);
    assert_eq!(stand.ready(id, "dead"), "queue.declare-ok 1 0");
}

#[test]
fn a_transaction_that_cannot_be_stored_gives_back_what_it_was_to_settle() {
    let (mut stand, id) = Stand::with_failing_disk(|stand| {
        let id = stand.client();
        stand.declare_durable(id, "q", &[]);
        stand.publish_persistent(id, "q");
        let select = tx::AMQPMethod::Select(tx::Select {});
        stand.method(id, 1, AMQPClass::Tx(select));
        stand.consume(id, "q", "c", false);
        stand.told(id);
        stand.reject(id, 1);
        stand.publish_persistent(id, "q");
        id
    });
    let commit = tx::AMQPMethod::Commit(tx::Commit {});
    stand.method(id, 1, AMQPClass::Tx(commit));
    assert_eq!(stand.told(id), ["channel.close 406"]);
    let other = stand.client();
    assert_eq!(stand.ready(other, "q"), "queue.declare-ok 1 0");
}

#[test]
fn what_waits_for_a_disk_that_fails_is_nacked() {
    let (mut stand, id) = Stand::with_failing_disk(|stand| {
        let id = stand.client();
        stand.declare_durable(id, "q", &[]);
        stand.select_confirms(id);
        stand.publish_persistent(id, "q");
        assert_eq!(stand.told(id), [""; 0]);
        id
    });
    assert_eq!(stand.told(id), ["nack 1 false"]);
}

#[test]
fn a_deleted_queue_leaves_nothing_in_the_log_also_of_what_is_unacknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (log, recovered) = Log::open(folder.path(), Options::default(), || {}).unwrap();
    let mut stand = Stand::new();
    stand.broker.open_store(log, recovered).unwrap();
    let id = stand.client();
    stand.declare_durable(id, "q", &[]);
    stand.publish_persistent(id, "q");
    stand.publish_persistent(id, "q");
    stand.basic(
        id,
        Basic::Get(basic::Get {
            queue: "q".into(),
            no_ack: false,
        }),
    );
    assert_eq!(stand.told(id), ["get 1 1 m"]);
    let live = |stand: &Stand| stand.broker.log.as_ref().unwrap().usage().live_bytes;
    assert!(live(&stand) > 0);
    let delete = queue::Delete {
        queue: "q".into(),
        ..queue::Delete::default()
    };
    stand.method(id, 1, AMQPClass::Queue(QueueMethod::Delete(delete)));
    assert_eq!(stand.told(id), ["queue.delete-ok 1"]);
    assert_eq!(live(&stand), 0);
}

#[test]
fn a_channel_that_takes_the_number_of_another_is_not_told_of_its_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (wake, woken) = mpsc::channel();
    let tell = move || wake.send(()).unwrap_or_default();
    let (log, recovered) = Log::open(folder.path(), Options::default(), tell).unwrap();
    let mut stand = Stand::new();
    stand.broker.open_store(log, recovered).unwrap();
    let id = stand.client();
    stand.declare_durable(id, "q", &[]);
    let in_tx = |method| AMQPClass::Tx(method);
    stand.method(id, 1, in_tx(tx::AMQPMethod::Select(tx::Select {})));
    stand.publish_persistent(id, "q");
    stand.told(id);
    stand.method(id, 1, in_tx(tx::AMQPMethod::Commit(tx::Commit {})));
    assert_eq!(stand.told(id), [""; 0]);
    let close = ChannelMethod::Close(channel::Close::default());
    stand.method(id, 1, AMQPClass::Channel(close));
    let open = ChannelMethod::Open(channel::Open {});
    stand.method(id, 1, AMQPClass::Channel(open));
    stand.told(id);
    stand.broker.flush_log();
    let is_synced = |broker: &Broker| {
        let log = broker.log.as_ref().unwrap();
        log.synced() == log.ticket()
    };
    while !is_synced(&stand.broker) {
        woken.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    stand.broker.finish_turn();
    assert_eq!(stand.told(id), [""; 0]);
    assert_eq!(stand.ready(id, "q"), "queue.declare-ok 1 0");
}
