//! A parser for the answer of a streaming daemon, piece by piece: an HTTP response of server-sent events.
//!
//! It has four bytes of state per stream, and a pointer to what is kept between two pieces, which is rare: a daemon
//! writes a record at once, a read of a local socket returns whole writes, and the body ends with its connection.
//!
//! Sources: RFC 9112 for the response, read by [`http1`]; the WHATWG HTML standard, "Server-sent events", for the body, read
//! by [`event_stream`].

use std::ops::Range;

use event_stream::{is_event_stream, mark_length};
use load::net::http1::{self, RequestInfo, ResponseError, Sink};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::transcript::Difference;

/// Maximum length of a record.
const RECORD_LIMIT: usize = 256 * 1024;
/// Maximum bytes of an answer shown in an error.
const SHOWN: usize = 200;
/// The request to which the answer belongs, as far as its framing depends on it.
const REQUEST: RequestInfo = RequestInfo { head: false };

/// The parsing state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Head,
    /// Before the first byte of the body.
    Start,
    Body,
    Done,
}

/// Protocol violations; the name is the kind of error that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The answer is not an HTTP response, or not framed as one.
    Http(ResponseError),
    /// The status is neither 200 nor 503. Boxed, because every record returns this type.
    Status(Box<Status>),
    /// The answer is not an event stream.
    ContentType,
    /// A line is not a field of a server-sent event, or a record has no end.
    Sse,
    /// The data is neither a JSON object nor the end marker.
    Json,
    /// A record is out of order, or there are too many or too few of them.
    Order,
    /// Bytes follow the end marker.
    Trailing,
    /// The daemon reports an error: an event named `error`, or a record with the field `error`.
    ErrorEvent,
    /// The text of a record differs from the expected one. Boxed, because every record returns this type.
    Content(Box<Difference>),
}

/// The status of a refused answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    status: u16,
    /// The value of `Retry-After`.
    retry_after: Option<String>,
}

impl Fault {
    /// Returns what is wrong with an answer, and what to change, for people. `rest` shows where, in a few bytes.
    pub fn explain(&self, rest: Option<&Rest>) -> String {
        let reason = match self {
            Self::Http(error) => return format!("{error}: answer with HTTP/1.1 (RFC 9112)"),
            Self::Status(refused) => {
                let Status {
                    status,
                    retry_after,
                } = &**refused;
                let after = retry_after.as_ref();
                let after = after.map_or(String::new(), |time| format!(" (Retry-After: {time})"));
                return format!(
                    "status {status}{after}, where only 200, or 503 at capacity, is expected: let the daemon accept the request (--data)"
                );
            }
            Self::ContentType => {
                return "the answer is not an event stream: send Content-Type: text/event-stream"
                    .to_owned();
            }
            Self::Sse => {
                "a line is not a field of a server-sent event, or a record is longer than 256 KiB"
            }
            Self::ErrorEvent => "the daemon reports an error",
            Self::Json => "the data is neither a JSON object nor [DONE]",
            Self::Order | Self::Trailing | Self::Content(_) => "the answer breaks the protocol",
        };
        let unread = rest.map_or(&[][..], |rest| &rest.body);
        let shown = &unread[..unread.len().min(SHOWN)];
        let more = if shown.len() < unread.len() {
            "…"
        } else {
            ""
        };
        let kind = self.kind();
        format!("{reason} ({kind} in \"{}{more}\")", shown.escape_ascii())
    }

    /// Returns the counted kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) | Self::Status(_) | Self::ContentType => "protocol_head",
            Self::Sse => "protocol_sse",
            Self::Json => "protocol_json",
            Self::Order => "protocol_order",
            Self::Trailing => "protocol_trailing",
            Self::ErrorEvent => "event_error",
            Self::Content(_) => "protocol_content",
        }
    }
}

/// The parsed content of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Records; an end marker that is a record of its own does not count.
    pub records: u32,
    /// The daemon answered that it is at capacity (503).
    pub rejected: bool,
    /// The response has ended, before its connection.
    pub ended: bool,
}

