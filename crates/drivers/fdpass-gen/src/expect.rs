//! The comparison of streams with their expected contents, byte for byte and record by record.
//!
//! Every stream of a run has the same payload, so all of them must be equal: to the shared [`transcript`] for this
//! payload or, for daemons with other texts, to their first stream. Many backends have a text of its own for each
//! stream, so [`Expect::Auto`] compares nothing after all if the first streams differ. Cost: one comparison of some 60
//! bytes per record, and no state in a stream except the number of its bytes.
//!
//! [`transcript`]: fdpass_client::transcript

use clap::ValueEnum;
use memchr::memmem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use fdpass_client::sse::Fault;
use fdpass_client::transcript::{Body, Difference};

/// Maximum bytes kept of a first stream; later bytes are not compared.
const KEPT: usize = 1024 * 1024;
/// Streams that must end with the same text before [`Expect::Auto`] counts another text as a failure.
const EQUAL_STREAMS: u8 = 2;
/// Events prepared at once if their number is unknown.
const EVENTS_AT_ONCE: u32 = 64;

/// The reference for the contents of streams.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// Use the transcript if the first record matches it, otherwise the first stream; if the first two differ, nothing
    #[default]
    Auto,
    /// Use the shared transcript of all daemons in daemons/
    Transcript,
    /// Use the first stream: all others must be equal to it
    First,
    /// Compare nothing: for backends whose texts vary
    Any,
}

/// The expected contents of streams, as far as known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Expected {
    expect: Expect,
    /// The transcript's answer to the payload, if it is or may be the reference.
    #[serde(skip)]
    transcript: Option<Body>,
    /// Number of events of the transcript, if known.
    events: Option<u32>,
    /// The body, as far as known.
    bytes: Vec<u8>,
    /// Equal streams that are still to come before a difference is a failure.
    unconfirmed: u8,
    /// The difference for which the comparison was given up, until it is reported.
    variation: Option<String>,
}

