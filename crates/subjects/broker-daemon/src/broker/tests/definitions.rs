//! Exchanges, queues and bindings: equal declarations, missing objects, and objects of other connections.

use super::*;

fn exchange_declare(name: &str, kind: &str) -> exchange::Declare {
    exchange::Declare {
        exchange: name.into(),
        kind: kind.into(),
        ..exchange::Declare::default()
    }
}

fn ask_exchange(stand: &mut Stand, declare: exchange::Declare) -> String {
    let id = stand.client();
    stand.method(
        id,
        1,
        AMQPClass::Exchange(exchange::AMQPMethod::Declare(declare)),
    );
    let received = stand.received(id).pop().unwrap();
    stand.broker.disconnect(id);
    received
}

fn ask_queue(stand: &mut Stand, id: ConnectionId, declare: queue::Declare) -> String {
    stand.method(id, 1, AMQPClass::Queue(QueueMethod::Declare(declare)));
    let received = stand.received(id).pop().unwrap();
    if received.starts_with("channel.close") {
        stand.method(
            id,
            1,
            AMQPClass::Channel(ChannelMethod::CloseOk(channel::CloseOk {})),
        );
        stand.method(
            id,
            1,
            AMQPClass::Channel(ChannelMethod::Open(channel::Open {})),
        );
        assert_eq!(stand.received(id), ["channel.open-ok"]);
    }
    received
}

#[test]
fn exchanges_are_declared_again_only_as_they_are() {
    let mut stand = Stand::new();
    let passive = |name: &str| exchange::Declare {
        passive: true,
        ..exchange_declare(name, "")
    };
    let durable = |name: &str| exchange::Declare {
        durable: true,
        ..exchange_declare(name, "topic")
    };
    for (declare, answer) in [
        (exchange_declare("e", "topic"), "exchange.declare-ok"),
        (exchange_declare("e", "topic"), "exchange.declare-ok"),
        (passive("e"), "exchange.declare-ok"),
        (durable("e"), "channel.close 406"),
        (exchange_declare("e", "direct"), "channel.close 406"),
        (passive("f"), "channel.close 404"),
        (exchange_declare("amq.new", "direct"), "channel.close 403"),
        (durable("amq.topic"), "exchange.declare-ok"),
        (exchange_declare("", "direct"), "channel.close 403"),
        (exchange_declare("e", "round"), "connection.close 503"),
    ] {
        assert_eq!(
            ask_exchange(&mut stand, declare.clone()),
            answer,
            "{declare:?}"
        );
    }
}

#[test]
fn queues_are_declared_again_only_as_they_are_and_by_their_owner() {
    let mut stand = Stand::new();
    let (owner, other) = (stand.client(), stand.client());
    let own = queue::Declare {
        exclusive: true,
        ..queue_declare("own", &[])
    };
    let passive = |name: &str| queue::Declare {
        passive: true,
        ..queue_declare(name, &[])
    };
    let durable = |declare: &queue::Declare| queue::Declare {
        durable: true,
        ..declare.clone()
    };
    let ttl = |value| [("x-message-ttl", AMQPValue::LongInt(value))];
    for (id, declare, answer) in [
        (owner, own.clone(), "queue.declare-ok 0 0"),
        (owner, passive("own"), "queue.declare-ok 0 0"),
        (owner, durable(&own), "queue.declare-ok 0 0"),
        (other, own, "channel.close 405"),
        (other, passive("own"), "channel.close 405"),
        (owner, queue_declare("own", &[]), "channel.close 405"),
        (other, passive("none"), "channel.close 404"),
        (other, queue_declare("amq.own", &[]), "channel.close 403"),
        (other, queue_declare("q", &ttl(5)), "queue.declare-ok 0 0"),
        (
            other,
            queue_declare("q", &[("x-message-ttl", AMQPValue::ShortShortUInt(5))]),
            "queue.declare-ok 0 0",
        ),
        (other, queue_declare("q", &ttl(6)), "channel.close 406"),
        (other, queue_declare("q", &[]), "channel.close 406"),
        (other, queue_declare("r", &ttl(-1)), "channel.close 406"),
    ] {
        assert_eq!(
            ask_queue(&mut stand, id, declare.clone()),
            answer,
            "{declare:?}"
        );
    }
    // It is deleted with its connection.
    stand.broker.disconnect(owner);
    assert_eq!(
        ask_queue(&mut stand, other, passive("own")),
        "channel.close 404"
    );
}

#[test]
fn messages_go_through_exchanges_and_alternates() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    stand.declare(id, "lost", &[]);
    let alternate = table(&[("alternate-exchange", text("rest"))]);
    for declare in [
        exchange_declare("inner", "topic"),
        exchange_declare("rest", "fanout"),
        exchange::Declare {
            arguments: alternate,
            ..exchange_declare("outer", "direct")
        },
    ] {
        stand.method(
            id,
            1,
            AMQPClass::Exchange(exchange::AMQPMethod::Declare(declare)),
        );
    }
    for (to, from, key) in [("q", "inner", "a.*"), ("lost", "rest", "")] {
        let bind = queue::Bind {
            queue: to.into(),
            exchange: from.into(),
            routing_key: key.into(),
            ..queue::Bind::default()
        };
        stand.method(id, 1, AMQPClass::Queue(QueueMethod::Bind(bind)));
    }
    let bind = exchange::Bind {
        destination: "inner".into(),
        source: "outer".into(),
        routing_key: "a.b".into(),
        ..exchange::Bind::default()
    };
    stand.method(id, 1, AMQPClass::Exchange(exchange::AMQPMethod::Bind(bind)));
    stand.received(id);
    for key in ["a.b", "a.c"] {
        stand.publish_as(id, ("outer", key), AMQPProperties::default(), b"m");
    }
    assert_eq!(stand.ready(id, "q"), "queue.declare-ok 1 0");
    assert_eq!(stand.ready(id, "lost"), "queue.declare-ok 1 0");
    stand.publish_as(id, ("inner", "b"), AMQPProperties::default(), b"m");
    assert_eq!(stand.received(id), ["return 312 m"]);
    stand.publish_as(id, ("nowhere", "b"), AMQPProperties::default(), b"m");
    assert_eq!(stand.received(id), ["channel.close 404"]);
}