/// The data that is kept between two pieces.
#[derive(Debug, Default)]
pub struct Rest {
    /// The framing of a body that does not end with its connection, or a head that is cut.
    http: Option<http1::Reader>,
    /// The beginning of a record; after a fault, the faulty record and what follows it.
    body: Vec<u8>,
}

/// The state of one stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reader {
    phase: Phase,
    /// True if the daemon numbers its records from 1, false if from 0; `None` until known.
    base: Option<bool>,
    records: u16,
}

impl Reader {
    /// Returns true if the end marker was seen.
    #[must_use]
    pub fn done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Returns the records seen so far.
    #[must_use]
    pub fn records(&self) -> u32 {
        u32::from(self.records)
    }

    /// Parses a piece, and passes its whole records to `take`. `rest` belongs to the stream: it is `None` before the
    /// first piece, and at the end of a complete answer.
    ///
    /// # Errors
    /// The protocol violation, or the error of `take`.
    pub fn read(
        &mut self,
        piece: &[u8],
        rest: &mut Option<Box<Rest>>,
        take: impl FnOnce(&[u8]) -> Result<(), Fault>,
    ) -> Result<Seen, Fault> {
        if rest.is_none() && self.phase != Phase::Head {
            return self.read_body(piece, rest, take);
        }
        let kept = rest.take().map_or_else(Rest::default, |rest| *rest);
        let Rest { mut http, mut body } = kept;
        if self.phase == Phase::Head {
            http.get_or_insert_default();
        }
        let Some(mut reader) = http else {
            body.extend_from_slice(piece);
            return self.read_body(&body, rest, take);
        };
        let mut response = Response {
            is_framed: self.phase != Phase::Head,
            body,
            ..Response::default()
        };
        let progress = reader.take(REQUEST, piece, &mut response);
        if let Some(fault) = response.fault {
            return Err(fault);
        }
        if response.rejected {
            return Ok(Seen {
                rejected: true,
                ..Seen::default()
            });
        }
        if response.has_head {
            self.phase = Phase::Start;
        }
        let mut seen = if response.is_framed {
            self.read_body(&response.body, rest, take)?
        } else {
            self.read_body(&piece[piece.len() - response.unframed..], rest, take)?
        };
        // Behind the records, which came before it.
        let progress = progress.map_err(Fault::Http)?;
        seen.ended = progress.done.is_some();
        if progress.used < piece.len() {
            return Err(Fault::Trailing);
        }
        if !seen.ended && !reader.is_until_close() {
            rest.get_or_insert_default().http = Some(reader);
        }
        Ok(seen)
    }

    /// Parses a part of the body. What is left of it, or follows a fault, becomes the rest.
    fn read_body(
        &mut self,
        data: &[u8],
        rest: &mut Option<Box<Rest>>,
        take: impl FnOnce(&[u8]) -> Result<(), Fault>,
    ) -> Result<Seen, Fault> {
        let (records, counted) = self.parse(data);
        if records.end < data.len() {
            let body = data[records.end..].to_vec();
            *rest = Some(Box::new(Rest { http: None, body }));
        }
        let seen = Seen {
            records: counted?,
            ..Seen::default()
        };
        take(&data[records])?;
        Ok(seen)
    }

    /// Checks the whole records of a part of the body. Returns where they are, and their number or the fault of the one
    /// that follows.
    fn parse(&mut self, data: &[u8]) -> (Range<usize>, Result<u32, Fault>) {
        let mut start = 0;
        if self.phase == Phase::Start && !data.is_empty() {
            let Some(length) = mark_length(data) else {
                return (0..0, Ok(0));
            };
            start = length;
            self.phase = Phase::Body;
        }
        let (mut end, mut count) = (start, 0);
        while end < data.len() && self.phase != Phase::Done {
            match self.read_record(&data[end..]) {
                Ok(Some((length, records))) => {
                    end += length;
                    count += records;
                }
                Ok(None) => return (start..end, Ok(count)),
                Err(fault) => return (start..end, Err(fault)),
            }
        }
        // The LF of a CR LF whose CR ended the last record may come alone.
        while let Some(b'\n') = data.get(end) {
            end += 1;
        }
        if end < data.len() {
            return (start..end, Err(Fault::Trailing));
        }
        (start..end, Ok(count))
    }

