//! A client in another language, which shares no code with the daemon.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use test_kit::skip;

use crate::support::Daemon;

#[test]
fn a_client_in_go_creates_issues_and_finds_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../daemons/go-issue-client");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("go-issue-client");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&source)
        .output();
    let built = match built {
        Ok(built) => built,
        Err(error) => return skip(format!("go: {error}")),
    };
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let daemon = Daemon::new(&[]);
    let output = Command::new(&program)
        .arg("-socket")
        .arg(&daemon.socket)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["creates"], 800);
    assert_eq!(daemon.reader().stats().unwrap().total, 800);
    // The socket of a daemon that is gone.
    let socket = daemon.socket.clone();
    daemon.stop();
    let output = Command::new(&program)
        .arg("-socket")
        .arg(&socket)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
}
