//! Streams of server-sent events: each response is read record by record, while it comes.

use std::cell::Cell;

use event_stream::{Reader, Record, TooLong, is_event_stream};
use load::net::http1;
use load::recorder::Recorder;
use measure::counters::Counter;
use measure::tally::Series;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::outcome::{self, count};
use crate::roles::checks::ResponseCapture;
use crate::settings::Settings;
use crate::spec::{FIRST_CONTENT, FIRST_EVENT, GAP};

/// The record with which servers of tokens end a stream.
const DONE: &[u8] = b"[DONE]";
/// The event with which a server reports an error.
const ERROR: &[u8] = b"error";
/// Records of a stream in which the first text is looked for: servers of tokens send at most a few without one before it.
const SEARCHED: u8 = 16;
/// The field that names the kind of a response, in lower case.
pub(crate) const CONTENT_TYPE: &str = "content-type";

/// Finds records that may report an error or tokens, so that only these are parsed as JSON.
#[derive(Debug)]
pub(crate) struct RecordScan {
    error: Finder<'static>,
    usage: Finder<'static>,
}

impl Default for RecordScan {
    fn default() -> Self {
        Self {
            error: Finder::new(br#""error""#),
            usage: Finder::new(br#""usage""#),
        }
    }
}

/// The relevant fields of a record, which has any others.
#[derive(Debug, Deserialize)]
struct Report {
    #[serde(default)]
    error: Option<IgnoredAny>,
    #[serde(default)]
    usage: Option<Value>,
}

/// The text of a record, by the names of OpenAI's chat and completion APIs and of streaming daemons.
#[derive(Debug, Deserialize)]
struct Text<'a> {
    #[serde(default, borrow)]
    content: Content<'a>,
    #[serde(default, borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Debug, Deserialize)]
struct Choice<'a> {
    #[serde(default, borrow)]
    text: Content<'a>,
    #[serde(default, borrow)]
    delta: Delta<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    content: Content<'a>,
    #[serde(default, borrow)]
    reasoning_content: Content<'a>,
    #[serde(default, borrow)]
    tool_calls: Content<'a>,
}

/// A value that is not looked into.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
struct Content<'a>(#[serde(borrow)] Option<&'a RawValue>);

impl Content<'_> {
    fn is_empty(&self) -> bool {
        self.0
            .is_none_or(|value| matches!(value.get(), "null" | r#""""# | "[]"))
    }
}

/// Returns true if a record has text, or a part of a call of a tool: servers of tokens first send a record with the role only.
fn has_content(data: &[u8]) -> bool {
    serde_json::from_slice::<Text<'_>>(data).is_ok_and(|text| {
        let mut choices = text.choices.iter();
        !text.content.is_empty()
            || choices.any(|Choice { text, delta }| {
                let Delta {
                    content,
                    reasoning_content,
                    tool_calls,
                } = delta;
                let all = [text, content, reasoning_content, tool_calls];
                all.into_iter().any(|value| !value.is_empty())
            })
    })
}

impl RecordScan {
    /// Returns the number of tokens that a record reports for its stream so far.
    ///
    /// # Errors
    /// The record reports an error.
    #[inline]
    fn tokens(&self, data: &[u8]) -> Result<Option<u64>, &'static str> {
        if self.error.find(data).is_none() && self.usage.find(data).is_none() {
            return Ok(None);
        }
        // Data need not be JSON.
        let Ok(report) = serde_json::from_slice::<Report>(data) else {
            return Ok(None);
        };
        if report.error.is_some() {
            return Err(outcome::EVENT_ERROR);
        }
        let usage = report.usage;
        Ok(usage.and_then(|usage| usage.get("completion_tokens")?.as_u64()))
    }
}

/// Returns true if the beginning of a stream has a whole record.
///
/// # Errors
/// The record, if it reports an error.
pub(crate) fn begins(stream: &[u8]) -> Result<bool, String> {
    let (scan, mut has_record) = (RecordScan::default(), false);
    let taken = Reader::default().take(stream, |record| {
        let data = record.data.as_deref().unwrap_or_default();
        if is_error(record) || scan.tokens(data).is_err() {
            return Err(Refused(String::from_utf8_lossy(data).into_owned()));
        }
        has_record |= data != DONE;
        Ok(())
    });
    taken.map(|()| has_record).map_err(|Refused(record)| record)
}

/// A record that reports an error.
struct Refused(String);

impl From<TooLong> for Refused {
    fn from(_: TooLong) -> Self {
        Self("a record is longer than 16 MiB".to_owned())
    }
}

/// Returns true for an event with which a server reports an error.
fn is_error(record: &Record<'_>) -> bool {
    record.event.is_some_and(|name| name.trim_ascii() == ERROR)
}

