//! The bytes of the response: the head, the events of the mock backend, and the refusal.

use std::time::Duration;

use crate::head::{self, HEAD};
use crate::request::Request;

const EVENT_START: &[u8] = b"data: {\"content\":\"";
const EVENT_END: &[u8] = b"\"}\n\n";
/// The end mark.
pub(crate) const DONE: &str = "data: [DONE]\n\n";
const GREETING: &str = "Hello from the streaming daemon. Prompt: ";
/// Maximum number of bytes of the prompt that are repeated.
const PROMPT_EXCERPT: usize = 50;

/// The events between the user id and the end. `daemons/README.md` lists them for the other daemons: all of them send
/// the same bytes, so that they can be compared.
const LINES: [&str; 15] = [
    "This answer comes from the mock backend.",
    "It computes nothing: waiting is its only work.",
    "Your socket was accepted by another process.",
    "It travelled here as a control message.",
    "From now on this daemon alone writes to it.",
    "Each line that you read is one event.",
    "Each event is one write to your socket.",
    "Between two events passes one fixed delay.",
    "Nobody is asked for a token while you wait.",
    "An idle stream should cost a few bytes.",
    "A thousand of them should cost no more each.",
    "If you stop reading, only you will wait.",
    "If you go away, your place becomes free.",
    "The next event is the last one with text.",
    "After it comes the mark that ends it all.",
];

/// The response that all streams of this process share: number of events, delay between them, and their text.
///
/// A stream is `messages + 1` writes: the head is write 0 and event k is write k. Event 1 is due
/// with the head, event k at start + (k − 1) × delay, and the end marker travels with the last.
#[derive(Debug)]
pub(crate) struct Answer {
    messages: u32,
    delay_ns: u64,
    lines: Vec<Vec<u8>>,
    last: Vec<u8>,
}

/// The part of a response that depends on the request, until it is written.
#[derive(Debug)]
pub(crate) struct Opening {
    /// The head; `None` stands for the plain [`HEAD`], which nearly every stream has.
    head: Option<Vec<u8>>,
    greeting: Vec<u8>,
}

impl Answer {
    /// Renders the texts, once for all streams.
    pub(crate) fn new(messages: u32, delay: Duration) -> Self {
        let mut last = event("[DONE-CONTENT]");
        last.extend_from_slice(DONE.as_bytes());
        Self {
            messages,
            delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
            lines: LINES.iter().map(|line| event(line)).collect(),
            last,
        }
    }

    /// Returns the number of the last write.
    pub(crate) fn last_write(&self) -> u32 {
        self.messages
    }

    /// Returns the delay between two events, in nanoseconds.
    pub(crate) fn delay(&self) -> u64 {
        self.delay_ns
    }

    /// Returns how much later than the head a write is due, in nanoseconds.
    pub(crate) fn offset(&self, write: u32) -> u64 {
        u64::from(write.saturating_sub(1)).saturating_mul(self.delay_ns)
    }

    /// Renders the parts that depend on the request.
    pub(crate) fn opening(&self, request: &Request<'_>) -> Opening {
        let extra = request.response_headers.as_ref();
        let mut head = extra.and_then(head::with_headers);
        if self.messages == 0 {
            head.get_or_insert_with(|| HEAD.as_bytes().to_vec())
                .extend_from_slice(DONE.as_bytes());
        }
        let greeting = match self.messages {
            0 | 1 => Vec::new(),
            _ => greeting(request.prompt.as_deref().unwrap_or_default()),
        };
        Opening { head, greeting }
    }

    /// Returns the bytes of write number `write`. Bytes that must be composed are put into `scratch`.
    pub(crate) fn bytes<'a>(
        &'a self,
        write: u32,
        opening: Option<&'a Opening>,
        user_id: i64,
        scratch: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        match write {
            0 => opening
                .and_then(|opening| opening.head.as_deref())
                .unwrap_or(HEAD.as_bytes()),
            write if write == self.messages => &self.last,
            1 => opening.map_or(&[], |opening| &opening.greeting),
            2 => {
                *scratch = event(&format!("User ID: {user_id}"));
                scratch
            }
            write => &self.lines[(write as usize - 3) % self.lines.len()],
        }
    }
}

/// Formats a server-sent event of ASCII text that needs no escapes.
fn event(content: &str) -> Vec<u8> {
    [EVENT_START, content.as_bytes(), EVENT_END].concat()
}

