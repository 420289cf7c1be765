//! A parsed answer of a daemon.

use anyhow::{anyhow, ensure};

use fdpass_client::sse::Reader;

/// Bytes of an answer shown in a message.
const SHOWN: usize = 120;

/// The head and the contents of a complete, correct stream.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Lines of the head, without the status and white space after a value, which is no part of it (RFC 9110,
    /// section 5.5).
    pub(crate) fields: Vec<String>,
    /// Contents of the events; an end marker that is a record of its own has none.
    pub(crate) contents: Vec<String>,
    pub(crate) bytes: usize,
}

impl Answer {
    /// Parses a whole answer; anything but a stream up to its end marker is an error.
    pub(crate) fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        ensure!(
            !bytes.is_empty(),
            "the daemon closed the client without an answer"
        );
        let mut reader = Reader::default();
        let (mut rest, mut body) = (None, String::new());
        let seen = reader
            .read(bytes, &mut rest, |records| {
                body = String::from_utf8_lossy(records).into_owned();
                Ok(())
            })
            .map_err(|fault| anyhow!("{} in {}", fault.kind(), shown(bytes)))?;
        ensure!(!seen.rejected, "the daemon answered 503");
        ensure!(
            reader.done() && rest.is_none(),
            "the stream ended after {} events without the end marker: {}",
            reader.records(),
            shown(bytes)
        );
        let text = String::from_utf8_lossy(bytes);
        let (head, _) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Ok(Self {
            fields: head
                .lines()
                .skip(1)
                .map(|line| line.trim_end().to_owned())
                .collect(),
            contents: body.split("\n\n").filter_map(content).collect(),
            bytes: bytes.len(),
        })
    }

    /// Fails unless an event ends with this text.
    pub(crate) fn says(&self, wanted: &str) -> anyhow::Result<()> {
        ensure!(
            self.contents
                .iter()
                .any(|content| content.ends_with(wanted)),
            "no event ends with {wanted:?}; the first are {:?}",
            &self.contents[..self.contents.len().min(3)]
        );
        Ok(())
    }

    /// Fails unless the head has this field.
    pub(crate) fn has_field(&self, field: &str) -> anyhow::Result<()> {
        ensure!(
            self.fields.iter().any(|found| found == field),
            "the head has no {field:?}: {:?}",
            self.fields
        );
        Ok(())
    }
}

fn content(event: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(event.strip_prefix("data:")?).ok()?;
    value.get("content")?.as_str().map(str::to_owned)
}

/// Returns the beginning of an answer, printable.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let more = if bytes.len() > SHOWN { "…" } else { "" };
    let beginning = &bytes[..bytes.len().min(SHOWN)];
    format!("\"{}{more}\"", beginning.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-A: b\r\n\r\n";

    #[test]
    fn a_whole_stream_is_taken_apart() {
        let text = format!("{HEAD}data: {{\"content\":\"Prompt: a\\n\"}}\n\ndata: [DONE]\n\n");
        let answer = Answer::parse(text.as_bytes()).unwrap();
        answer.has_field("X-A: b").unwrap();
        answer.says("Prompt: a\n").unwrap();
        assert!(answer.says("Prompt: b").is_err() && answer.has_field("X-B: b").is_err());
    }

    #[test]
    fn anything_else_says_what_is_wrong_with_it() {
        for (text, problem) in [
            (String::new(), "without an answer"),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n".to_owned(), "503"),
            (HEAD.to_owned(), "without the end marker"),
            (format!("{HEAD}data: [DONE]\n\ndata:"), "protocol_trailing"),
            (format!("{HEAD}data: [DONE]\n"), "without the end marker"),
        ] {
            let error = Answer::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(problem), "{problem} is not in: {error}");
        }
    }
}
