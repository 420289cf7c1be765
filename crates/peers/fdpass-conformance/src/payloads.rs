//! Cases about the payload of a handoff, and the header fields that it adds to the answer.

use std::os::fd::AsRawFd as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use harness::verify::conformance::Skip;
use nix::errno::Errno;
use nix::sys::socket::{Shutdown, send, shutdown};

use super::answer::Answer;
use super::case::{Case, NOTHING};
use super::subject::{PAYLOAD, Subject};
use fdpass_client::client::hand_over;
use fdpass_client::handoff::{ClientKind, SEND_FLAGS, SocketType, long_prompt, pass};

/// The longest payload that every daemon accepts.
const LARGEST: usize = 128 * 1024;
/// Pause between two pieces of a payload: long enough that the first is read alone.
const BETWEEN_PIECES: Duration = Duration::from_millis(100);

pub(super) const CASES: &[Case] = &[
    Case::new("default payload", NOTHING, default),
    Case::new("payload of one NUL", NOTHING, one_nul),
    Case::new("empty payload", NOTHING, empty),
    Case::new("invalid JSON", NOTHING, invalid_json),
    Case::new("payload of 10 KB", NOTHING, |subject| {
        large(subject, 10_000)
    }),
    Case::new("payload of 128 KiB", NOTHING, |subject| {
        large(subject, LARGEST)
    }),
    Case::new("oversized payload is refused", NOTHING, oversized),
    Case::new("payload in two pieces", NOTHING, pieces),
    Case::new("prompt is cut between two characters", NOTHING, cut),
    Case::new("response headers are added", NOTHING, added),
    Case::new("response headers are sorted", NOTHING, sorted),
    Case::new(
        "response headers that would break the head are dropped",
        NOTHING,
        dropped,
    ),
];

fn default(subject: &Subject<'_>) -> anyhow::Result<()> {
    let answer = subject.ask(PAYLOAD)?;
    answer.says("Prompt: benchmark test")?;
    answer.says("User ID: 1")
}

fn one_nul(subject: &Subject<'_>) -> anyhow::Result<()> {
    let invalid = subject.watch_handoffs("invalid_json")?;
    subject.ask(b"\0")?.says("User ID: 0")?;
    invalid.rises_by(0.0)
}

/// Sends a descriptor without a byte. On `SOCK_STREAM` the kernel cannot send that (unix(7)), so there it is one NUL,
/// followed at once by the end. A daemon that does not look for descriptors takes an empty record for the end: it then
/// closes the client and counts `empty`.
fn empty(subject: &Subject<'_>) -> anyhow::Result<()> {
    if subject.kind == SocketType::Stream {
        let handoff = subject.connect()?;
        let ours = hand_over(&handoff, ClientKind::Unix, b"\0")?;
        // The daemon may have closed it already.
        let _ = shutdown(handoff.as_raw_fd(), Shutdown::Both);
        return subject.answer(&ours)?.says("User ID: 0");
    }
    let empty = subject.watch_handoffs("empty")?;
    let ours = subject.hand_over(b"")?;
    let came = subject.read(&ours)?;
    if came.is_empty() {
        return empty.rises_by(1.0);
    }
    Answer::parse(&came)?.says("User ID: 0")
}

fn invalid_json(subject: &Subject<'_>) -> anyhow::Result<()> {
    let invalid = subject.watch_handoffs("invalid_json")?;
    subject.ask(b"{\"prompt\": oops}")?.says("User ID: 0")?;
    invalid.rises_by(1.0)
}

fn large(subject: &Subject<'_>, length: usize) -> anyhow::Result<()> {
    let invalid = subject.watch_handoffs("invalid_json")?;
    let answer = subject.ask(&long_prompt(length))?;
    answer.says(&format!("Prompt: {}...", "a".repeat(50)))?;
    answer.says("User ID: 1")?;
    invalid.rises_by(0.0)
}