fn greeting(prompt: &str) -> Vec<u8> {
    let excerpt = excerpt(prompt);
    let mut event = Vec::with_capacity(128);
    event.extend_from_slice(EVENT_START);
    event.extend_from_slice(GREETING.as_bytes());
    // A JSON string begins and ends with a quote; both are already part of the frame.
    let quoted = serde_json::to_vec(excerpt).expect("a string can be written as JSON");
    event.extend_from_slice(&quoted[1..quoted.len() - 1]);
    if excerpt.len() < prompt.len() {
        event.extend_from_slice(b"...");
    }
    event.extend_from_slice(EVENT_END);
    event
}

/// Returns the longest prefix of `prompt` with at most [`PROMPT_EXCERPT`] bytes and only whole characters.
fn excerpt(prompt: &str) -> &str {
    &prompt[..prompt.floor_char_boundary(PROMPT_EXCERPT)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn transcript(messages: u32, payload: &str) -> String {
        let request = serde_json::from_str(payload).unwrap();
        let answer = Answer::new(messages, Duration::ZERO);
        let opening = answer.opening(&request);
        let user_id = request.user_id.unwrap_or(0);
        let mut scratch = Vec::new();
        let mut all = String::new();
        for write in 0..=answer.last_write() {
            let bytes = answer.bytes(write, Some(&opening), user_id, &mut scratch);
            all += std::str::from_utf8(bytes).unwrap();
        }
        all
    }

    #[test]
    fn the_default_answer_has_1226_bytes() {
        let all = transcript(18, r#"{"prompt":"benchmark test","user_id":1}"#);
        assert_eq!(all.len(), 1226);
        assert_eq!(all.matches("data: {\"content\":\"").count(), 18);
    }

    #[test]
    fn short_answers_lose_their_middle_and_keep_their_end() {
        let end = "data: {\"content\":\"[DONE-CONTENT]\"}\n\ndata: [DONE]\n\n";
        let body = |messages| transcript(messages, r#"{"prompt":"p"}"#).split_off(HEAD.len());
        assert_eq!(body(0), DONE);
        assert_eq!(body(1), end);
        let greeting = "data: {\"content\":\"Hello from the streaming daemon. Prompt: p\"}\n\n";
        assert_eq!(body(2), format!("{greeting}{end}"));
        let user = "data: {\"content\":\"User ID: 0\"}\n\n";
        assert_eq!(body(3), format!("{greeting}{user}{end}"));
    }

    #[test]
    fn long_answers_repeat_their_middle() {
        let all = transcript(100, "{}");
        assert_eq!(all.matches("data: {\"content\":\"").count(), 100);
        assert_eq!(all.matches(LINES[0]).count(), 7);
        assert_eq!(all.matches("[DONE-CONTENT]").count(), 1);
    }

    #[test]
    fn event_k_is_due_k_minus_one_delays_after_the_head() {
        let answer = Answer::new(18, Duration::from_millis(50));
        let due: Vec<_> = [0, 1, 2, 18]
            .map(|write| answer.offset(write) / 1_000_000)
            .into();
        assert_eq!(due, [0, 0, 50, 850]);
    }

    #[test]
    fn a_prompt_is_cut_between_characters_and_says_so() {
        let fifty = "x".repeat(50);
        assert!(
            transcript(18, &format!(r#"{{"prompt":"{fifty}"}}"#)).contains(&format!("{fifty}\""))
        );
        let cut = format!("Prompt: {fifty}...\"");
        assert!(transcript(18, &format!(r#"{{"prompt":"{fifty}y"}}"#)).contains(&cut));
        // 49 bytes and then a character of two: the character would end at byte 51.
        let accent = format!(r#"{{"prompt":"{}é"}}"#, "x".repeat(49));
        let cut = format!("Prompt: {}...\"", "x".repeat(49));
        assert!(transcript(18, &accent).contains(&cut));
    }

    proptest! {
        #[test]
        fn the_greeting_of_any_prompt_is_an_event_with_that_prompt_in_it(prompt in ".{0,80}") {
            let text = String::from_utf8(greeting(&prompt)).unwrap();
            let json = text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
            prop_assert!(!json.contains('\n'));
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            let content = value["content"].as_str().unwrap().strip_prefix(GREETING).unwrap();
            if prompt.len() <= 50 {
                prop_assert_eq!(content, prompt);
            } else {
                let kept = content.strip_suffix("...").unwrap();
                prop_assert!(prompt.starts_with(kept));
                prop_assert!((47..=50).contains(&kept.len()));
            }
        }
    }
}
