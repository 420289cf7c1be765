//! A client in another language, which shares no code with the daemon.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use test_kit::skip;

use crate::support::Daemon;

/// Builds the client in `folder`, or says that Go is missing.
fn build(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../daemons/go-issue-client");
    let program = folder.join("go-issue-client");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&source)
        .output();
    let built = match built {
        Ok(built) => built,
        Err(error) => {
            skip(format!("go: {error}"));
            return None;
        }
    };
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    Some(program)
}

/// Runs the client with two issues of one agent.
fn create_two(program: &Path, socket: &Path) -> Output {
    let mut client = Command::new(program);
    client.args(["-agents", "1", "-ops", "2", "-socket"]);
    client.arg(socket).output().unwrap()
}

#[track_caller]
fn is_refused(output: &Output, problem: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(problem), "{stderr}");
}

#[test]
fn a_client_in_go_creates_issues_and_finds_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path()) else {
        return;
    };
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

#[test]
fn a_client_in_go_refuses_a_folder_of_sockets_that_is_open_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path()) else {
        return;
    };
    let daemon = Daemon::new(&[]);
    // The name of a socket that is not beside its database.
    let socket = folder.path().join("0123456789abcdef.sock");
    symlink(&daemon.socket, &socket).unwrap();
    let open_to = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.path(), permissions).unwrap();
        create_two(&program, &socket)
    };
    is_refused(&open_to(0o755), "is not this user's alone: remove it");
    assert_eq!(daemon.reader().stats().unwrap().total, 0);
    assert!(open_to(0o700).status.success());
    assert_eq!(daemon.reader().stats().unwrap().total, 2);
}

#[test]
fn a_client_in_go_sends_nothing_to_another_user() {
    if !nix::unistd::geteuid().is_root() {
        return skip("root, to be another user");
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path()) else {
        return;
    };
    let shared = folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&shared, 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    // Prints what it receives until the end of the connection.
    let listen = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('issues.sock'); s.listen(); \
                  print('listens', flush=True); print(s.accept()[0].recv(99))";
    let mut other = Command::new("python3")
        .args(["-c", listen])
        .current_dir(&shared)
        .uid(65534)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "listens");
    let output = create_two(&program, &shared.join("issues.sock"));
    is_refused(&output, "user 65534 listens there");
    assert_eq!(lines.next().unwrap().unwrap(), "b''");
    assert!(other.wait().unwrap().success());
}