    /// Checks the first record; returns its length and how many records it counts for, or `None` if it is cut. The standard
    /// ignores unknown fields; here they are a fault, since no daemon has a reason to send them.
    fn read_record(&mut self, unread: &[u8]) -> Result<Option<(usize, u32)>, Fault> {
        let (record, length) = event_stream::first(unread);
        if record.event.is_some_and(is_error) {
            return Err(Fault::ErrorEvent);
        }
        let Some(length) = length.filter(|_| !record.has_unknown) else {
            let is_wrong = record.has_unknown || unread.len() > RECORD_LIMIT;
            return if is_wrong { Err(Fault::Sse) } else { Ok(None) };
        };
        let records = record.data.map_or(Ok(0), |data| self.take(&data))?;
        Ok(Some((length, records)))
    }

    /// Checks the data of one record; returns how many records it counts for.
    fn take(&mut self, text: &[u8]) -> Result<u32, Fault> {
        if text == b"[DONE]" {
            self.phase = Phase::Done;
            return Ok(0);
        }
        let record: Record = serde_json::from_slice(text).map_err(|_| Fault::Json)?;
        if record.error.is_some() {
            return Err(Fault::ErrorEvent);
        }
        if let Some(index) = record.index {
            let turn = u64::from(self.records);
            let base = *self.base.get_or_insert(index == turn + 1);
            if index != turn + u64::from(base) {
                return Err(Fault::Order);
            }
        }
        if record.content == Content::Done {
            self.phase = Phase::Done;
        }
        self.records = self.records.checked_add(1).ok_or(Fault::Order)?;
        Ok(1)
    }
}

/// The response as far as it was read.
#[derive(Debug, Default)]
struct Response {
    has_head: bool,
    /// True if a header field says how long the body is (RFC 9112, section 6.3).
    is_framed: bool,
    rejected: bool,
    fault: Option<Fault>,
    /// A framed body, after the rest of the last piece.
    body: Vec<u8>,
    /// The length of the last part of a body that ends with its connection.
    unframed: usize,
}

impl Sink for Response {
    fn head(&mut self, status: u16, headers: &[httparse::Header<'_>]) {
        let field = |name: &str| {
            let mut headers = headers.iter();
            let header = headers.find(|header| header.name.eq_ignore_ascii_case(name));
            header.map(|header| header.value)
        };
        self.has_head = true;
        self.is_framed = ["transfer-encoding", "content-length"]
            .into_iter()
            .any(|name| field(name).is_some());
        match status {
            200 if field("content-type").is_some_and(is_event_stream) => {}
            200 => self.fault = Some(Fault::ContentType),
            503 => self.rejected = true,
            _ => {
                let retry_after = field("retry-after");
                let retry_after =
                    retry_after.map(|value| value[..value.len().min(SHOWN)].escape_ascii());
                self.fault = Some(Fault::Status(Box::new(Status {
                    status,
                    retry_after: retry_after.map(|value| value.to_string()),
                })));
            }
        }
    }

    fn body(&mut self, piece: &[u8]) {
        if self.is_framed {
            self.body.extend_from_slice(piece);
        } else {
            self.unframed = piece.len();
        }
    }
}

/// Returns true for the name of an event with which a daemon reports an error.
fn is_error(name: &[u8]) -> bool {
    name.trim_ascii() == b"error"
}

/// The relevant fields of a record; others are ignored.
#[derive(Debug, Deserialize)]
struct Record {
    #[serde(default)]
    content: Content,
    #[serde(default)]
    index: Option<u64>,
    /// `null` in records of some daemons that report none.
    #[serde(default)]
    error: Option<IgnoredAny>,
}

/// The content, which is compared in place, without a copy.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(field_identifier)]
enum Content {
    #[serde(rename = "[DONE]")]
    Done,
    #[default]
    #[serde(other)]
    Text,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

    fn read(text: &str) -> Result<(Reader, Seen), Fault> {
        let (mut reader, mut rest) = (Reader::default(), None);
        let seen = reader.read(text.as_bytes(), &mut rest, |_| Ok(()));
        seen.map(|seen| (reader, seen))
    }

