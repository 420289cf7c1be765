//! Exchanges, queues and bindings: what a client outside cannot see, or not for sure.

use super::*;

fn exchange_declare(name: &str, kind: &str) -> exchange::Declare {
    exchange::Declare {
        exchange: name.into(),
        kind: kind.into(),
        ..exchange::Declare::default()
    }
}

#[test]
fn an_exclusive_queue_is_the_same_whether_declared_durable_or_not() {
    let mut stand = Stand::new();
    let id = stand.client();
    for durable in [false, true] {
        let declare = queue::Declare {
            exclusive: true,
            durable,
            ..queue_declare("q", &[])
        };
        stand.method(id, 1, AMQPClass::Queue(QueueMethod::Declare(declare)));
        assert_eq!(stand.received(id), ["queue.declare-ok 0 0"]);
    }
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
