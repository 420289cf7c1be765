//! Calls of the program: wrong options, and the record at the end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, ChildStdout, Command, Stdio};

use harness_testing::processes::{send, wait_until};
use harness_testing::program::ended_with;
use nix::sys::signal::Signal;
use serde_json::Value;

fn null_peer(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_null-peer"));
    command.args(arguments);
    command
}

#[track_caller]
fn refused(mut command: Command, words: &[&str]) {
    let output = command.output().unwrap();
    ended_with(&output, 2, words, &command);
}

#[test]
fn wrong_options_are_refused_with_the_remedy() {
    for protocol in ["http", "amqp", "presence"] {
        let words = ["--delays", "write none, constant:5ms"];
        refused(null_peer(&[protocol, "--delays", "5ms"]), &words);
    }
    let mut by_variable = null_peer(&["http"]);
    by_variable.env("NULL_PEER_STALL", "3s");
    refused(by_variable, &["--stall", "write 3s:1s"]);
    refused(null_peer(&["http", "--seed", "x"]), &["--seed"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for protocol in ["http", "amqp", "presence"] {
        let words = ["--listen", &address, "name another one"];
        refused(null_peer(&[protocol, "--listen", &address]), &words);
    }
    for protocol in ["issue", "fdpass"] {
        let words = ["--socket /nowhere/s", "name a file in a folder that exists"];
        refused(null_peer(&[protocol, "--socket", "/nowhere/s"]), &words);
    }
}

/// Starts the program, and returns its first line.
fn start(command: &mut Command) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    (child, stdout, line)
}

/// Ends the program. Returns what it printed last.
fn end(mut child: Child, mut stdout: impl std::io::Read) -> Value {
    send(&child, Signal::SIGTERM);
    assert!(child.wait().unwrap().success());
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn its_last_line_says_how_long_requests_were_held() {
    let mut command = null_peer(&["http"]);
    command.env("NULL_PEER_DELAYS", "bimodal:1ms:30ms:50%");
    let (child, stdout, line) = start(&mut command);
    let address = line.trim().strip_prefix("listening on ").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    for _ in 0..20 {
        stream.write_all(b"HEAD /1kb.txt HTTP/1.1\r\n\r\n").unwrap();
        assert!(stream.read(&mut [0; 1_024]).unwrap() > 0);
    }
    let held = &end(child, stdout)["held"];
    assert_eq!(held["count"], 20, "{held}");
    let ns = |name: &str| held[name].as_u64().unwrap();
    assert!(ns("p50_ns") >= 1_000_000, "{held}");
    assert!(ns("p90_ns") >= 30_000_000, "{held}");
    assert!(ns("p90_ns") <= ns("p99_ns") && ns("p99_ns") <= ns("max_ns"));
}

#[test]
fn a_socket_file_of_a_dead_peer_is_replaced_and_none_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    let call = ["issue", "--socket", socket.to_str().unwrap()];
    let child = null_peer(&call).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    wait_until("it listens", || UnixStream::connect(&socket).is_ok());
    refused(null_peer(&call), &["--socket"]);
    let stdout = child.stdout.take().unwrap();
    assert_eq!(end(child, stdout)["held"]["count"], 0);
    assert!(!socket.exists());
}