    /// Returns the fault of an answer.
    fn fault(text: &str) -> Fault {
        read(text).unwrap_err()
    }

    fn body(text: &str) -> Result<(Reader, Seen), Fault> {
        read(&format!("{HEAD}{text}"))
    }

    #[test]
    fn the_marker_after_the_last_record_ends_the_stream() {
        let (reader, seen) = body("data: {\"content\":\"a\"}\n\ndata: {\"content\":\"[DONE-CONTENT]\"}\n\ndata: [DONE]\n\n").unwrap();
        assert!(reader.done());
        assert_eq!((seen.records, reader.records()), (2, 2));
    }

    #[test]
    fn the_marker_as_content_of_the_last_record_ends_the_stream() {
        let (reader, seen) = body("data: {\"content\": \"a\", \"index\": 0}\n\ndata: {\"content\": \"[DONE]\", \"index\": 1}\n\n").unwrap();
        assert!(reader.done());
        assert_eq!(seen.records, 2);
    }

    #[test]
    fn a_prompt_that_quotes_the_marker_does_not_end_the_stream() {
        assert!(
            !body("data: {\"content\":\"Prompt: [DONE]\"}\n\n")
                .unwrap()
                .0
                .done()
        );
    }

    #[test]
    fn a_refusal_at_capacity_is_no_fault() {
        assert!(
            read("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\r\n")
                .unwrap()
                .1
                .rejected
        );
    }

    #[test]
    fn faults_are_told_apart() {
        for head in [
            "HTTP/1.1 500 Oops\r\n\r\n",
            "hello\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: gzip\r\n\r\n",
        ] {
            assert_eq!(fault(head).kind(), "protocol_head", "{head}");
        }
        assert_eq!(body("garbage\n\n").unwrap_err(), Fault::Sse);
        assert_eq!(body("data: {nope}\n\n").unwrap_err(), Fault::Json);
        assert_eq!(body("data: 3\n\n").unwrap_err(), Fault::Json);
        assert_eq!(
            body("data: {\"index\":0}\n\ndata: {\"index\":2}\n\n").unwrap_err(),
            Fault::Order
        );
        assert_eq!(body("data: [DONE]\n\nx").unwrap_err(), Fault::Trailing);
    }

    #[test]
    fn an_error_that_the_daemon_reports_is_no_success() {
        let end = "data: [DONE]\n\n";
        for error in [
            "event: error\ndata: {\"content\":\"a\"}\n\n",
            "event:error\r\n\r\n",
            "data: {\"error\":{\"code\":429}}\n\n",
            "data: {\"content\":\"a\",\"error\":\"overloaded\"}\n\n",
        ] {
            assert_eq!(
                body(&format!("{error}{end}")).unwrap_err(),
                Fault::ErrorEvent
            );
        }
        for text in ["event: errors\n", "data: {\"error\":null}\n\n"] {
            assert!(body(&format!("{text}{end}")).unwrap().0.done(), "{text}");
        }
    }

    #[test]
    fn a_fault_is_explained_with_a_remedy_and_few_bytes() {
        for (text, part) in [
            (
                "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n\r\n",
                "status 429 (Retry-After: 3), where",
            ),
            ("HTTP/1.1 302 Found\r\n\r\n", "status 302, where"),
            (
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
                "send Content-Type: text/event-stream",
            ),
            (
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "Transfer-Encoding is not `chunked`, or comes with HTTP/1.0",
            ),
            ("hello\r\n\r\n", "does not begin with a status line"),
            (
                &format!("{HEAD}data: {{}}\n\ndata: {{no}}\n\n"),
                "(protocol_json in \"data: {no}",
            ),
            (&format!("{HEAD}data: {}", "x".repeat(RECORD_LIMIT)), "…"),
        ] {
            let mut rest = None;
            let read = Reader::default().read(text.as_bytes(), &mut rest, |_| Ok(()));
            let explained = read.unwrap_err().explain(rest.as_deref());
            assert!(explained.contains(part), "{explained}");
            assert!(explained.len() < 600, "{explained}");
        }
    }