#[test]
fn a_queue_that_is_deleted_tells_its_consumers_and_leaves_no_binding() {
    let mut stand = Stand::new();
    let (id, other) = (stand.client(), stand.client());
    stand.declare(id, "q", &[]);
    let bind = queue::Bind {
        queue: "q".into(),
        exchange: "amq.fanout".into(),
        ..queue::Bind::default()
    };
    stand.method(id, 1, AMQPClass::Queue(QueueMethod::Bind(bind)));
    stand.consume(other, "q", "c", false);
    stand.publish_as(id, ("amq.fanout", ""), AMQPProperties::default(), b"m");
    assert_eq!(stand.received(other), ["consume-ok c", "c 1 m"]);
    let delete = |if_unused| queue::Delete {
        queue: "q".into(),
        if_unused,
        ..queue::Delete::default()
    };
    stand.received(id);
    stand.method(id, 1, AMQPClass::Queue(QueueMethod::Delete(delete(true))));
    assert_eq!(stand.received(id), ["channel.close 406"]);
    let id = stand.client();
    for count in [0, 0] {
        stand.method(id, 1, AMQPClass::Queue(QueueMethod::Delete(delete(false))));
        assert_eq!(stand.received(id), [format!("queue.delete-ok {count}")]);
    }
    assert_eq!(stand.received(other), ["cancel c"]);
    // Acknowledging a message of a deleted queue is no error.
    let ack = basic::Ack {
        delivery_tag: 1,
        multiple: false,
    };
    stand.basic(other, Basic::Ack(ack));
    assert_eq!(stand.received(other), [""; 0]);
    stand.publish_as(id, ("amq.fanout", ""), AMQPProperties::default(), b"m");
    assert_eq!(stand.received(id), ["return 312 m"]);
    assert_eq!(stand.broker.memory.meter().get(), 0);
}

#[test]
fn a_client_that_deletes_the_queue_it_consumes_from_reads_the_answer_first() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    stand.consume(id, "q", "c", false);
    stand.received(id);
    let delete = queue::Delete {
        queue: "q".into(),
        ..queue::Delete::default()
    };
    stand.method(id, 1, AMQPClass::Queue(QueueMethod::Delete(delete)));
    assert_eq!(stand.received(id), ["queue.delete-ok 0", "cancel c"]);
}

#[test]
fn a_long_chain_of_exchanges_goes_with_its_last_binding() {
    const LENGTH: usize = 5_000;
    let mut stand = Stand::new();
    let id = stand.client();
    stand.declare(id, "q", &[]);
    let before = stand.broker.topology.vhost(0).exchanges.len();
    for number in 0..LENGTH {
        let declare = exchange::Declare {
            auto_delete: true,
            nowait: true,
            ..exchange_declare(&format!("e{number}"), "fanout")
        };
        let declare = exchange::AMQPMethod::Declare(declare);
        stand.method(id, 1, AMQPClass::Exchange(declare));
        let source = format!("e{number}");
        let bind = if number == 0 {
            AMQPClass::Queue(QueueMethod::Bind(queue::Bind {
                queue: "q".into(),
                exchange: source.into(),
                nowait: true,
                ..queue::Bind::default()
            }))
        } else {
            AMQPClass::Exchange(exchange::AMQPMethod::Bind(exchange::Bind {
                destination: format!("e{}", number - 1).into(),
                source: source.into(),
                nowait: true,
                ..exchange::Bind::default()
            }))
        };
        stand.method(id, 1, bind);
    }
    assert_eq!(
        stand.broker.topology.vhost(0).exchanges.len(),
        before + LENGTH
    );
    let delete = queue::Delete {
        queue: "q".into(),
        ..queue::Delete::default()
    };
    stand.method(id, 1, AMQPClass::Queue(QueueMethod::Delete(delete)));
    assert_eq!(stand.received(id), ["queue.delete-ok 0"]);
    assert_eq!(stand.broker.topology.vhost(0).exchanges.len(), before);
}

#[test]
fn a_queue_that_is_declared_as_a_quorum_queue_runs_as_a_classic_one_where_that_is_asked_for() {
    let declare = |stand: &mut Stand, id| {
        let declare = queue::Declare {
            durable: true,
            ..queue_declare("q", &[("x-queue-type", text("quorum"))])
        };
        stand.method(id, 1, AMQPClass::Queue(QueueMethod::Declare(declare)));
        stand.received(id)
    };
    let mut stand = Stand::new();
    let id = stand.client();
    assert_eq!(declare(&mut stand, id), ["channel.close 406"]);
    let mut stand = Stand::with(Config {
        quorum_as_classic: true,
        ..Config::default()
    });
    let id = stand.client();
    for _ in 0..2 {
        assert_eq!(declare(&mut stand, id), ["queue.declare-ok 0 0"]);
    }
    // A declaration with the type classic differs from it.
    let classic = queue::Declare {
        durable: true,
        ..queue_declare("q", &[("x-queue-type", text("classic"))])
    };
    stand.method(id, 1, AMQPClass::Queue(QueueMethod::Declare(classic)));
    assert_eq!(stand.received(id), ["channel.close 406"]);
}
