//! Translation of the backend's events into the client's.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::failure::BackendFailure;
use super::sse::Parser;
use crate::answer::DONE;

/// Maximum number of characters logged of an error that the backend reports.
const REPORT_EXCERPT: usize = 200;

/// A response, as far as it has been read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    parser: Parser,
    progress: Progress,
}

#[derive(Debug, Default)]
struct Progress {
    /// The finish reason, once the model has reported it.
    finish: Option<String>,
    /// True after `[DONE]`. Data after it is ignored.
    is_done: bool,
}

/// A `chat.completion.chunk`; only its first choice is used.
#[derive(Debug, Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    /// The error that many servers send when they fail after the head.
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
}

impl Reading {
    /// Reads a piece and appends to `out` an event for each content in it. Returns the number of events, and the error
    /// after them, if any.
    pub(crate) fn take(
        &mut self,
        piece: &[u8],
        out: &mut Vec<u8>,
    ) -> (u64, Result<(), BackendFailure>) {
        let (progress, mut events) = (&mut self.progress, 0);
        let fed = self.parser.feed(piece, |data| {
            events += u64::from(progress.take(data, out)?);
            Ok(())
        });
        (events, fed)
    }

    /// Returns true once the response is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.progress.is_done
    }

    /// Appends the end after the last content. Must be called after `[DONE]`, or after the regular end of the response:
    /// without `[DONE]` the response is complete if it has a finish reason, which comes last. Returns the number of
    /// appended events, without the end mark.
    ///
    /// An unusual finish reason is passed on to the client. It comes in an event like the others, with an empty
    /// content, so that clients that only append contents can ignore it.
    pub(crate) fn finish(&self, out: &mut Vec<u8>) -> Result<u64, BackendFailure> {
        let Progress { finish, is_done } = &self.progress;
        if finish.is_none() && !is_done {
            return Err(BackendFailure::Cut);
        }
        let unusual = finish.as_deref().filter(|reason| *reason != "stop");
        if let Some(reason) = unusual {
            out.extend_from_slice(b"data: {\"content\":\"\",\"finish_reason\":");
            append_string(out, reason);
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(DONE.as_bytes());
        Ok(u64::from(unusual.is_some()))
    }
}

impl Progress {
    /// Processes the data of one event. Returns true if it led to an event for the client.
    fn take(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<bool, BackendFailure> {
        if self.is_done {
            return Ok(false);
        }
        if data.trim_ascii() == b"[DONE]" {
            self.is_done = true;
            return Ok(false);
        }
        let chunk: Chunk<'_> = serde_json::from_slice(data)?;
        if let Some(error) = chunk.error {
            return Err(BackendFailure::Reported(excerpt(error.get())));
        }
        let Some(choice) = chunk.choices.and_then(|all| all.into_iter().next()) else {
            return Ok(false);
        };
        self.finish = choice.finish_reason.or(self.finish.take());
        let content = choice.delta.and_then(|delta| delta.content);
        let content = content.filter(|content| !content.is_empty());
        if let Some(content) = &content {
            out.extend_from_slice(b"data: {\"content\":");
            append_string(out, content);
            out.extend_from_slice(b"}\n\n");
        }
        Ok(content.is_some())
    }
}

/// Returns the beginning of a report for the log, with line ends and terminal control characters replaced.
fn excerpt(report: &str) -> String {
    let shown = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    report.chars().take(REPORT_EXCERPT).map(shown).collect()
}

/// Appends a JSON string, escaped as in all other events.
fn append_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string can be written as JSON");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the client's bytes for these events, and the result.
    fn read(events: &[&str]) -> (String, Result<u64, BackendFailure>) {
        let (mut reading, mut out) = (Reading::default(), Vec::new());
        let text: String = events
            .iter()
            .map(|data| format!("data: {data}\n\n"))
            .collect();
        let (_, taken) = reading.take(text.as_bytes(), &mut out);
        let ended = taken.and_then(|()| reading.finish(&mut out));
        (String::from_utf8(out).unwrap(), ended)
    }

    fn content(text: &str) -> String {
        serde_json::json!({"choices": [{"delta": {"content": text}}]}).to_string()
    }

    fn finish(reason: &str) -> String {
        format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
    }

    #[test]
    fn each_content_is_an_event_with_the_escapes_of_the_mock_backend() {
        let (out, ended) = read(&[&content("a\"\\\n\u{1}/é😀\u{2028}"), "[DONE]"]);
        assert_eq!(
            out,
            "data: {\"content\":\"a\\\"\\\\\\n\\u0001/é😀\u{2028}\"}\n\ndata: [DONE]\n\n"
        );
        assert!(ended.is_ok());
    }

    #[test]
    fn chunks_without_content_are_no_events() {
        let (out, ended) = read(&[
            r#"{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            r#"{"choices":[{"delta":{"content":null}}],"error":null}"#,
            r#"{"choices":[],"usage":{"total_tokens":7}}"#,
            r#"{"choices":null}"#,
            r#"{"choices":[{"delta":null}]}"#,
            "{}",
            " [DONE] ",
        ]);
        assert_eq!((out.as_str(), ended.unwrap()), (DONE, 0));
    }

    #[test]
    fn a_finish_reason_is_passed_on_unless_it_is_stop() {
        assert_eq!(read(&[&finish("stop"), "[DONE]"]).0, DONE);
        let expected = format!("data: {{\"content\":\"\",\"finish_reason\":\"length\"}}\n\n{DONE}");
        let (out, ended) = read(&[&finish("length"), r#"{"choices":[]}"#, "[DONE]"]);
        assert_eq!((out, ended.unwrap()), (expected, 1));
    }

    #[test]
    fn with_a_finish_reason_an_end_without_done_is_complete_and_without_one_it_is_cut() {
        assert!(read(&[&content("a"), &finish("stop")]).1.is_ok());
        assert!(matches!(read(&[&content("a")]).1, Err(BackendFailure::Cut)));
        assert!(matches!(read(&[]).1, Err(BackendFailure::Cut)));
    }

    #[test]
    fn bytes_after_done_are_ignored() {
        let (out, ended) = read(&["[DONE]", &content("late"), "nonsense"]);
        assert_eq!(out, DONE);
        assert!(ended.is_ok());
    }

    #[test]
    fn errors_and_nonsense_end_the_answer_after_what_came_before() {
        let (out, ended) = read(&[&content("a"), r#"{"error":{"message":"no memory"}}"#]);
        assert_eq!(out, "data: {\"content\":\"a\"}\n\n");
        assert!(ended.unwrap_err().to_string().contains("no memory"));
        let (_, ended) = read(&["{\"error\":\"a\u{7f}\\u001b[2J\u{9b}31m\"}"]);
        let report = ended.unwrap_err().to_string();
        assert!(!report.contains(char::is_control), "{report:?}");
        assert!(report.contains("a\u{fffd}"), "{report:?}");
        for data in [
            "nonsense",
            "[1]",
            r#"{"choices":7}"#,
            r#"{"choices":[{"delta":{"content":7}}]}"#,
        ] {
            assert!(
                matches!(read(&[data]).1, Err(BackendFailure::Malformed(_))),
                "{data}"
            );
        }
    }
}