/// The response, as far as its head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Head {
    #[default]
    Awaited,
    /// A success, whose type is not known yet.
    Success,
    Stream,
    /// An answer of another status: it is read as any response.
    Other,
}

/// The operation of a stream, and the time at which a piece of it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a> {
    /// The intended start of the operation.
    pub(crate) at: u64,
    pub(crate) is_counted: bool,
    pub(crate) now: u64,
    pub(crate) record: &'a Recorder,
    pub(crate) scan: &'a RecordScan,
    /// Number of records that the worker has received.
    pub(crate) received: &'a Cell<u64>,
}

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct EventStream {
    reader: Reader,
    /// Time of the last record; 0 before the first.
    last: u64,
    /// The tokens that its last report names.
    tokens: Option<u64>,
    head: Head,
    /// Records that may still have the first text; 0 once it was found.
    searched: u8,
    is_done: bool,
    /// True if the body ends with its connection.
    pub(crate) is_until_close: bool,
    /// True if its times so far meet the objectives of the plan.
    meets: bool,
    /// The kind of failure, after which nothing is read.
    fault: Option<&'static str>,
}

impl Default for EventStream {
    fn default() -> Self {
        Self {
            reader: Reader::default(),
            last: 0,
            tokens: None,
            head: Head::Awaited,
            searched: SEARCHED,
            is_done: false,
            is_until_close: false,
            meets: true,
            fault: None,
        }
    }
}

/// The end of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamEnd {
    /// The counter of streams that end like it, unless it is an expected answer without a stream.
    ended: Option<Counter>,
    pub(crate) fault: Option<&'static str>,
    pub(crate) meets: bool,
    tokens: Option<u64>,
}

impl StreamEnd {
    /// Counts a successful stream.
    pub(crate) fn count(&self, is_counted: bool, record: &Recorder) {
        if let Some(ended) = self.ended {
            record.count_of(is_counted, ended, 1);
        }
        if let Some(tokens) = self.tokens {
            record.count_of(is_counted, count::TOKENS, tokens);
            record.count_of(is_counted, count::STREAMS_WITH_USAGE, 1);
        }
    }
}

impl From<TooLong> for Fault {
    fn from(_: TooLong) -> Self {
        Self(outcome::SSE)
    }
}

