//! The first clients of a node that starts.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::client::{Client, conns};
use crate::daemon::Daemon;
use crate::redis::Redis;

#[test]
fn the_first_client_of_a_node_sees_the_members_of_the_others_although_redis_is_slow() {
    let Some(redis) = Redis::start() else { return };
    let url = redis.url();
    let patient = [
        "--redis",
        &url,
        "--node-lease-ms",
        "60000",
        "--redis-timeout-ms",
        "20000",
    ];
    let first = Daemon::start(&patient);
    let (_ann, _) = Client::join(first.address, "r", "ann");
    redis.send(Signal::SIGSTOP);
    let second = Daemon::start(&patient);
    let address = second.address;
    let joining = thread::spawn(move || Client::join(address, "r", "bob"));
    // Time for a wrong answer, whose absence no condition shows; the right one can't come before Redis goes on.
    thread::sleep(Duration::from_millis(300));
    redis.send(Signal::SIGCONT);
    let (_bob, answer) = joining.join().expect("no panic");
    assert!(answer.get("degraded").is_none(), "{answer}");
    assert_eq!(conns(&answer).len(), 2, "{answer}");
}

#[test]
fn a_node_starts_alone_if_redis_does_not_run() {
    let daemon = Daemon::start(&["--redis", "redis://127.0.0.1:1"]);
    let (_ann, answer) = Client::join(daemon.address, "r", "ann");
    assert_eq!(answer["degraded"], true, "{answer}");
}
