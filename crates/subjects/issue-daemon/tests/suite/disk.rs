//! Disks that are full, read-only or locked by others.

use std::path::Path;

use issue_store::{Options, Store};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;

use test_kit::{skip, wait_until};

use crate::support::{Daemon, command};

/// A file system of 8 MiB. `None` if mounting is not allowed.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let kind = Some("tmpfs");
        let Err(error) = mount(kind, folder.path(), kind, MsFlags::empty(), Some("size=8m")) else {
            return Some(Self(folder));
        };
        skip(format!("the right to mount a file system: {error}"));
        None
    }

    fn remount(&self, flags: MsFlags) {
        let (path, none) = (self.0.path(), None::<&Path>);
        mount(none, path, none, MsFlags::MS_REMOUNT | flags, none).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        umount2(self.0.path(), MntFlags::MNT_DETACH).unwrap();
    }
}

#[test]
fn a_full_disk_refuses_writes_loses_nothing_and_recovers_by_itself() {
    let Some(small) = Small::new() else { return };
    let outside = tempfile::tempdir().unwrap();
    let socket = outside.path().join("s");
    let database = small.0.path().join("issues.db");
    let mut daemon = Daemon::on(&database, &["--socket", socket.to_str().unwrap()]);
    let mut client = daemon.client();
    client.create("first");
    let fill = small.0.path().join("fill");
    std::fs::write(&fill, vec![0; 6 << 20]).unwrap();
    let mut created = 1;
    let refusal = loop {
        let answer = client.call(
            "create",
            json!({"title": "a", "description": "d".repeat(100_000)}),
        );
        match answer["success"].as_bool() {
            Some(true) => created += 1,
            _ => break answer,
        }
        assert!(created < 100, "more than there is space for");
    };
    assert_eq!(refusal["code"], "internal", "{refusal}");
    assert!(
        refusal["error"].as_str().unwrap().contains("full"),
        "{refusal}"
    );
    let health = client.data("health", json!({}));
    assert_eq!(health["status"], "read_only", "{health}");
    let line = daemon.line();
    assert!(
        line.contains("read-only since") && line.contains("full"),
        "{line}"
    );
    assert_eq!(
        client.data("count", json!({}))["count"],
        created,
        "reads are answered"
    );
    let refusal = client.call("create", json!({"title": "b"}));
    assert!(
        refusal["error"].as_str().unwrap().contains("since"),
        "{refusal}"
    );

    std::fs::remove_file(&fill).unwrap();
    wait_until("writes are stored again", || {
        client.call("create", json!({"title": "after"}))["success"] == true
    });
    assert_eq!(client.data("health", json!({}))["status"], "healthy");
    assert!(daemon.line().contains("takes writes again"));
    assert_eq!(client.data("count", json!({}))["count"], created + 1);
    assert_eq!(daemon.reader().check().unwrap(), Vec::<String>::new());
    daemon.stop();
}

#[test]
fn a_database_on_a_read_only_disk_is_refused_by_name() {
    let Some(small) = Small::new() else { return };
    let outside = tempfile::tempdir().unwrap();
    let socket = outside.path().join("s");
    let database = small.0.path().join("issues.db");
    Daemon::on(&database, &["--socket", socket.to_str().unwrap()]).stop();
    small.remount(MsFlags::MS_RDONLY);
    let output = command(&database)
        .arg("--socket")
        .arg(&socket)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.to_lowercase().contains("read-only") && text.contains("issues.db"),
        "{text}"
    );
}

#[test]
fn a_database_that_another_program_holds_is_busy_until_it_lets_go() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    client.create("first");
    let store = Store::open(&daemon.database, Options::default()).unwrap();
    let other = store.writer().unwrap();
    // Without the queue that programs of this project use.
    other.connection().execute_batch("BEGIN IMMEDIATE").unwrap();
    let answer = client.call("create", json!({"title": "a"}));
    assert_eq!(answer["code"], "busy", "{answer}");
    assert_eq!(
        client.data("count", json!({}))["count"],
        1,
        "reads do not wait"
    );
    other.connection().execute_batch("ROLLBACK").unwrap();
    client.create("second");
    assert_eq!(client.data("health", json!({}))["status"], "healthy");
}

#[test]
fn a_database_file_that_is_removed_or_replaced_is_noticed_before_a_write_is_acknowledged() {
    for (end, is_replaced) in [("", false), ("-wal", false), ("-shm", false), ("", true)] {
        let mut daemon = Daemon::new(&[]);
        let mut client = daemon.client();
        client.create("first");
        let name = daemon.database.file_name().unwrap().to_str().unwrap();
        let path = daemon.database.with_file_name(format!("{name}{end}"));
        let copy = daemon.database.with_file_name("copy");
        std::fs::copy(&path, &copy).unwrap();
        if is_replaced {
            std::fs::rename(&copy, &path).unwrap()
        } else {
            std::fs::remove_file(&path).unwrap()
        }
        let word = if is_replaced { "replaced" } else { "removed" };
        let health = client.data("health", json!({}));
        let problem = health["problem"].as_str().unwrap_or_default();
        assert_eq!(health["status"], "read_only", "{path:?}: {health}");
        assert!(
            problem.contains(word) && problem.contains(path.to_str().unwrap()),
            "{health}"
        );
        for _ in 0..2 {
            let refusal = client.call("create", json!({"title": "a"}));
            assert_eq!(refusal["code"], "internal", "{path:?}: {refusal}");
            assert!(
                refusal["error"].as_str().unwrap().contains(word),
                "{refusal}"
            );
        }
        assert_eq!(
            client.data("count", json!({}))["count"],
            1,
            "reads are answered"
        );
        assert!(daemon.line().contains(word));
        daemon.stop();
    }
}
