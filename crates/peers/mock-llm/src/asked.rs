//! Parser of chat requests.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::pattern::Pattern;

/// The keys of a chat completion request that matter here.
#[derive(Debug, Deserialize)]
struct Body {
    model: Option<String>,
    #[serde(rename = "messages")]
    _messages: Vec<IgnoredAny>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: StreamOptions,
    test_pattern: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// A valid request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    /// The pattern of the request; `None` for the server's own.
    pub(crate) pattern: Option<Pattern>,
    /// True if the number of tokens is asked for: `stream_options.include_usage`.
    pub(crate) with_usage: bool,
    /// The body as it was received.
    pub(crate) body: String,
}

impl ChatRequest {
    /// Parses a request; `header` is the value of `X-Test-Pattern`, if it has one. The error is meant for the client.
    pub(crate) fn parse(header: Option<&str>, body: &[u8]) -> Result<Self, String> {
        let read: Body = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if !read.stream {
            return Err("this server only supports streaming: send \"stream\": true".to_owned());
        }
        let named = header.or(read.test_pattern.as_deref());
        let pattern = named.map(str::parse).transpose()?;
        Ok(Self {
            model: read.model.unwrap_or_else(|| "mock".to_owned()),
            pattern,
            with_usage: read.stream_options.include_usage,
            body: String::from_utf8_lossy(body).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_messages_or_stream_or_with_an_unknown_pattern_is_refused() {
        for (body, word) in [
            (r#"{"stream":true}"#, "messages"),
            (r#"{"messages":[]}"#, "stream"),
            (
                r#"{"messages":[],"stream":true,"test_pattern":"x"}"#,
                "not a pattern",
            ),
            ("hello", "expected"),
        ] {
            let error = ChatRequest::parse(None, body.as_bytes()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn the_pattern_and_the_model_of_a_request_are_read() {
        let body =
            br#"{"messages":[{"a":1}],"stream":true,"model":"m","test_pattern":"status-429"}"#;
        let asked = ChatRequest::parse(None, body).unwrap();
        assert_eq!(
            (&*asked.model, asked.pattern),
            ("m", Some(Pattern::Status(429)))
        );
        let by_header = ChatRequest::parse(Some("status-500"), body).unwrap();
        assert_eq!(by_header.pattern, Some(Pattern::Status(500)));
        assert!(ChatRequest::parse(Some("x"), body).is_err());
    }
}
