//! The way of requests: through a daemon, or directly.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Folder, require_daemon, text};

#[test]
fn a_daemon_is_used_while_it_runs() {
    let folder = Folder::new();
    let notes = |arguments: &str| text(&folder.run(&format!("{arguments} -v")).stderr);
    assert!(notes("create a").contains("directly to"), "no daemon runs");
    folder.start_daemon();
    assert!(
        folder
            .done("daemon start")
            .starts_with("a daemon runs already")
    );
    assert_eq!(notes("create b"), "");
    assert!(notes("create c --direct").contains("as asked"));
    assert_eq!(folder.done("count"), "3");
    assert!(folder.done("daemon status").contains("database"));
    assert!(folder.done("daemon health").contains("healthy"));
    assert!(folder.done("daemon metrics").contains("# TYPE"));
    assert_eq!(folder.done("daemon stop"), "the daemon stops");
    assert_eq!(folder.done("count"), "3");
}

#[test]
fn a_daemon_is_started_on_request_and_by_several_processes_only_once() {
    require_daemon();
    let folder = Folder::new();
    let mut children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = folder.command("create a");
            command.env("ISSUE_AUTO_START", "1").spawn().unwrap()
        })
        .collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert!(folder.daemon_pid().is_some());
    assert_eq!(folder.done("count"), "8");
}

#[test]
fn without_a_daemon_to_start_the_command_is_performed_all_the_same() {
    let folder = Folder::new();
    // A copy of the program that has no daemon beside it. Another process makes it: this one may be forked by another
    // test while the copy is open for writing, and a program that is open for writing cannot be run.
    let alone = folder.path().join("issue");
    let copied = Command::new("cp")
        .args([Path::new(env!("CARGO_BIN_EXE_issue")), &alone])
        .status();
    assert!(copied.unwrap().success());
    let output = Command::new(&alone)
        .args(["create", "a", "--auto-start"])
        .current_dir(folder.path())
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(error.contains("no daemon could be started"), "{error}");
    assert_eq!(folder.done("count"), "1");
}

#[test]
fn a_database_is_found_from_a_folder_below() {
    let folder = Folder::new();
    let below = folder.path().join("a/b");
    fs::create_dir_all(&below).unwrap();
    let output = folder
        .command("create a")
        .current_dir(&below)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(folder.done("count"), "1");
}
