//! Cases about header fields that a payload adds to the answer.

use anyhow::ensure;

use super::case::{Case, NOTHING};
use super::subject::Subject;

pub(super) const CASES: &[Case] = &[
    Case::new("response headers are added", NOTHING, added),
    Case::new("response headers are sorted", NOTHING, sorted),
    Case::new(
        "response headers that would break the head are dropped",
        NOTHING,
        dropped,
    ),
];

fn added(subject: &Subject<'_>) -> anyhow::Result<()> {
    let payload = br#"{"response_headers":{"X-Request-Id":"abc 1","X-Empty":""}}"#;
    let answer = subject.ask(payload)?;
    answer.has_field("X-Request-Id: abc 1")?;
    // White space around it is no part of a value (RFC 9110, section 5.5).
    ensure!(
        answer
            .fields
            .iter()
            .any(|field| field.trim_end() == "X-Empty:"),
        "the head has no \"X-Empty:\": {:?}",
        answer.fields
    );
    Ok(())
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
