//! Requests: the members that all have, and their checks.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use crate::answer::Answer;
use crate::code::Code;
use crate::operation::{Operation, Write};

/// The longest line of a request, in bytes.
pub const MAX_LINE: usize = 16 << 20;
const MAX_ID: usize = 200;
const MAX_KEY: usize = 200;
const MAX_ACTOR: usize = 200;
/// Deadlines below are durations, or seconds, written by mistake: 2001 in milliseconds.
const EARLIEST_DEADLINE_MS: u64 = 1_000_000_000_000;

/// The id of a request as JSON text: a text or a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Box<str>);

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        // It is repeated in the answer, where a number beyond all ranges or half of a surrogate pair is not readable.
        let is_readable = match raw.as_bytes()[0] {
            b'"' => !raw.contains('\\') || serde_json::from_str::<String>(raw).is_ok(),
            b'-' | b'0'..=b'9' => raw.parse().is_ok_and(f64::is_finite),
            _ => false,
        };
        if !is_readable || raw.len() > MAX_ID {
            let problem = format!("request_id: write a text or a number of at most {MAX_ID} bytes");
            return Err(de::Error::custom(problem));
        }
        Ok(Self(raw.into()))
    }
}

/// A key by which a repeated request is recognised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// The key.
    pub text: String,
    /// A hash of the operation and its arguments, which must be the same whenever the key is used.
    pub fingerprint: u64,
}

/// The members of a request beside its operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// The id that the answer repeats.
    pub request_id: Option<RequestId>,
    /// The one who makes the request.
    pub actor: String,
    /// The version of the client.
    pub client_version: Option<String>,
    /// The database that the client expects.
    pub expected_db: Option<String>,
    /// The Unix time in milliseconds after which the request must not begin.
    pub deadline_ms: Option<u64>,
    /// The key by which a repeated request is recognised.
    pub idempotency_key: Option<IdempotencyKey>,
}

impl Header {
    /// Returns true if the deadline has passed at a Unix time in milliseconds.
    #[must_use]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.deadline_ms.is_some_and(|deadline| deadline <= now_ms)
    }

    /// Returns the time until the deadline at a Unix time in milliseconds; `None` has no end.
    #[must_use]
    pub fn time_left(&self, now_ms: u64) -> Option<Duration> {
        let deadline = self.deadline_ms?;
        Some(Duration::from_millis(deadline.saturating_sub(now_ms)))
    }
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its members beside the operation.
    pub header: Header,
    /// The operation.
    pub operation: Operation,
}

/// A request that changes the database.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteRequest {
    /// Its members beside the operation.
    pub header: Header,
    /// The operation.
    pub write: Write,
}

/// The refusal of a line that is not a valid request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The id of the request, if it could be read.
    pub request_id: Option<RequestId>,
    /// The answer.
    pub answer: Answer,
}

/// A line as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    operation: Cow<'a, str>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    actor: Option<Cow<'a, str>>,
    request_id: Option<RequestId>,
    client_version: Option<String>,
    expected_db: Option<String>,
    deadline_ms: Option<u64>,
    idempotency_key: Option<String>,
}

impl Request {
    /// Parses a line; its end may be missing.
    ///
    /// # Errors
    /// The line is not a request, or its arguments do not fit its operation. The answer says which field is wrong.
    pub fn parse(line: &[u8]) -> Result<Self, Box<Rejection>> {
        // Serde would take the elements of an array for members.
        let is_object = line.trim_ascii_start().starts_with(b"{");
        let envelope: Envelope<'_> = is_object
            .then(|| serde_json::from_slice(line).ok())
            .flatten()
            .ok_or_else(|| refuse_line(line))?;
        let request_id = envelope.request_id.clone();
        let reject = |code, error: String| {
            Box::new(Rejection {
                request_id: request_id.clone(),
                answer: Answer::failure(code, &error),
            })
        };
        let args = envelope.args.map_or("null", RawValue::get);
        let operation = Operation::parse(&envelope.operation, args)
            .map_err(|(code, error)| reject(code, error))?;
        let header = envelope
            .header(args)
            .map_err(|error| reject(Code::InvalidRequest, error))?;
        Ok(Self { header, operation })
    }
}