impl Expected {
    /// Creates the expectation before any stream was received.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let mut expected = Self {
            expect: settings.expect,
            transcript: None,
            events: settings.messages,
            bytes: Vec::new(),
            unconfirmed: 0,
            variation: None,
        };
        expected.prepare(settings);
        expected
    }

    /// Restores the parts that are not sent between processes.
    pub(crate) fn prepare(&mut self, settings: &Settings) {
        self.transcript = matches!(self.expect, Expect::Auto | Expect::Transcript)
            .then(|| Body::new(&settings.payload()));
        if self.expect == Expect::Transcript && self.bytes.is_empty() {
            self.begin_transcript();
        }
    }

    /// Returns the reference for contents; `Auto` until a stream has sent something.
    pub(crate) fn basis(&self) -> Expect {
        self.expect
    }

    /// Compares whole records of a stream, which begin at offset `at` of its body.
    ///
    /// # Errors
    /// The first record that differs: in its text, or because the stream should have ended or continued there.
    #[inline]
    pub fn take(&mut self, at: usize, received: &[u8]) -> Result<(), Fault> {
        let end = at + received.len();
        if self.bytes.get(at..end) == Some(received) || self.expect == Expect::Any {
            return Ok(());
        }
        self.take_more(at, received)
    }

    /// Records that a stream ended, with all its records as expected.
    pub(crate) fn stream_ended(&mut self) {
        self.unconfirmed = self.unconfirmed.saturating_sub(1);
    }

    /// Returns the difference for which the comparison was given up, once.
    pub(crate) fn take_variation(&mut self) -> Option<String> {
        self.variation.take()
    }

    /// Handles the rarer cases: records beyond the known ones, or different records.
    #[cold]
    fn take_more(&mut self, at: usize, received: &[u8]) -> Result<(), Fault> {
        let compared = self.compare(at, received);
        let Err(fault) = &compared else {
            return Ok(());
        };
        if self.unconfirmed == 0 {
            return compared;
        }
        self.expect = Expect::Any;
        self.variation = Some(match fault {
            Fault::Content(difference) => difference.to_string(),
            _ => "their numbers of records differ".to_owned(),
        });
        Ok(())
    }

    fn compare(&mut self, at: usize, received: &[u8]) -> Result<(), Fault> {
        if received.is_empty() {
            return Ok(());
        }
        if self.expect == Expect::Auto {
            self.choose(received);
        }
        let end = at + received.len();
        match self.expect {
            Expect::First => self.learn(at, received),
            _ if self.events.is_none() => self.extend(end),
            _ => {}
        }
        let known = &self.bytes[at.min(self.bytes.len())..end.min(self.bytes.len())];
        let shared = known
            .iter()
            .zip(received)
            .take_while(|(a, b)| a == b)
            .count();
        if shared == received.len() || (self.expect == Expect::First && end > KEPT) {
            return Ok(());
        }
        let start = memmem::rfind(&received[..shared], b"\n\n").map_or(0, |gap| gap + 2);
        if self.ends_here(at + start, &received[start..]) {
            return self.compare(at, received);
        }
        let expected = first_record(&self.bytes[(at + start).min(self.bytes.len())..]);
        let record = first_record(&received[start..]);
        let is_end = |record: &[u8]| record.is_empty() || memmem::find(record, b"[DONE").is_some();
        if is_end(expected) != is_end(record) {
            return Err(Fault::Order);
        }
        let difference = Difference::between(expected, record);
        Err(difference.map_or(Fault::Order, |mut difference| {
            difference.at += at + start;
            Fault::Content(Box::new(difference))
        }))
    }

    /// Chooses the reference from the first record of a daemon.
    fn choose(&mut self, received: &[u8]) {
        let mut transcript = self.clone();
        transcript.begin_transcript();
        match transcript.compare(0, first_record(received)) {
            Ok(()) => *self = transcript,
            Err(_) => {
                self.expect = Expect::First;
                self.unconfirmed = EQUAL_STREAMS;
            }
        }
    }

    fn begin_transcript(&mut self) {
        self.expect = Expect::Transcript;
        if let (Some(body), Some(events)) = (&self.transcript, self.events) {
            self.bytes = body.with_events(events);
        }
    }

    /// Adopts further bytes of the first stream that is this long as the reference.
    fn learn(&mut self, at: usize, received: &[u8]) {
        if let Some(more) = self.bytes.len().checked_sub(at) {
            let room = KEPT.saturating_sub(self.bytes.len());
            let received = received.get(more..).unwrap_or_default();
            self.bytes
                .extend_from_slice(&received[..received.len().min(room)]);
        }
    }

    /// Prepares more of a transcript whose number of events is unknown.
    fn extend(&mut self, end: usize) {
        let Some(body) = &self.transcript else {
            return;
        };
        let mut events = EVENTS_AT_ONCE;
        while self.bytes.len() < end {
            self.bytes = body.first_events(events);
            events = events.saturating_mul(2);
        }
    }

    /// Determines the unknown number of events by the first stream that ends as the transcript does.
    fn ends_here(&mut self, at: usize, received: &[u8]) -> bool {
        if self.expect != Expect::Transcript || self.events.is_some() {
            return false;
        }
        let is_end = |end: &&[u8]| received.starts_with(end) || end.starts_with(received);
        let Some(end) = Body::end(at).into_iter().find(is_end) else {
            return false;
        };
        self.bytes.truncate(at);
        self.bytes.extend_from_slice(end);
        self.events = Some(u32::MAX);
        true
    }
}

