//! The shared transcript's answer to any payload and number of events: the rules behind the cases of the file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Transcript;

/// The marker after the last event.
const DONE: &[u8] = b"data: [DONE]\n\n";
/// The last event and the marker, which are written at once.
const END: &[u8] = b"data: {\"content\":\"[DONE-CONTENT]\"}\n\ndata: [DONE]\n\n";
/// Bytes of the prompt that the first event repeats.
const PROMPT_EXCERPT: usize = 50;

/// The body of an answer by the shared transcript, without the HTTP head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The events that depend on the payload.
    opening: Vec<u8>,
    /// The following events, repeated from the first of them after the last one.
    lines: Vec<Vec<u8>>,
}

/// The keys of a payload that the mock backend answers to.
#[derive(Debug, Default)]
struct Request {
    user_id: i64,
    prompt: String,
}

/// An object in JSON. Of equal keys the last one counts.
type Object<'a> = BTreeMap<String, &'a RawValue>;

/// Maximum depth of objects and lists, the payload itself included.
const DEPTH_LIMIT: usize = 127;

impl Body {
    /// Computes the answer to a payload; an invalid one is answered like an empty one.
    pub fn new(payload: &[u8]) -> Self {
        let request = Request::parse(payload).unwrap_or_default();
        let default = Transcript::golden().cases.swap_remove(0);
        let mut events = default.answer.into_iter().skip(1);
        let greeting = events.next().unwrap_or_default();
        let greeting = greeting.split("benchmark test").next().unwrap_or_default();
        let prompt = excerpt(request.prompt);
        let prompt = serde_json::Value::from(prompt).to_string();
        let opening = format!(
            "{greeting}{}\"}}\n\ndata: {{\"content\":\"User ID: {}\"}}\n\n",
            &prompt[1..prompt.len() - 1],
            request.user_id
        );
        let mut lines: Vec<Vec<u8>> = events.skip(1).map(String::into_bytes).collect();
        lines.pop();
        Self {
            opening: opening.into_bytes(),
            lines,
        }
    }

    /// Returns the body of an answer with `events` events.
    pub fn with_events(&self, events: u32) -> Vec<u8> {
        let Some(before_the_last) = events.checked_sub(1) else {
            return DONE.to_vec();
        };
        let mut body = self.first_events(before_the_last);
        body.extend_from_slice(END);
        body
    }

    /// Returns the first `events` events of a longer answer.
    pub fn first_events(&self, events: u32) -> Vec<u8> {
        let opening = self.opening.split_inclusive(|byte| *byte == b'\n');
        // Two lines each: the data, and the empty one that ends the event.
        let opening: Vec<&[u8]> = opening.take(2 * events as usize).collect();
        let lines = self.lines.iter().cycle();
        let mut body = opening.concat();
        let lines = lines.take(events.saturating_sub(2) as usize);
        lines.for_each(|line| body.extend_from_slice(line));
        body
    }

    /// Returns the end of an answer after `after` bytes of its body.
    pub fn end(after: usize) -> [&'static [u8]; 2] {
        // Only an answer without events has no last one.
        if after == 0 { [END, DONE] } else { [END, END] }
    }
}

impl Request {
    /// Parses a payload; `None` if it is invalid.
    fn parse(payload: &[u8]) -> Option<Self> {
        let is_blank = |sign| matches!(sign, '\0' | ' ' | '\t' | '\n' | '\r');
        let text = std::str::from_utf8(payload).ok()?;
        let keys: Object<'_> = serde_json::from_str(text.trim_matches(is_blank)).ok()?;
        keys.values().try_for_each(|value| check(value, 1))?;
        let value = |key| keys.get(key).map(|value| value.get());
        let value = |key| value(key).filter(|value| *value != "null");
        let headers: Object<'_> = parsed(value("response_headers"))?;
        let mut headers = headers.values();
        if !headers.all(|header| header.get().starts_with('"')) {
            return None;
        }
        Some(Self {
            user_id: value("user_id").map_or(Some(0), |digits| digits.parse().ok())?,
            prompt: parsed(value("prompt"))?,
        })
    }
}

/// Parses a value; an absent one is the default.
fn parsed<'a, T: Default + Deserialize<'a>>(value: Option<&'a str>) -> Option<T> {
    value.map_or_else(
        || Some(T::default()),
        |text| serde_json::from_str(text).ok(),
    )
}

/// Checks that each text in a value is valid, and that it is not nested too deeply.
fn check(value: &RawValue, depth: usize) -> Option<()> {
    let text = value.get();
    let inner = match text.as_bytes() {
        [b'"', ..] => return serde_json::from_str::<String>(text).ok().map(drop),
        [b'{', ..] => serde_json::from_str::<Object<'_>>(text)
            .ok()?
            .into_values()
            .collect(),
        [b'[', ..] => serde_json::from_str::<Vec<&RawValue>>(text).ok()?,
        _ => return Some(()),
    };
    if depth == DEPTH_LIMIT {
        return None;
    }
    inner
        .into_iter()
        .try_for_each(|value| check(value, depth + 1))
}

/// Returns the prompt as the first event repeats it: cut between two characters.
fn excerpt(prompt: String) -> String {
    if prompt.len() <= PROMPT_EXCERPT {
        return prompt;
    }
    let mut end = PROMPT_EXCERPT;
    while !prompt.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &prompt[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_of_the_transcript_follows_from_its_payload_and_its_number_of_events() {
        for case in Transcript::golden().cases {
            let body = Body::new(&case.payload).with_events(case.messages);
            let answer = case.whole_answer();
            let (_, expected) = answer.split_once("\r\n\r\n").unwrap();
            assert_eq!(String::from_utf8(body).unwrap(), expected, "{}", case.name);
        }
    }
}
