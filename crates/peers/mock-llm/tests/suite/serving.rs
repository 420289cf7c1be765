//! Tests of the server over its sockets, and of the command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_mock-llm");

/// The server as a separate process, killed with the test.
struct Process {
    child: Child,
    /// The address it prints at start.
    base: String,
}

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(BINARY)
            .args(arguments)
            .args(["--delay", "1ms", "--tokens", "3"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let base = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap()
            .to_owned();
        Self { child, base }
    }

    fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.base.strip_prefix("http://").unwrap()).unwrap()
    }

    fn terminate(&mut self) -> Option<i32> {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a chat request and reads the whole response, including an error.
fn ask(server: impl Read + Write, pattern: &str) -> String {
    ask_with(server, &format!(r#""test_pattern":"{pattern}""#))
}

/// Sends a chat request with a key of its own.
fn ask_with(mut server: impl Read + Write, key: &str) -> String {
    let body = format!(r#"{{"messages":[],"stream":true,{key}}}"#);
    let length = body.len();
    write!(
        server,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
        Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = Vec::new();
    let end = server.read_to_end(&mut answer);
    let mut answer = String::from_utf8_lossy(&answer).into_owned();
    if let Err(error) = end {
        answer += &format!("[{:?}]", error.kind());
    }
    answer
}

#[test]
fn each_pattern_ends_as_its_name_says() {
    let server = Process::start(&["--listen", "127.0.0.1:0"]);
    for (pattern, contents, end) in [
        ("plain", 3, "data: [DONE]\n\n\r\n0\r\n\r\n"),
        ("finish-length", 3, "data: [DONE]\n\n\r\n0\r\n\r\n"),
        (
            "finish-only",
            3,
            "\"object\":\"chat.completion.chunk\"}\n\n\r\n0\r\n\r\n",
        ),
        ("4k-chunks", 3, "data: [DONE]\n\n\r\n0\r\n\r\n"),
        ("abort-after-2", 2, "[ConnectionReset]"),
        ("status-429", 0, "}"),
        ("not-sse", 0, "}"),
        ("no-such-pattern", 0, "}"),
    ] {
        let answer = ask(server.tcp(), pattern);
        // The first chunk has an empty content and a role.
        let found = answer.matches("\"content\":\"").count();
        let found = found - answer.matches("\"role\"").count();
        assert_eq!(found, contents, "{answer}");
        assert!(answer.ends_with(end), "{pattern}: {answer}");
    }
    assert!(ask(server.tcp(), "status-429").starts_with("HTTP/1.1 429 "));
    assert!(ask(server.tcp(), "plain").starts_with("HTTP/1.1 200 "));
    assert!(ask(server.tcp(), "no-such-pattern").starts_with("HTTP/1.1 400 "));
    assert!(ask(server.tcp(), "finish-length").contains(r#""finish_reason":"length""#));
}

#[test]
fn tokens_are_reported_to_who_asks_for_them() {
    let server = Process::start(&["--listen", "127.0.0.1:0"]);
    let asked = ask_with(server.tcp(), r#""stream_options":{"include_usage":true}"#);
    let (_, end) = asked.rsplit_once("data: {\"choices\":[],").unwrap();
    assert!(end.contains(r#""completion_tokens":3"#), "{end}");
    assert!(end.contains("data: [DONE]"), "{end}");
    assert!(!ask(server.tcp(), "plain").contains("usage"));
}

#[test]
fn every_byte_is_a_chunk_of_its_own() {
    let server = Process::start(&["--listen", "127.0.0.1:0"]);
    let answer = ask(server.tcp(), "byte-chunks");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        body.starts_with("1\r\nd\r\n1\r\na\r\n1\r\nt\r\n1\r\na\r\n"),
        "{body}"
    );
}

#[test]
fn a_unix_socket_serves_and_is_removed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("llm.sock");
    let mut server = Process::start(&["--socket", path.to_str().unwrap()]);
    assert_eq!(server.base, format!("unix:{}", path.display()));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    assert!(ask(UnixStream::connect(&path).unwrap(), "plain").contains("[DONE]"));
    // Open when the signal arrives.
    let mut stalled = UnixStream::connect(&path).unwrap();
    stalled.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    assert_eq!(server.terminate(), Some(0));
    assert!(!path.exists());
}

#[test]
fn a_key_is_asked_for_if_one_is_set() {
    let server = Process::start(&["--listen", "127.0.0.1:0", "--key", "k"]);
    assert!(ask(server.tcp(), "plain").starts_with("HTTP/1.1 401 "));
}

#[test]
fn wrong_calls_exit_2_and_name_the_option() {
    for (arguments, word) in [
        (["--pattern", "nice"], "byte-chunks"),
        (["--pattern", "status-200"], "400 to 599"),
        (["--delay", "5"], "--delay"),
        (["--listen", "8081"], "--listen"),
        (["--tokens", "many"], "--tokens"),
    ] {
        let output = Command::new(BINARY).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(complaint.contains(word), "{complaint}");
    }
}
