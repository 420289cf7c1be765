//! Syncs that fail, injected into the real system calls.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom as _;
use serde_json::json;
use test_kit::{scaled, seed, skip, wait_until};

use crate::support::{Daemon, reader};

/// The calls of each thread of which one fails in each run. A full run has them all.
const CALLS: u32 = 50;
/// Runs at once. They wait most of the time, because the daemon tries a failed disk again after a second.
const AT_ONCE: usize = 10;

/// Returns true if system calls can be traced here.
fn can_trace() -> bool {
    let traced = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "true"])
        .stderr(Stdio::null())
        .status();
    if traced.as_ref().is_ok_and(|status| status.success()) {
        return true;
    }
    skip(format!("strace and the right to trace: {traced:?}"));
    false
}

/// Starts a daemon whose threads each have one failing sync. None if that was needed for the start.
fn start(database: &Path, call: u32) -> Option<Daemon> {
    let mut command = Command::new("strace");
    let fault = format!("inject=fsync,fdatasync:error=EIO:when={call}");
    command
        .args([
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "trace=fsync,fdatasync",
            "-e",
            &fault,
        ])
        .arg(env!("CARGO_BIN_EXE_issue-daemon"))
        .arg("--db")
        .arg(database)
        .stderr(Stdio::piped());
    Daemon::try_start(command, database)
}

/// Creates issues while one sync fails. Returns the number of refusals.
fn write_past_a_failure(call: u32) -> u32 {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("issues.db");
    let Some(mut daemon) = start(&database, call) else {
        // It refused to start. Without the fault it starts.
        Daemon::on(&database, &[]).stop();
        return 1;
    };
    let mut client = daemon.client();
    let mut acknowledged = Vec::new();
    let mut refused = 0;
    for number in 0..CALLS + 20 {
        let id = format!("x-{number}");
        let answer = client.call("create", json!({"title": "a", "id": id}));
        if answer["success"] == true {
            acknowledged.push(id);
            continue;
        }
        assert_eq!(answer["code"], "internal", "{answer}");
        refused += 1;
        assert_eq!(client.data("health", json!({}))["status"], "read_only");
        wait_until("the daemon writes again", || {
            client.call("create", json!({"title": "after the failure"}))["success"] == true
        });
        assert_eq!(client.data("health", json!({}))["status"], "healthy");
    }
    client.data("shutdown", json!({}));
    daemon.wait();
    let reader = reader(&database);
    assert_eq!(reader.check().unwrap(), Vec::<String>::new());
    for id in &acknowledged {
        assert!(
            reader.show(id).is_ok(),
            "{id} was acknowledged, and is not there"
        );
    }
    refused
}

#[test]
fn a_failed_sync_acknowledges_nothing_and_the_daemon_goes_on() {
    if !can_trace() {
        return;
    }
    let mut random = StdRng::seed_from_u64(seed());
    let calls: Vec<u32> = (1..=CALLS).sample(&mut random, scaled(CALLS.into()) as usize);
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let refused = write_past_a_failure(*call);
                    failed.fetch_add(usize::from(refused > 0), Ordering::Relaxed);
                }
            });
        }
    });
    // SQLite ignores a failed sync of a folder, and of the checkpoint when the last connection closes.
    let failed = failed.into_inner();
    assert!(
        failed + 2 >= calls.len(),
        "only {failed} failures were noticed"
    );
}