/// The kind of a failure.
struct Fault(&'static str);

impl EventStream {
    /// Creates the state of a stream that was not asked for, if the plan wants streams.
    pub(crate) fn new(settings: &Settings) -> Option<Box<Self>> {
        settings.events.then(Box::default)
    }

    /// Returns the time since which no record has come, given the time when the request was sent.
    pub(crate) fn silent_since(&self, sent: u64) -> u64 {
        sent.max(self.last)
    }

    /// Returns the kind of failure of a stream that no record has come of in time.
    pub(crate) fn timeout(&self) -> &'static str {
        match self.last {
            0 => outcome::TIMEOUT,
            _ => outcome::TIMEOUT_IDLE,
        }
    }

    /// Returns true once the server has begun to answer.
    pub(crate) fn has_head(&self) -> bool {
        self.head != Head::Awaited
    }

    /// Returns the kind of failure, if there is one.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        self.fault
    }

    /// Takes the status of the response.
    pub(crate) fn status(&mut self, status: u16) {
        self.head = match status {
            200..300 => Head::Success,
            _ => Head::Other,
        };
    }

    /// Takes the field `Content-Type` of the response.
    pub(crate) fn content_type(&mut self, value: &[u8]) {
        if self.head == Head::Success && is_event_stream(value) {
            self.head = Head::Stream;
        }
    }

    /// Takes a piece of the body.
    #[inline]
    pub(crate) fn take(&mut self, piece: &[u8], reading: Reading<'_>) {
        match self.head {
            Head::Stream if self.fault.is_none() => {}
            Head::Success => return self.fault = Some(outcome::CONTENT_TYPE),
            _ => return,
        }
        let is_new_read = self.last != reading.now;
        let (mut reader, mut events) = (std::mem::take(&mut self.reader), 0);
        let taken = reader.take(piece, |record| {
            events += u64::from(self.record(record, reading)?);
            Ok(())
        });
        self.reader = reader;
        self.fault = taken.err().map(|Fault(kind)| kind);
        let (record, is_counted) = (reading.record, reading.is_counted);
        if events > 0 {
            reading.received.update(|received| received + events);
            record.count_of(is_counted, count::EVENTS, events);
            record.count_of(is_counted, count::EVENT_READS, u64::from(is_new_read));
        }
    }

    /// Takes a record; returns false for the end marker.
    #[inline]
    fn record(&mut self, record: &Record<'_>, reading: Reading<'_>) -> Result<bool, Fault> {
        let now = reading.now;
        if self.is_done {
            return Err(Fault(outcome::TRAILING));
        }
        let data = record.data.as_deref().unwrap_or_default();
        if is_error(record) {
            return Err(Fault(outcome::EVENT_ERROR));
        }
        if data == DONE {
            self.is_done = true;
            return Ok(false);
        }
        if let Some(tokens) = reading.scan.tokens(data).map_err(Fault)? {
            self.tokens = Some(tokens);
        }
        if self.searched > 0 {
            self.searched -= 1;
            if has_content(data) {
                self.searched = 0;
                self.value(FIRST_CONTENT, now - reading.at, reading);
            }
        }
        match self.last {
            0 => self.value(FIRST_EVENT, now - reading.at, reading),
            // Records of one read have come together.
            last => self.value(GAP, (now - last).max(1), reading),
        }
        self.last = now;
        Ok(true)
    }

    /// Compares a time with the objectives, and records it if the operation counts.
    #[inline]
    fn value(&mut self, series: Series, ns: u64, reading: Reading<'_>) {
        self.meets &= reading.record.meets(series, ns);
        if reading.is_counted {
            reading.record.value(series, ns);
        }
    }

    /// Ends the stream of a complete response, and prepares for the next one. `is_expected` is true if the plan names the
    /// status of the response.
    pub(crate) fn end(&mut self, is_expected: bool) -> StreamEnd {
        let ended = std::mem::take(self);
        let is_stream = ended.head == Head::Stream;
        let is_cut = ended.reader.is_cut();
        let fault = match ended.head {
            _ if ended.fault.is_some() => ended.fault,
            Head::Other if is_expected => None,
            Head::Other => Some(outcome::STATUS),
            Head::Awaited | Head::Success => Some(outcome::CONTENT_TYPE),
            Head::Stream if is_cut && ended.is_done => Some(outcome::TRAILING),
            Head::Stream if is_cut => Some(outcome::INCOMPLETE),
            Head::Stream if ended.last == 0 => Some(outcome::NO_EVENT),
            Head::Stream => None,
        };
        let by = match (ended.is_done, ended.is_until_close) {
            (true, _) => count::ENDED_DONE,
            (false, true) => count::ENDED_CLOSE,
            (false, false) => count::ENDED_BODY,
        };
        StreamEnd {
            ended: is_stream.then_some(by),
            fault,
            meets: ended.meets && is_stream,
            tokens: ended.tokens,
        }
    }
}

/// Reads the stream of a response of HTTP/1.1, and keeps the parts that checks need.
pub(crate) struct EventSink<'a> {
    pub(crate) stream: &'a mut EventStream,
    pub(crate) reading: Reading<'a>,
    pub(crate) capture: Option<ResponseCapture<'a>>,
}

impl http1::Sink for EventSink<'_> {
    fn head(&mut self, status: u16, headers: &[httparse::Header<'_>]) {
        self.stream.status(status);
        let mut headers_of = headers.iter();
        let kind = headers_of.find(|header| header.name.eq_ignore_ascii_case(CONTENT_TYPE));
        if let Some(kind) = kind {
            self.stream.content_type(kind.value);
        }
        if let Some(capture) = &mut self.capture {
            capture.head(status, headers);
        }
    }

    fn body(&mut self, piece: &[u8]) {
        self.stream.take(piece, self.reading);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_text_is_found_by_the_names_that_servers_use() {
        for (record, expected) in [
            (
                r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
                false,
            ),
            (r#"{"choices":[{"delta":{"role":"assistant"}}]}"#, false),
            (r#"{"choices":[{"delta":{"content":null}}]}"#, false),
            (r#"{"choices":[],"usage":{"completion_tokens":1}}"#, false),
            (r#"{"choices":[{"delta":{"content":"a"}}]}"#, true),
            (
                r#"{"choices":[{"delta":{}},{"delta":{"content":"\u00e4"}}]}"#,
                true,
            ),
            (
                r#"{"choices":[{"delta":{"content":"","reasoning_content":"a"}}]}"#,
                true,
            ),
            (
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#,
                true,
            ),
            (r#"{"choices":[{"delta":{"tool_calls":[]}}]}"#, false),
            (r#"{"choices":[{"text":"a"}]}"#, true),
            (r#"{"content":"a"}"#, true),
            (r#"{"content":""}"#, false),
            ("plain text", false),
            ("7", false),
        ] {
            assert_eq!(has_content(record.as_bytes()), expected, "{record}");
        }
    }
}
