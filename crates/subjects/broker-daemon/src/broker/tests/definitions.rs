//! Exchanges, queues and bindings: what a client outside cannot see, or not for sure.

use super::*;

#[test]
fn an_exclusive_queue_is_the_same_whether_declared_durable_or_not() {
    let mut stand = Stand::new();
    let id = stand.client();
    for durable in [false, true] {
        let declare = declare_queue("q", &[], |declare| {
            declare.exclusive = true;
            declare.durable = durable;
        });
        assert_eq!(stand.run(id, declare), ["queue.declare-ok 0 0"]);
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
        let source = format!("e{number}");
        stand.run(
            id,
            declare_exchange(&source, "fanout", |declare| declare.auto_delete = true),
        );
        let bind = match number {
            0 => bind("q", &source, ""),
            _ => bind_exchange(&format!("e{}", number - 1), &source, ""),
        };
        stand.run(id, bind);
    }
    assert_eq!(
        stand.broker.topology.vhost(0).exchanges.len(),
        before + LENGTH
    );
    assert_eq!(stand.run(id, delete("q")), ["queue.delete-ok 0"]);
    assert_eq!(stand.broker.topology.vhost(0).exchanges.len(), before);
}

#[test]
fn a_queue_that_is_declared_as_a_quorum_queue_runs_as_a_classic_one_where_that_is_asked_for() {
    let declare = |kind| {
        let arguments = [("x-queue-type", text(kind))];
        declare_queue("q", &arguments, |declare| declare.durable = true)
    };
    let mut stand = Stand::new();
    let id = stand.client();
    assert_eq!(stand.run(id, declare("quorum")), ["channel.close 406"]);
    let mut stand = Stand::with(Config {
        quorum_as_classic: true,
        ..Config::default()
    });
    let id = stand.client();
    for _ in 0..2 {
        assert_eq!(stand.run(id, declare("quorum")), ["queue.declare-ok 0 0"]);
    }
    // A declaration with the type classic differs from it.
    assert_eq!(stand.run(id, declare("classic")), ["channel.close 406"]);
}
