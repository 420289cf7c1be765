//! A parser for the answer of a streaming daemon, piece by piece: the HTTP head, then server-sent events.
//!
//! It has four bytes of state per stream. The caller keeps data cut by a read, which is rare: a daemon writes a record
//! at once, and a read of a local socket returns whole writes.
//!
//! Sources: RFC 9112 for the head; the WHATWG HTML standard, "Server-sent events", for the body.

use std::borrow::Cow;

use memchr::memchr;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::transcript::Difference;

/// Maximum length of a head.
const HEAD_LIMIT: usize = 16 * 1024;
/// Maximum length of a record.
const RECORD_LIMIT: usize = 256 * 1024;
/// Maximum number of header fields.
const HEADER_LIMIT: usize = 64;
/// Maximum bytes of an answer shown in an error.
const SHOWN: usize = 200;

/// The parsing state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Head,
    Body,
    Done,
}

/// Protocol violations; the name is the kind of error that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// There is no HTTP head, its status is neither 200 nor 503, or it announces no event stream.
    Head,
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

impl Fault {
    /// Returns what is wrong with an answer that begins with `unread`, for people, with the first bytes of it.
    pub fn explain(&self, unread: &[u8]) -> String {
        let reason = match self {
            Self::Head => head_problem(unread),
            Self::Sse => "a line is not a field of a server-sent event, or has no end: end each with LF or CR LF, and send no byte order mark".to_owned(),
            Self::ErrorEvent => "the daemon reports an error".to_owned(),
            _ => "the answer breaks the protocol".to_owned(),
        };
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
            Self::Head => "protocol_head",
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
    /// Bytes that were parsed; the rest belongs before the next piece.
    pub consumed: usize,
    /// Bytes of them that are the HTTP head.
    pub head: usize,
    /// Records; an end marker that is a record of its own does not count.
    pub records: u32,
    /// The daemon answered that it is at capacity (503).
    pub rejected: bool,
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

    /// Parses a piece: the rest of the previous one, and what follows it.
    ///
    /// # Errors
    /// The protocol violation.
    pub fn read(&mut self, piece: &[u8]) -> Result<Seen, Fault> {
        let mut seen = Seen::default();
        if self.phase == Phase::Head {
            seen = head(piece)?;
            if seen.head == 0 {
                return Ok(seen);
            }
            self.phase = Phase::Body;
        }
        while seen.consumed < piece.len() {
            if self.phase == Phase::Done {
                return Err(Fault::Trailing);
            }
            let Some((record, length)) = record(&piece[seen.consumed..])? else {
                break;
            };
            seen.consumed += length;
            seen.records += record.map_or(Ok(0), |data| self.take(&data))?;
        }
        Ok(seen)
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

/// Parses the head of an answer; nothing is consumed of one that is cut.
fn head(piece: &[u8]) -> Result<Seen, Fault> {
    let mut headers = [httparse::EMPTY_HEADER; HEADER_LIMIT];
    let mut response = httparse::Response::new(&mut headers);
    let mut seen = Seen::default();
    match (response.parse(piece), response.code) {
        (Ok(httparse::Status::Partial), _) if piece.len() < HEAD_LIMIT => {}
        (Ok(httparse::Status::Complete(_)), Some(503)) => {
            (seen.consumed, seen.rejected) = (piece.len(), true);
        }
        (Ok(httparse::Status::Complete(length)), Some(200))
            if is_event_stream(response.headers) =>
        {
            (seen.consumed, seen.head) = (length, length);
        }
        _ => return Err(Fault::Head),
    }
    Ok(seen)
}

/// Returns what is wrong with the head of an answer, and what to change.
fn head_problem(piece: &[u8]) -> String {
    let mut headers = [httparse::EMPTY_HEADER; HEADER_LIMIT];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(piece);
    let framed = response.headers.iter().find(|header| frames(header.name));
    match (parsed, response.code, framed) {
        (Ok(httparse::Status::Complete(_)), Some(200), Some(header)) => format!(
            "the header {} frames the body, but a stream ends with its connection: send no {0}",
            header.name
        ),
        (Ok(httparse::Status::Complete(_)), Some(200), None) => {
            "it is no event stream: send Content-Type: text/event-stream".to_owned()
        }
        (Ok(httparse::Status::Complete(_)), Some(status), _) => {
            format!("status {status}, where only 200, or 503 at capacity, is expected")
        }
        _ => "it begins with no HTTP head".to_owned(),
    }
}

/// Returns true for a header field that says how long a body is (RFC 9112, section 6.3).
fn frames(name: &str) -> bool {
    ["transfer-encoding", "content-length"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns true for an event stream that ends with the connection: the content type matches and nothing else frames the
/// body.
fn is_event_stream(headers: &[httparse::Header<'_>]) -> bool {
    let is_framed = headers.iter().any(|header| frames(header.name));
    let mut kinds = headers.iter();
    let kind = kinds.find(|header| header.name.eq_ignore_ascii_case("content-type"));
    !is_framed && kind.is_some_and(|kind| kind.value.starts_with(b"text/event-stream"))
}

/// The data of a record, if it has any.
type Data<'a> = Option<Cow<'a, [u8]>>;

/// Returns the data and the length of the first whole record of a piece, or `None` if it is cut.
fn record(piece: &[u8]) -> Result<Option<(Data<'_>, usize)>, Fault> {
    let mut data: Data<'_> = None;
    let mut at = 0;
    while let Some(length) = memchr(b'\n', &piece[at..]) {
        let line = &piece[at..at + length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        at += length + 1;
        if line.is_empty() {
            return Ok(Some((data, at)));
        }
        match (field(line)?, &mut data) {
            (None, _) => {}
            (Some(value), None) => data = Some(Cow::Borrowed(value)),
            (Some(value), Some(lines)) => {
                let lines = lines.to_mut();
                lines.push(b'\n');
                lines.extend_from_slice(value);
            }
        }
    }
    if piece.len() > RECORD_LIMIT {
        Err(Fault::Sse)
    } else {
        Ok(None)
    }
}

/// Returns the value of a `data` field; `None` for other fields and comments. The standard ignores unknown fields; here
/// they are a fault, since no daemon has a reason to send them, and so is an event named `error`.
fn field(line: &[u8]) -> Result<Option<&[u8]>, Fault> {
    if let Some(value) = line.strip_prefix(b"data:") {
        return Ok(Some(value.strip_prefix(b" ").unwrap_or(value)));
    }
    if let Some(name) = line.strip_prefix(b"event:")
        && name.trim_ascii() == b"error"
    {
        return Err(Fault::ErrorEvent);
    }
    let known = [&b":"[..], b"event:", b"id:", b"retry:"]
        .iter()
        .any(|name| line.starts_with(name));
    if known { Ok(None) } else { Err(Fault::Sse) }
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
        let mut reader = Reader::default();
        reader.read(text.as_bytes()).map(|seen| (reader, seen))
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
        assert_eq!(read("HTTP/1.1 500 Oops\r\n\r\n").unwrap_err(), Fault::Head);
        assert_eq!(read("hello\r\n\r\n").unwrap_err(), Fault::Head);
        assert_eq!(
            read("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n").unwrap_err(),
            Fault::Head
        );
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap_err(), Fault::Head);
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
        let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
        for (text, part) in [
            ("HTTP/1.1 429 Too Many Requests\r\n\r\n", "status 429"),
            (
                &format!("{stream}Transfer-Encoding: chunked\r\n\r\n"),
                "send no Transfer-Encoding",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
                "send Content-Type: text/event-stream",
            ),
            ("hello\r\n\r\n", "no HTTP head"),
            (&format!("{HEAD}\u{feff}data: 1\n"), "byte order mark"),
            (&format!("{HEAD}data: {}", "x".repeat(RECORD_LIMIT)), "…"),
        ] {
            let explained = read(text).unwrap_err().explain(text.as_bytes());
            assert!(explained.contains(part), "{explained}");
            assert!(explained.len() < 600, "{explained}");
        }
    }

    #[test]
    fn comments_other_fields_and_several_data_lines_are_understood() {
        let (reader, seen) = body(": hello\r\nevent: x\r\nid: 1\r\ndata: {\"content\":\r\ndata: \"a\"}\r\n\r\ndata: [DONE]\r\n\r\n").unwrap();
        assert!(reader.done());
        assert_eq!(seen.records, 1);
    }

    #[test]
    fn a_head_or_record_without_end_is_a_fault() {
        assert_eq!(
            read(&format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_LIMIT))).unwrap_err(),
            Fault::Head
        );
        assert_eq!(
            body(&format!("data: {}", "x".repeat(RECORD_LIMIT))).unwrap_err(),
            Fault::Sse
        );
    }

    proptest! {
        #[test]
        fn a_stream_reads_the_same_however_it_is_cut(cuts in proptest::collection::vec(1_usize..40, 1..60)) {
            let text = format!("{HEAD}data: {{\"content\":\"Grüße \\\"x\\\"\"}}\n\ndata: {{\"content\":\"b\",\"index\":1}}\n\ndata: [DONE]\n\n");
            let mut reader = Reader::default();
            let (mut left, mut records, mut rest) = (Vec::new(), 0, text.as_bytes());
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                left.extend_from_slice(piece);
                let seen = reader.read(&left).unwrap();
                left.drain(..seen.consumed);
                records += seen.records;
            }
            prop_assert!(reader.done() && left.is_empty());
            prop_assert_eq!(records, 2);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), with_head in any::<bool>()) {
            let mut piece = if with_head { HEAD.as_bytes().to_vec() } else { Vec::new() };
            piece.extend(bytes);
            if let Ok(seen) = Reader::default().read(&piece) {
                prop_assert!(seen.consumed <= piece.len());
            }
        }
    }
}