/// On `SOCK_SEQPACKET` the send buffer limits a record: if it is small, the kernel refuses the record before the daemon
/// can.
fn oversized(subject: &Subject<'_>) -> anyhow::Result<()> {
    let refused = subject.watch_handoffs("too_large")?;
    let (ours, theirs) = subject.client()?;
    let handoff = subject.connect()?;
    let payload = long_prompt(LARGEST + 1024);
    match pass(&handoff, &payload, theirs.as_raw_fd()) {
        // The daemon may close while the rest is still being sent.
        Ok(()) | Err(Errno::EPIPE | Errno::ECONNRESET) => {}
        Err(Errno::EMSGSIZE) => {
            return Err(Skip("the kernel refuses a record of 129 KiB (EMSGSIZE)").into());
        }
        Err(errno) => return Err(errno).context("sending 129 KiB"),
    }
    drop((theirs, handoff));
    subject.closes(&ours, "a client with a payload of 129 KiB")?;
    refused.rises_by(1.0)
}

fn pieces(subject: &Subject<'_>) -> anyhow::Result<()> {
    if subject.kind != SocketType::Stream {
        return Err(Skip("it applies to the other type of socket").into());
    }
    let (first, rest) = PAYLOAD.split_at(12);
    let handoff = subject.connect()?;
    let ours = hand_over(&handoff, ClientKind::Unix, first)?;
    std::thread::sleep(BETWEEN_PIECES);
    let sent = send(handoff.as_raw_fd(), rest, SEND_FLAGS).context("sending the second piece")?;
    ensure!(sent == rest.len(), "the second piece was truncated");
    let answer = subject.answer(&ours)?;
    answer.says("Prompt: benchmark test")?;
    answer.says("User ID: 1")
}

/// Byte 50 falls inside a character of two bytes, three bytes and so on: the whole character must be dropped.
fn cut(subject: &Subject<'_>) -> anyhow::Result<()> {
    for character in ["é", "€", "😀"] {
        let kept = "x".repeat(51 - character.len());
        let payload = format!(r#"{{"prompt":"{kept}{character} and more"}}"#);
        let answer = subject.ask(payload.as_bytes())?;
        answer.says(&format!("Prompt: {kept}..."))?;
    }
    Ok(())
}

fn added(subject: &Subject<'_>) -> anyhow::Result<()> {
    let payload = br#"{"response_headers":{"X-Request-Id":"abc 1","X-Empty":""}}"#;
    let answer = subject.ask(payload)?;
    answer.has_field("X-Request-Id: abc 1")?;
    answer.has_field("X-Empty:")
}

/// The order is by the bytes of their names: capitals come first.
fn sorted(subject: &Subject<'_>) -> anyhow::Result<()> {
    let payload = br#"{"response_headers":{"x-b":"1","X-C":"2","x-a":"3","X-B":"4"}}"#;
    let answer = subject.ask(payload)?;
    let wanted = ["X-B: 4", "X-C: 2", "x-a: 3", "x-b: 1"];
    let tail = &answer.fields[answer.fields.len().saturating_sub(wanted.len())..];
    ensure!(
        tail == wanted,
        "the head should end with {wanted:?}: {:?}",
        answer.fields
    );
    Ok(())
}

fn dropped(subject: &Subject<'_>) -> anyhow::Result<()> {
    let bad = [
        ("X Space", "a"),
        ("X:Colon", "a"),
        ("", "a"),
        ("X-\u{e9}", "a"),
        ("X-Line", "a\r\nX-Injected: b"),
        ("X-Null", "a\0b"),
        ("X-Delete", "a\u{7f}"),
        ("Content-Type", "text/html"),
        ("content-length", "1"),
        ("TRANSFER-ENCODING", "chunked"),
        ("Connection", "keep-alive"),
        ("Cache-Control", "public"),
        ("Content-Encoding", "gzip"),
        ("X-Accel-Buffering", "yes"),
    ];
    let mut headers: serde_json::Map<String, serde_json::Value> = bad
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    headers.insert("X-Good".to_owned(), "tab\tbed".into());
    let payload = serde_json::json!({"response_headers": headers}).to_string();
    let answer = subject.ask(payload.as_bytes())?;
    answer.has_field("X-Good: tab\tbed")?;
    let count = answer.fields.len();
    ensure!(
        count == 5,
        "expected 4 fields of the daemon and X-Good, got {count}: {:?}",
        answer.fields
    );
    Ok(())
}