impl Envelope<'_> {
    fn header(self, args: &str) -> Result<Header, String> {
        let actor = self.actor.unwrap_or_default();
        if actor.len() > MAX_ACTOR {
            return Err(format!(
                "actor: has {} bytes: {MAX_ACTOR} are allowed",
                actor.len()
            ));
        }
        if self
            .deadline_ms
            .is_some_and(|deadline| deadline < EARLIEST_DEADLINE_MS)
        {
            return Err("deadline_ms: is not a Unix time in milliseconds: add the time allowed to the current time".to_owned());
        }
        let idempotency_key = match self.idempotency_key {
            Some(text) if text.is_empty() || text.len() > MAX_KEY => {
                return Err(format!("idempotency_key: must have 1 to {MAX_KEY} bytes"));
            }
            Some(text) => Some(IdempotencyKey {
                text,
                fingerprint: fingerprint(&[self.operation.as_bytes(), args.as_bytes()]),
            }),
            None => None,
        };
        Ok(Header {
            request_id: self.request_id,
            actor: actor.into_owned(),
            client_version: self.client_version,
            expected_db: self.expected_db,
            deadline_ms: self.deadline_ms,
            idempotency_key,
        })
    }
}

/// Explains why a line is not a request. The id is found even if another member is wrong.
fn refuse_line(line: &[u8]) -> Box<Rejection> {
    #[derive(Deserialize)]
    struct IdOnly {
        request_id: Option<RequestId>,
    }
    let is_array = line.trim_ascii_start().starts_with(b"[");
    let found = serde_json::from_slice::<IdOnly>(line);
    let found = found.ok().filter(|_| !is_array);
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let error = match serde_path_to_error::deserialize::<_, Envelope<'_>>(&mut deserializer) {
        _ if is_array => "an array: write a JSON object".to_owned(),
        Err(error) => describe(&error),
        Ok(_) => "something follows the JSON object: write one per line".to_owned(),
    };
    Box::new(Rejection {
        request_id: found.and_then(|found| found.request_id),
        answer: Answer::failure(Code::InvalidRequest, &format!("not a request: {error}")),
    })
}

/// Returns the problem, and the field if it is known.
pub(crate) fn describe(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    match error.path().to_string().as_str() {
        "." => error.inner().to_string(),
        path => format!("{path}: {}", error.inner()),
    }
}

/// Computes the FNV-1a hash of some bytes. It is stored, so it must never change.
pub(crate) fn fingerprint(parts: &[&[u8]]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        // 0xff is in no UTF-8 text, so it separates the parts.
        for byte in part.iter().chain(&[0xff]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        Request::parse(line.as_bytes())
            .unwrap_err()
            .answer
            .line(None)
    }

    #[test]
    fn a_request_has_its_members() {
        let line = r#"{"operation":"show","args":{"id":"a-1"},"actor":"me","request_id":7,"deadline_ms":1800000000000,"idempotency_key":"k"}"#;
        let request = Request::parse(line.as_bytes()).unwrap();
        assert_eq!(request.header.actor, "me");
        assert_eq!(request.header.request_id.unwrap().to_string(), "7");
        assert_eq!(request.header.idempotency_key.unwrap().text, "k");
        assert_eq!(request.header.deadline_ms, Some(1_800_000_000_000));
    }

    #[test]
    fn a_wrong_line_is_refused_with_the_field_and_the_remedy() {
        let table = r#"
            => EOF
            {} => missing field `operation`
            ["ping",null,null,"me",null,null,null,null] => write a JSON object
            {"operation":"ping"} {} => one per line
            {"operation":1} => operation: invalid type
            {"operation":"ping","argz":1} => argz
            {"operation":"ping","request_id":[1]} => request_id: write a text or a number
            {"operation":"ping","request_id":1e999} => request_id: write a text or a number
            {"operation":"ping","request_id":"\ud800"} => request_id: write a text or a number
            {"operation":"ping","deadline_ms":30000} => deadline_ms: is not a Unix time
            {"operation":"ping","idempotency_key":""} => 1 to 200 bytes
        "#;
        for (line, parts) in test_kit::rows(table) {
            let answer = refused(line);
            assert!(answer.contains("invalid_request"), "{line}: {answer}");
            test_kit::assert_contains(&answer, &parts);
        }
    }

    #[test]
    fn a_refusal_has_the_id_of_the_request_if_it_can_be_read() {
        for line in [
            r#"{"operation":"nothing","request_id":"a"}"#,
            r#"{"operation":1,"request_id":"a"}"#,
            r#"{"operation":"show","args":{"id":7},"request_id":"a"}"#,
        ] {
            let rejection = Request::parse(line.as_bytes()).unwrap_err();
            assert_eq!(rejection.request_id.unwrap().to_string(), "\"a\"", "{line}");
        }
    }
}
