//! What a client is answered, byte for byte.

use std::io::Read;
use std::time::Duration;

use tokio::time::Instant;

use crate::support::{BOTH_TYPES, PAYLOAD, start};

/// The whole answer to the default payload. Written out once more, on purpose: the other daemons
/// send the same bytes.
const GOLDEN: &str = "HTTP/1.1 200 OK\r\n\
    Content-Type: text/event-stream\r\n\
    Cache-Control: no-cache\r\n\
    Connection: close\r\n\
    X-Accel-Buffering: no\r\n\
    \r\n\
    data: {\"content\":\"Hello from the streaming daemon. Prompt: benchmark test\"}\n\n\
    data: {\"content\":\"User ID: 1\"}\n\n\
    data: {\"content\":\"This answer comes from the mock backend.\"}\n\n\
    data: {\"content\":\"It computes nothing: waiting is its only work.\"}\n\n\
    data: {\"content\":\"Your socket was accepted by another process.\"}\n\n\
    data: {\"content\":\"It travelled here as a control message.\"}\n\n\
    data: {\"content\":\"From now on this daemon alone writes to it.\"}\n\n\
    data: {\"content\":\"Each line that you read is one event.\"}\n\n\
    data: {\"content\":\"Each event is one write to your socket.\"}\n\n\
    data: {\"content\":\"Between two events passes one fixed delay.\"}\n\n\
    data: {\"content\":\"Nobody is asked for a token while you wait.\"}\n\n\
    data: {\"content\":\"An idle stream should cost a few bytes.\"}\n\n\
    data: {\"content\":\"A thousand of them should cost no more each.\"}\n\n\
    data: {\"content\":\"If you stop reading, only you will wait.\"}\n\n\
    data: {\"content\":\"If you go away, your place becomes free.\"}\n\n\
    data: {\"content\":\"The next event is the last one with text.\"}\n\n\
    data: {\"content\":\"After it comes the mark that ends it all.\"}\n\n\
    data: {\"content\":\"[DONE-CONTENT]\"}\n\n\
    data: [DONE]\n\n";

/// The answer to a payload without prompt and user id.
fn golden_default() -> String {
    GOLDEN
        .replace("Prompt: benchmark test", "Prompt: ")
        .replace("User ID: 1", "User ID: 0")
}

#[test]
fn the_default_payload_is_answered_with_these_1226_bytes_on_both_socket_types() {
    assert_eq!(GOLDEN.len(), 1226);
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| config.socket_type = socket_type);
        assert_eq!(daemon.ask(PAYLOAD), GOLDEN);
        let summary = daemon.stop();
        assert_eq!(
            (summary.started, summary.completed, summary.bytes),
            (1, 1, 1226)
        );
    }
}

#[test]
fn a_payload_without_content_gets_the_defaults() {
    for socket_type in BOTH_TYPES {
        let daemon = start(|config| config.socket_type = socket_type);
        for payload in [
            &b"\0"[..],
            b"\0\0\0",
            b"{}",
            b"\0{}\0",
            br#"{"model":"x","messages":[1]}"#,
        ] {
            assert_eq!(daemon.ask(payload), golden_default(), "{payload:?}");
        }
        assert_eq!(daemon.handoff_errors("invalid_json"), 0);
    }
}

#[test]
fn an_unparsable_payload_gets_the_defaults_and_is_counted() {
    let daemon = start(|_| {});
    for payload in [
        &b"hello"[..],
        b"{\"prompt\":",
        b"[1]",
        br#"{"user_id":"1"}"#,
        b"{\"prompt\":\"\xff\"}",
    ] {
        assert_eq!(daemon.ask(payload), golden_default(), "{payload:?}");
    }
    assert_eq!(daemon.handoff_errors("invalid_json"), 5);
}

#[test]
fn an_empty_record_that_brings_a_client_gets_the_defaults() {
    assert_eq!(start(|_| {}).ask(b""), golden_default());
}

#[test]
fn allowed_response_headers_are_appended_to_the_head() {
    let daemon = start(|_| {});
    let payload = br#"{"prompt":"benchmark test","user_id":1,"response_headers":{
        "X-Request-Id":"7","Set-Cookie":"a=b","Content-Type":"text/html","transfer-encoding":"chunked",
        "Bad Name":"x","X-Split":"a\r\nEvil: 1","":"x"}}"#;
    let head = "X-Accel-Buffering: no\r\nSet-Cookie: a=b\r\nX-Request-Id: 7\r\n\r\n";
    let expected = GOLDEN.replace("X-Accel-Buffering: no\r\n\r\n", head);
    assert_eq!(daemon.ask(payload), expected);
}

#[test]
fn prompts_are_cut_between_characters_and_escaped() {
    let daemon = start(|_| {});
    let greeting = |prompt: &str| {
        let payload = serde_json::json!({ "prompt": prompt }).to_string();
        let answer = daemon.ask(payload.as_bytes());
        let start = answer.find("Prompt: ").unwrap() + "Prompt: ".len();
        answer[start..answer.find("\"}\n\n").unwrap()].to_owned()
    };
    assert_eq!(greeting(&"x".repeat(50)), "x".repeat(50));
    assert_eq!(greeting(&"x".repeat(51)), format!("{}...", "x".repeat(50)));
    assert_eq!(greeting(&"€".repeat(20)), format!("{}...", "€".repeat(16)));
    assert_eq!(greeting("a\"b\\c\nd\u{1}e/é"), r#"a\"b\\c\nd\u0001e/é"#);
}

#[test]
fn without_messages_there_is_the_head_and_the_end_mark() {
    let daemon = start(|config| config.message_count = 0);
    let expected = format!("{}data: [DONE]\n\n", &GOLDEN[..119]);
    assert_eq!(daemon.ask(PAYLOAD), expected);
}

#[test]
fn events_arrive_one_by_one_and_none_before_its_time() {
    let delay = Duration::from_millis(30);
    let daemon = start(|config| config.message_delay = delay);
    let start = Instant::now();
    let mut client = daemon.hand_over(PAYLOAD);
    let (mut all, mut reads) = (String::new(), 0);
    let mut buffer = [0; 4096];
    loop {
        let count = client.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        reads += 1;
        all += std::str::from_utf8(&buffer[..count]).unwrap();
        let events = u32::try_from(all.matches("\"content\"").count()).unwrap();
        let due = delay * events.saturating_sub(1);
        assert!(start.elapsed() >= due, "event {events} was early");
    }
    assert_eq!(all, GOLDEN);
    assert!(start.elapsed() >= delay * 17);
    // 18 or 19, unless this test or the daemon was held up for many delays.
    assert!(reads > 6, "{reads} reads");
}
