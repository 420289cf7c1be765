//! Other databases that store the same issues.

use std::path::Path;
use std::process::Command;

use harness_testing::program::Program;
use harness_testing::skip;

#[test]
fn other_databases_store_the_same_issues() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for name in ["postgresql-issues", "redis-aof-issues", "etcd-issues"] {
        if let Err(missing) = subject::daemon::Daemon::check_tools(&root, name) {
            skip(missing);
            continue;
        }
        let program = Program::new(env!("CARGO_BIN_EXE_issue-stress"));
        let arguments = ["--daemon", name, "--agents", "4", "--ops", "25"];
        let run = program.args(arguments).run();
        assert_eq!(run.result.operations("ok"), 100, "{name}: {}", run.stdout);
        assert_eq!(run.result.values("create"), 100, "{name}");
        assert_eq!(run.result.values("sync"), 1_000, "{name}");
        run.result.counts(&[("created", 100)]);
    }
}

#[test]
fn check_creates_an_issue_on_every_daemon() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut check = Command::new(env!("CARGO_BIN_EXE_issue-stress"));
    let output = check
        .args(["check", "--quiet"])
        .current_dir(root)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{errors}");
    for (name, found) in [
        ("issue-daemon", "right, an issue is created and shown"),
        ("issue-direct", "right, an issue is created and shown"),
        ("postgresql-issues", "right, an issue is created"),
        ("redis-aof-issues", "right, an issue is created"),
        ("etcd-issues", "right, an issue is created"),
    ] {
        let mut lines = printed.lines().filter_map(|line| line.split_once(": "));
        let line = lines.find(|(of, _)| *of == name).unwrap();
        let is_skipped = line.1.starts_with("skipped: it needs ");
        assert!(line.1 == found || is_skipped, "{printed}");
    }
}
