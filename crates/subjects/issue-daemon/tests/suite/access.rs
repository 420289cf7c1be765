//! Access that changes between the daemon and direct mode.

use issue_rpc::{Access, Call, database_identity};
use issue_store::Options;
use nix::sys::signal::Signal;
use serde_json::json;

use test_kit::wait_until;

use crate::support::{Daemon, reader};

/// Creates an issue. Returns the change of the way that it took, if there is one.
fn create(access: &mut Access, title: &str) -> Option<String> {
    let call = Call::new("create", json!({ "title": title })).with_key(title);
    access.call(&call).unwrap();
    access.take_change()
}

#[test]
fn requests_go_to_the_database_when_the_daemon_ends_and_back_when_one_starts() {
    let folder = tempfile::tempdir().unwrap();
    let database = database_identity(&folder.path().join("issues.db")).unwrap();
    let mut access = Access::new(&database, "me", Options::default());
    let change = create(&mut access, "1").unwrap();
    assert!(change.ends_with("no daemon runs"), "{change}");

    let mut daemon = Daemon::on(&database, &[]);
    let (mut tried, mut change) = (1, None);
    wait_until("the daemon is noticed", || {
        tried += 1;
        change = create(&mut access, &tried.to_string());
        change.is_some()
    });
    let change = change.unwrap();
    assert!(change.ends_with("one has started"), "{change}");

    daemon.signal(Signal::SIGKILL);
    daemon.wait();
    let change = create(&mut access, "last").unwrap();
    assert!(change.ends_with("the daemon ended"), "{change}");
    assert_eq!(reader(&database).stats().unwrap().total, tried + 1);
}
