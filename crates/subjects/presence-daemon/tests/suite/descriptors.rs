//! The daemon with the descriptors that a system grants it.

use std::net::TcpStream;

use serde_json::json;
use test_kit::limit_open_files;

use crate::client::Client;
use crate::daemon::Daemon;

#[test]
fn clients_wait_while_no_descriptor_is_left() {
    let daemon = Daemon::start(&[]);
    limit_open_files(daemon.child.id(), 60);
    let (mut first, _) = Client::join(daemon.address, "r", "ann");
    // More than the daemon has descriptors for.
    let connect = || TcpStream::connect(daemon.address).expect("the daemon listens");
    let mut others: Vec<_> = (0..60).map(|_| connect()).collect();
    assert_eq!(first.heartbeat(&json!({"n": 1}))["ok"], true);
    drop(others.split_off(20));
    daemon.wait_until("accepting failed", || {
        daemon.metric("presence_accept_errors_total") > 0
    });
    drop(others);
    Client::join(daemon.address, "r", "bob");
    assert_eq!(first.heartbeat(&json!({"n": 2}))["ok"], true);
}