/// Returns the first record, including the empty line that ends it.
fn first_record(bytes: &[u8]) -> &[u8] {
    match memmem::find(bytes, b"\n\n") {
        Some(gap) => &bytes[..gap + 2],
        None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(expect: Expect, messages: Option<u32>) -> Expected {
        Expected::new(&Settings {
            expect,
            messages,
            ..Settings::default()
        })
    }

    fn body(events: u32) -> Vec<u8> {
        Body::new(&Settings::default().payload()).with_events(events)
    }

    /// Feeds a body record by record.
    fn say(expected: &mut Expected, body: &[u8]) -> Result<(), Fault> {
        let mut at = 0;
        while at < body.len() {
            let record = first_record(&body[at..]);
            expected.take(at, record)?;
            at += record.len();
        }
        expected.stream_ended();
        Ok(())
    }

    fn records(texts: &[&str]) -> Vec<u8> {
        let record = |text: &&str| format!("data: {{\"content\":\"{text}\"}}\n\n");
        let records: String = texts.iter().map(record).collect();
        format!("{records}data: [DONE]\n\n").into_bytes()
    }

    #[test]
    fn a_stream_of_the_transcript_is_as_expected_whether_or_not_its_length_is_known() {
        for expect in [Expect::Auto, Expect::Transcript] {
            for events in [0, 1, 2, 3, 18, 400] {
                for messages in [Some(events), None] {
                    let mut expected = expected(expect, messages);
                    for _ in 0..2 {
                        assert_eq!(say(&mut expected, &body(events)), Ok(()), "{events}");
                        assert_eq!(expected.take(0, &body(events)), Ok(()), "{events} at once");
                    }
                    assert_eq!(expected.basis(), Expect::Transcript);
                }
            }
        }
    }

    #[test]
    fn another_text_is_found_and_shown_with_what_should_stand_there() {
        for messages in [Some(18), None] {
            for at_once in [true, false] {
                let mut expected = expected(Expect::Auto, messages);
                let text = String::from_utf8(body(18)).unwrap();
                let wrong = text.replace("Each line that you read is one event.", "out of memory");
                let said = if at_once {
                    expected.take(0, wrong.as_bytes())
                } else {
                    say(&mut expected, wrong.as_bytes())
                };
                let Err(Fault::Content(difference)) = said else {
                    panic!("{said:?}")
                };
                assert_eq!(difference.at, text.find("Each line").unwrap());
                assert!(
                    difference.received.contains("▸out of memory"),
                    "{difference}"
                );
                assert!(difference.expected.contains("▸Each line"), "{difference}");
            }
        }
    }

    #[test]
    fn one_event_too_many_or_too_few_is_no_matter_of_text() {
        let mut known = expected(Expect::Transcript, Some(18));
        for events in [17, 19, 1] {
            assert_eq!(say(&mut known, &body(events)), Err(Fault::Order));
        }
        let mut learned = expected(Expect::Auto, None);
        assert_eq!(say(&mut learned, &body(18)), Ok(()));
        assert_eq!(say(&mut learned, &body(17)), Err(Fault::Order));
    }

    #[test]
    fn a_daemon_with_texts_of_its_own_is_held_to_what_its_first_stream_said() {
        let mut expected = expected(Expect::Auto, Some(3));
        let (first, other) = (records(&["a", "b", "c"]), records(&["a", "x", "c"]));
        // The first stream has sent only one record when the second is complete.
        assert_eq!(expected.take(0, first_record(&first)), Ok(()));
        assert_eq!(expected.basis(), Expect::First);
        assert_eq!(say(&mut expected, &first), Ok(()));
        assert_eq!(say(&mut expected, &first), Ok(()));
        assert!(matches!(say(&mut expected, &other), Err(Fault::Content(_))));
        let short = records(&["a", "b"]);
        assert_eq!(say(&mut expected, &short), Err(Fault::Order));
        let indexed = |index| format!("data: {{\"content\": \"[DONE]\", \"index\": {index}}}\n\n");
        let mut expected = self::expected(Expect::First, None);
        assert_eq!(say(&mut expected, indexed(0).as_bytes()), Ok(()));
        assert_eq!(say(&mut expected, indexed(0).as_bytes()), Ok(()));
    }

    #[test]
    fn first_streams_that_differ_end_the_comparison_unless_it_was_asked_for() {
        let streams = [records(&["1: a", "b"]), records(&["2: a", "b", "c"])];
        for [first, second] in [[0, 1], [1, 0]].map(|order| order.map(|index| &streams[index])) {
            let mut expected = expected(Expect::Auto, None);
            assert_eq!(say(&mut expected, first), Ok(()));
            assert_eq!(expected.take_variation(), None);
            assert_eq!(say(&mut expected, second), Ok(()));
            assert_eq!(expected.basis(), Expect::Any);
            let variation = expected.take_variation().unwrap();
            assert!(variation.contains(": a"), "{variation}");
            assert_eq!(expected.take_variation(), None);

            let mut expected = self::expected(Expect::First, None);
            assert_eq!(say(&mut expected, first), Ok(()));
            assert!(matches!(say(&mut expected, second), Err(Fault::Content(_))));
        }
        let mut expected = expected(Expect::Auto, None);
        assert_eq!(say(&mut expected, &records(&["a", "b"])), Ok(()));
        assert_eq!(say(&mut expected, &records(&["a"])), Ok(()));
        assert!(expected.take_variation().unwrap().contains("records"));
    }

    #[test]
    fn nothing_is_compared_where_that_is_asked_for() {
        let mut expected = expected(Expect::Any, Some(2));
        assert_eq!(say(&mut expected, &records(&["a", "b"])), Ok(()));
        assert_eq!(say(&mut expected, &records(&["c", "d"])), Ok(()));
    }

    #[test]
    fn a_process_goes_on_with_the_expectation_of_another() {
        let settings = Settings::default();
        for first in [body(18), records(&["a", "b"])] {
            let mut one = Expected::new(&settings);
            assert_eq!(say(&mut one, first_record(&first)), Ok(()));
            let text = serde_json::to_string(&one).unwrap();
            let mut other: Expected = serde_json::from_str(&text).unwrap();
            other.prepare(&settings);
            assert_eq!(other.basis(), one.basis());
            assert_eq!(say(&mut other, &first), Ok(()));
            let wrong = records(&["out of memory"]);
            assert!(matches!(say(&mut other, &wrong), Err(Fault::Content(_))));
        }
    }
}
