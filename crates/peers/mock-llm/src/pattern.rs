//! Patterns of responses, by name.

use std::str::FromStr;

/// A pattern of responses. `FromStr` parses the names of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Short ASCII contents.
    Plain,
    /// Contents with many bytes per character: emoji, combining marks, right to left, JSON escapes.
    Unicode,
    /// The contents of `unicode`, with each byte of the stream in its own chunk or frame.
    ByteChunks,
    /// Contents of 4 KiB.
    FourKChunks,
    /// Syntax of server-sent events that is valid but rare: CR LF, comments, data over several lines, other fields,
    /// chunks without choices.
    Quirks,
    /// A single content: the body of the request.
    Echo,
    /// The connection (HTTP/2: the stream) is reset after this many contents.
    AbortAfter(u32),
    /// The finish reason `length`.
    FinishLength,
    /// A finish reason, but no `[DONE]`.
    FinishOnly,
    /// Neither a finish reason nor `[DONE]`: the body just ends.
    NoFinish,
    /// A body that stays open after `[DONE]`.
    Linger,
    /// An error object instead of the last content.
    ErrorEvent,
    /// A head, then nothing.
    Stall,
    /// No response at all.
    StallHead,
    /// An error status from 400 to 599, with an error object.
    Status(u16),
    /// Status 200 with a JSON object that is not a stream.
    NotSse,
}

/// The names without a number.
const NAMED: [(&str, Pattern); 14] = [
    ("plain", Pattern::Plain),
    ("unicode", Pattern::Unicode),
    ("byte-chunks", Pattern::ByteChunks),
    ("4k-chunks", Pattern::FourKChunks),
    ("quirks", Pattern::Quirks),
    ("echo", Pattern::Echo),
    ("finish-length", Pattern::FinishLength),
    ("finish-only", Pattern::FinishOnly),
    ("no-finish", Pattern::NoFinish),
    ("linger", Pattern::Linger),
    ("error-event", Pattern::ErrorEvent),
    ("stall", Pattern::Stall),
    ("stall-head", Pattern::StallHead),
    ("not-sse", Pattern::NotSse),
];

const UNICODE: [&str; 12] = [
    "Grüße, ",
    "日本語",
    "😀",
    "👩\u{200d}👩\u{200d}👧",
    "e\u{301}o\u{308}",
    "مرحبا بالعالم",
    "\u{202e}שלום\u{202c}",
    "\"quoted\" \\ / <b>&amp;",
    "line\nand\r\nline\ttab",
    "\u{0}\u{1f}\u{7f}",
    "\u{2028}\u{2029}\u{feff}\u{fffd}",
    "𝔘𝔫𝔦 🇩🇪 ",
];

impl Pattern {
    /// Returns content number `index`, from 0.
    #[must_use]
    pub fn content(self, index: u32) -> String {
        match self {
            Self::Unicode | Self::ByteChunks => UNICODE[index as usize % UNICODE.len()].to_owned(),
            Self::FourKChunks => {
                let letter = char::from(b'a' + (index % 26) as u8);
                letter.to_string().repeat(4096)
            }
            _ => format!("word{index} "),
        }
    }

    /// Returns how many of `tokens` contents are sent before the response ends.
    #[must_use]
    pub fn contents(self, tokens: u32) -> u32 {
        match self {
            Self::AbortAfter(count) => count,
            Self::Echo => 1,
            Self::ErrorEvent => tokens.saturating_sub(1),
            Self::Stall | Self::StallHead | Self::Status(_) | Self::NotSse => 0,
            _ => tokens,
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some((_, pattern)) = NAMED.iter().find(|(known, _)| *known == name) {
            return Ok(*pattern);
        }
        let numbered = None
            .or_else(|| {
                Some(Self::AbortAfter(
                    name.strip_prefix("abort-after-")?.parse().ok()?,
                ))
            })
            .or_else(|| Some(Self::Status(name.strip_prefix("status-")?.parse().ok()?)));
        match numbered {
            Some(Self::Status(status)) if !(400..600).contains(&status) => {
                Err("the status must be from 400 to 599, for instance status-429".to_owned())
            }
            Some(pattern) => Ok(pattern),
            None => {
                let known: Vec<_> = NAMED.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                Err(format!(
                    "`{name}` is not a pattern: use one of {known}, abort-after-3, status-429"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_pattern_is_answered_with_the_known_ones() {
        for name in ["", "Plain", "abort-after-", "abort-after--1", "status-x"] {
            let error = name.parse::<Pattern>().unwrap_err();
            assert!(error.contains("byte-chunks"), "{error}");
        }
        let error = "status-200".parse::<Pattern>().unwrap_err();
        assert!(error.contains("from 400 to 599"), "{error}");
    }

    #[test]
    fn contents_of_4k_have_4096_bytes() {
        assert_eq!(Pattern::FourKChunks.content(30).len(), 4096);
    }
}
