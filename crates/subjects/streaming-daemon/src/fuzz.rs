//! Fuzz targets: the payloads of handoffs, and the answers of a chat API.

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::head::{HEAD, with_headers};
use crate::openai::{Chat, Reading};
use crate::request::{Parsed, Request, parse};

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("chat_events", chat_events), ("handoff", handoff)];

/// A payload that is whole is JSON, none of its beginnings is refused, and its headers are lines of one head.
pub fn handoff(payload: &[u8]) {
    let chat: Parsed<Chat<'_>> = parse(payload);
    let request = match parse::<Request<'_>>(payload) {
        Parsed::Whole(request) => request,
        Parsed::Beginning => {
            return assert_eq!(payload.iter().find(|byte| **byte == b'{'), Some(&b'{'));
        }
        Parsed::Invalid(_) => return,
    };
    if let Parsed::Whole(chat) = chat {
        assert_eq!(chat.response_headers, request.response_headers);
    }
    let is_blank = |byte: &u8| matches!(byte, 0 | b' ' | b'\t' | b'\n' | b'\r');
    let text: Vec<u8> = payload.iter().copied().filter(|byte| *byte != 0).collect();
    if !payload.iter().all(is_blank) {
        // Numbers beyond the range of a value are JSON too.
        serde_json::from_slice::<IgnoredAny>(&text).expect("a whole payload is JSON");
        assert!(text.trim_ascii_start().starts_with(b"{"));
    }
    for end in 0..payload.len() {
        let beginning = parse::<Request<'_>>(&payload[..end]);
        assert!(!matches!(beginning, Parsed::Invalid(_)), "{beginning:?}");
    }
    if let Some(head) = request.response_headers.as_ref().and_then(with_headers) {
        let head = String::from_utf8(head).expect("a head is text");
        let fields = head
            .strip_suffix("\r\n\r\n")
            .expect("a head ends with an empty line");
        let is_field = |line: &str| !line.contains(['\r', '\n']) && line.contains(' ');
        assert!(fields.split("\r\n").all(is_field), "{head:?}");
        assert!(head.starts_with(HEAD.trim_end()));
    }
}

fn read<'a>(mut pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, u64, bool, Option<String>) {
    let (mut reading, mut out, mut events) = (Reading::default(), Vec::new(), 0);
    let failure = loop {
        let Some(piece) = pieces.next() else {
            break reading.finish(&mut out).err();
        };
        let (number, result) = reading.take(piece, &mut out);
        events += number;
        if let Err(failure) = result {
            break Some(failure);
        }
    };
    let failure = failure.map(|failure| failure.to_string());
    (out, events, reading.is_done(), failure)
}

/// An answer has one meaning, however it is divided into reads, and each event for the client is one line of JSON.
pub fn chat_events(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else {
        return;
    };
    let whole = read([stream].into_iter());
    assert_eq!(read(stream.chunks(usize::from(size) + 1)), whole);
    let out = String::from_utf8(whole.0).expect("events are text");
    for event in out.split_terminator("\n\n") {
        let data = event.strip_prefix("data: ").expect("an event has data");
        assert!(
            data == "[DONE]" || serde_json::from_str::<Value>(data).is_ok(),
            "{event:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
