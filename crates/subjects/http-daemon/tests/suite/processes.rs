//! Tests of the end of the daemon, and that nothing outlives it.

use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::signal::{Signal, kill};

use test_kit::wait_until;

use crate::support::{Daemon, command};

#[test]
fn a_request_in_flight_is_answered_at_the_end_and_idle_connections_are_closed() {
    for processes in ["1", "2"] {
        // Connections are closed because they are idle, not because the grace period is over.
        let shape = format!("--processes {processes} --workers 1");
        let mut daemon = Daemon::start(&format!("{shape} --shutdown-grace 600"));
        let mut idle = daemon.connect();
        let mut fresh = daemon.connect();
        assert_eq!(idle.get("/1kb.txt").status(), 200);
        let mut busy = daemon.connect();
        busy.send(b"GET /fault/slow?ms=100 HTTP/1.1\r\nHost: test\r\n\r\n");
        // The head has arrived, the body is being sent, and the silent connection has been accepted.
        assert_eq!(busy.head().status(), 200);
        daemon.await_metric("http_connections_open", |open| open == 3);
        daemon.signal(Signal::SIGTERM);
        assert!(idle.rest().is_empty());
        assert!(fresh.rest().is_empty());
        assert_eq!(busy.rest().len(), 1024);
        assert!(daemon.wait().success(), "{}", daemon.stderr());
    }
}

#[test]
fn endless_answers_are_broken_off_after_the_grace_or_by_a_second_signal() {
    for (grace, signals) in [("1", 1), ("600", 2)] {
        for processes in ["1", "2"] {
            let mut daemon = Daemon::start(&format!(
                "--processes {processes} --workers 1 --shutdown-grace {grace}"
            ));
            let mut stalled = daemon.connect();
            stalled.send(b"GET /fault/stall HTTP/1.1\r\nHost: test\r\n\r\n");
            daemon.await_metric("http_unanswered_total", |count| count == 1);
            daemon.signal(Signal::SIGTERM);
            if signals == 2 {
                // It has received the first signal once it no longer listens.
                wait_until("the end of listening", || {
                    std::net::TcpStream::connect(daemon.http).is_err()
                });
                daemon.signal(Signal::SIGTERM);
            }
            assert!(daemon.wait().success(), "{}", daemon.stderr());
            let _ = stalled.0.write_all(b"x");
        }
    }
}

#[test]
fn a_daemon_that_is_stopped_at_once_ends_well() {
    for processes in ["1", "8"] {
        for _ in 0..5 {
            let mut daemon = Daemon::start(&format!("--processes {processes} --workers 1"));
            assert!(daemon.stop().success(), "{processes}: {}", daemon.stderr());
        }
    }
}

#[test]
fn no_process_outlives_the_first_one() {
    let mut daemon = Daemon::start("--processes 3 --sink");
    let children = daemon.children();
    assert_eq!(children.len(), 3);
    daemon.signal(Signal::SIGKILL);
    assert!(!daemon.wait().success());
    for child in children {
        wait_until("the end of a process", || {
            let state = std::fs::read_to_string(format!("/proc/{child}/stat"));
            state.is_err() || state.is_ok_and(|state| state.contains(") Z"))
        });
    }
}

#[test]
fn the_loss_of_a_process_is_the_end_and_is_said() {
    let mut daemon = Daemon::start("--processes 3");
    kill(daemon.children()[1], Signal::SIGKILL).unwrap();
    assert_eq!(daemon.wait().code(), Some(1));
    let stderr = daemon.stderr();
    assert!(stderr.contains("a process ended unexpectedly"), "{stderr}");
}

#[test]
fn a_unix_socket_has_its_permissions_and_is_gone_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("http.sock");
    let place = path.to_str().unwrap();
    let ask = |path: &Path| {
        let mut stream = UnixStream::connect(path).unwrap();
        stream
            .write_all(b"GET /1kb.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > 1024);
    };
    let mut daemon = Daemon::start(&format!("--unix {place} --processes 2"));
    let found = std::fs::symlink_metadata(&path).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o660);
    ask(&path);
    // A socket with a listener is not taken over.
    let second = command()
        .args(["--http-port", "0", "--unix", place, "--root"])
        .arg(daemon.www())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    ask(&path);
    assert!(daemon.stop().success());
    assert!(!path.exists());
    // The socket of a killed daemon is replaced.
    let mut killed = Daemon::start(&format!("--unix {place}"));
    killed.signal(Signal::SIGKILL);
    killed.wait();
    assert!(path.exists());
    let _third = Daemon::start(&format!("--unix {place}"));
    ask(&path);
}
