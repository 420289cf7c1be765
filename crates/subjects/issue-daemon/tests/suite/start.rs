//! Starts that fail, and sockets that are in the way.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Client, Daemon, command};

/// Starts a daemon that must refuse to. Returns the exit code and what it says.
fn refused(database: &Path, options: &[&str]) -> (Option<i32>, String) {
    let output = command(database).args(options).output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn the_second_daemon_of_a_database_says_who_serves_it() {
    let daemon = Daemon::new(&[]);
    let link = daemon.database.with_file_name("link.db");
    std::os::unix::fs::symlink(&daemon.database, &link).unwrap();
    for path in [&daemon.database, &link] {
        let (code, text) = refused(path, &[]);
        assert_eq!(code, Some(1), "{text}");
        let holder = format!("pid {} at {}", daemon.pid(), daemon.socket.display());
        assert!(text.contains(&holder), "{text}");
    }
    daemon.client().data("ping", Value::Null);
}

#[test]
fn the_socket_of_a_killed_daemon_is_replaced_and_a_live_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("issues.db");
    let mut killed = Daemon::on(&database, &[]);
    killed.signal(Signal::SIGKILL);
    killed.wait();
    assert!(killed.socket.exists());
    let daemon = Daemon::on(&database, &[]);
    daemon.client().create("a");
    daemon.stop();

    let socket = folder.path().join("issues.sock");
    let _other = UnixListener::bind(&socket).unwrap();
    let (code, text) = refused(&database, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("another process is listening"), "{text}");
    assert!(socket.exists());
}

#[test]
fn socket_and_database_are_for_their_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("new").join("issues.db");
    let daemon = Daemon::on(&database, &[]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(database.parent().unwrap()), 0o700);
    assert_eq!(mode(&daemon.socket), 0o600);
    assert_eq!(mode(&database), 0o600);
}

#[test]
fn a_path_that_is_too_long_for_a_socket_works() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("x".repeat(100)).join("y".repeat(100));
    fs::create_dir_all(&deep).unwrap();
    let daemon = Daemon::on(&deep.join("issues.db"), &[]);
    assert!(daemon.socket.as_os_str().len() <= 107);
    assert_eq!(
        daemon.socket,
        issue_rpc::socket_path(&daemon.database.canonicalize().unwrap())
    );
    daemon.client().create("a");
    let socket = daemon.socket.clone();
    daemon.stop();
    assert!(!socket.exists());

    let (code, text) = refused(
        &deep.join("issues.db"),
        &["--socket", deep.join("s").to_str().unwrap()],
    );
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("107 bytes"), "{text}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("issues.db");
    fs::write(&path, "this is a letter, and not a database").unwrap();
    let (code, text) = refused(&path, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("issues.db") && text.contains("not a database"),
        "{text}"
    );
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "this is a letter, and not a database"
    );
}

#[test]
fn a_damaged_database_is_refused_with_the_way_to_recover() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("issues.db");
    let daemon = Daemon::on(&path, &[]);
    let mut client = daemon.client();
    (0..200).for_each(|number| drop(client.create(&format!("issue {number}"))));
    daemon.stop();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle - 8_000..middle + 8_000].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let (code, text) = refused(&path, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("issues.db") && text.contains(".recover"),
        "{text}"
    );
    assert_eq!(fs::read(&path).unwrap(), bytes, "it is left as it is");
}

#[test]
fn wrong_options_are_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("issues.db");
    for (options, code, words) in [
        (["--durability", "perhaps"], 2, "fsync, os, none"),
        (["--prefix", "A B"], 1, "prefix"),
        (["--metrics-addr", "nowhere"], 2, "127.0.0.1:9090"),
        (["--max-queued", "many"], 2, "--max-queued"),
    ] {
        let (found, text) = refused(&database, &options);
        assert_eq!(found, Some(code), "{text}");
        assert!(text.contains(words), "{text}");
    }
    let (code, text) = refused(&folder.path().join("no/such/issues.db"), &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("no/such"), "{text}");
}

#[test]
fn a_socket_that_was_passed_is_served_and_left_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let (database, socket) = (
        folder.path().join("issues.db"),
        folder.path().join("passed.sock"),
    );
    let listener = UnixListener::bind(&socket).unwrap();
    let mut shell = std::process::Command::new("sh");
    shell
        .arg("-c")
        .arg(format!(
            "LISTEN_PID=$$ LISTEN_FDS=1 exec {} --db {} 3<&0 </dev/null",
            env!("CARGO_BIN_EXE_issue-daemon"),
            database.display()
        ))
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .stderr(Stdio::piped());
    // A client that connects before the daemon listens waits for it.
    let mut client = Client::connect(&socket).unwrap();
    client.send(&json!({"operation": "ping"})).unwrap();
    let daemon = Daemon::start(shell, &database);
    assert_eq!(daemon.socket, socket);
    assert_eq!(client.answer().unwrap()["success"], true);
    drop(client);
    daemon.stop();
    assert!(socket.exists(), "it belongs to the one who passed it");
}