    /// Reads an answer in pieces of `size` bytes; returns its records, and whether it has ended before its connection.
    fn read_by(size: usize, text: &str) -> Result<(String, bool), Fault> {
        let (mut reader, mut rest) = (Reader::default(), None);
        let (mut records, mut ended) = (Vec::new(), false);
        for piece in text.as_bytes().chunks(size) {
            let seen = reader.read(piece, &mut rest, |more| {
                records.extend_from_slice(more);
                Ok(())
            })?;
            ended |= seen.ended;
        }
        assert!(reader.done() && rest.is_none(), "{size}: {text}");
        Ok((String::from_utf8(records).unwrap(), ended))
    }

    #[test]
    fn any_framing_line_end_and_byte_order_mark_is_read_however_it_is_cut() {
        let records = "data: {\"content\":\"a\"}\n\n: b\n\ndata: [DONE]\n\n";
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        for end in ["\n", "\r\n", "\r"] {
            let records = records.replace('\n', end);
            let marked = format!("\u{feff}{records}");
            let (first, second) = marked.split_at(20);
            let framed = |field: &str, body: &str| {
                format!(
                    "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream\r\n{field}\r\n{body}"
                )
            };
            let length = format!("Content-Length: {}\r\n", marked.len());
            let chunks = format!("{}{}0\r\nX: y\r\n\r\n", chunk(first), chunk(second));
            for (answer, is_framed) in [
                (framed("", &marked), false),
                (framed("", &records), false),
                (framed(&length, &marked), true),
                (framed("Transfer-Encoding: chunked\r\n", &chunks), true),
            ] {
                for size in 1..=answer.len() {
                    let read = read_by(size, &answer);
                    assert_eq!(read, Ok((records.clone(), is_framed)), "{size}: {answer}");
                }
            }
        }
    }

    #[test]
    fn a_framed_answer_that_is_cut_short_is_not_complete_and_more_than_it_is_a_fault() {
        let framed = |length| {
            let head = HEAD.replace("Connection: close", &format!("Content-Length: {length}"));
            format!("{head}data: [DONE]\n\n")
        };
        let mut rest = None;
        let answer = framed(15);
        let seen = Reader::default().read(answer.as_bytes(), &mut rest, |_| Ok(()));
        assert!(!seen.unwrap().ended && rest.is_some());
        assert!(read(&framed(14)).unwrap().1.ended);
        assert_eq!(fault(&format!("{}x", framed(14))), Fault::Trailing);
    }

    #[test]
    fn comments_other_fields_and_several_data_lines_are_understood() {
        let (reader, seen) = body(": hello\r\nevent: x\r\nid: 1\r\ndata: {\"content\":\r\ndata: \"a\"}\r\n\r\ndata: [DONE]\r\n\r\n").unwrap();
        assert!(reader.done());
        assert_eq!(seen.records, 1);
    }

    #[test]
    fn a_head_or_record_without_end_is_a_fault() {
        let head = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(64 * 1024));
        assert_eq!(fault(&head), Fault::Http(ResponseError::HeadTooLarge));
        let record = format!("data: {}", "x".repeat(RECORD_LIMIT));
        assert_eq!(body(&record).unwrap_err(), Fault::Sse);
    }

    proptest! {
        #[test]
        fn a_stream_reads_the_same_however_it_is_cut(cuts in proptest::collection::vec(1_usize..40, 1..60)) {
            let text = format!("{HEAD}data: {{\"content\":\"Grüße \\\"x\\\"\"}}\n\ndata: {{\"content\":\"b\",\"index\":1}}\n\ndata: [DONE]\n\n");
            let mut reader = Reader::default();
            let (mut kept, mut records, mut rest) = (None, 0, text.as_bytes());
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                records += reader.read(piece, &mut kept, |_| Ok(())).unwrap().records;
            }
            prop_assert!(reader.done() && kept.is_none());
            prop_assert_eq!(records, 2);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), with_head in any::<bool>()) {
            let mut piece = if with_head { HEAD.as_bytes().to_vec() } else { Vec::new() };
            piece.extend(bytes);
            let _ = Reader::default().read(&piece, &mut None, |_| Ok(()));
        }
    }
}
