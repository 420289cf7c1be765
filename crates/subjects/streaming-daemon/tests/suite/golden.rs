//! Tests of the transcript that all streaming daemons share, case by case.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use streaming_daemon::SocketType;

use crate::support::{BOTH_TYPES, Running, start};

/// A case of `daemons/fdpass.golden.json`, which every daemon answers byte for byte.
#[derive(Debug, Deserialize)]
pub(crate) struct Golden {
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    name: String,
    payload: Option<String>,
    /// A payload that is not text.
    payload_hex: Option<String>,
    /// `DAEMON_MESSAGE_COUNT`.
    messages: u32,
    /// True if the payload counts as `invalid_json`.
    invalid: bool,
    /// The expected writes.
    answer: Vec<String>,
}

impl Golden {
    pub(crate) fn read() -> Self {
        serde_json::from_str(include_str!("../../../../../daemons/fdpass.golden.json")).unwrap()
    }
}

impl Case {
    pub(crate) fn payload(&self) -> Vec<u8> {
        match (&self.payload, &self.payload_hex) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(digits)) => decode_hex(digits),
            both => panic!("{}: one payload, not {both:?}", self.name),
        }
    }

    pub(crate) fn answer(&self) -> String {
        self.answer.concat()
    }
}

fn decode_hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Returns the complete response to the default payload: 1,226 bytes.
pub(crate) fn default_answer() -> String {
    let golden = Golden::read();
    golden.cases.first().unwrap().answer()
}

fn start_for(socket_type: SocketType, messages: u32) -> Running {
    start(|config| {
        config.socket_type = socket_type;
        config.message_count = messages;
        config.message_delay = Duration::from_micros(1);
    })
}

#[test]
fn every_case_is_answered_byte_for_byte_and_counted_on_both_socket_types() {
    let golden = Golden::read();
    assert!(golden.cases.len() > 50, "{}", golden.cases.len());
    for socket_type in BOTH_TYPES {
        // One daemon per number of messages, with the number of invalid payloads it received.
        let mut daemons: BTreeMap<u32, (Running, u64)> = BTreeMap::new();
        for case in &golden.cases {
            let (daemon, invalid) = daemons
                .entry(case.messages)
                .or_insert_with(|| (start_for(socket_type, case.messages), 0));
            let name = &case.name;
            assert_eq!(daemon.ask(&case.payload()), case.answer(), "{name}");
            *invalid += u64::from(case.invalid);
            assert_eq!(daemon.handoff_errors("invalid_json"), *invalid, "{name}");
        }
    }
}

/// Each write is one record, so that a client of the transcript may count them.
#[test]
fn each_write_of_the_transcript_is_an_event_or_the_head() {
    for case in Golden::read().cases {
        let (head, events) = case.answer.split_first().unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{}", case.name);
        assert_eq!(events.len(), case.messages as usize, "{}", case.name);
        let is_event = |event: &String| event.starts_with("data: ") && event.ends_with("\n\n");
        assert!(events.iter().all(is_event), "{}", case.name);
    }
}
