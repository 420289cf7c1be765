//! Requests to the backend, built from handoffs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hyper::body::Bytes;
use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::request::{headers, integer};

/// The keys of a handoff that this backend uses. Unknown keys are ignored; `null` counts as absent.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Chat<'a> {
    /// Unused here, but its type is checked.
    #[serde(rename = "user_id", default, deserialize_with = "integer")]
    _user_id: Option<i64>,
    #[serde(borrow)]
    prompt: Option<Cow<'a, str>>,
    system: Option<Cow<'a, str>>,
    /// Passed on unchanged: the backend decides what a message may contain.
    messages: Option<Vec<&'a RawValue>>,
    model: Option<Cow<'a, str>>,
    max_tokens: Option<u64>,
    temperature: Option<f64>,
    test_pattern: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "headers")]
    pub(crate) response_headers: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    messages: Messages<'a>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Messages<'a> {
    Given(&'a [&'a RawValue]),
    Composed(Vec<ChatMessage<'a>>),
}

#[derive(Debug, Serialize)]
struct ChatMessage<'a> {
    role: &'a str,
    content: &'a str,
}

/// A request to the backend.
#[derive(Debug)]
pub(crate) struct BackendRequest {
    pub(super) body: Bytes,
    /// Value of `X-Test-Pattern`, which selects the response of a test backend. The API's body has no key for it.
    pub(super) test_pattern: Option<HeaderValue>,
}

impl Chat<'_> {
    /// Builds the request. `model` is for handoffs that name none; a pattern that is not a valid field value is
    /// dropped.
    pub(super) fn request(&self, model: Option<&str>) -> BackendRequest {
        let pattern = self.test_pattern.as_deref();
        BackendRequest {
            body: self.body(model),
            test_pattern: pattern.and_then(|name| HeaderValue::from_str(name).ok()),
        }
    }

    /// Renders the request as JSON. `model` is for handoffs that name none.
    fn body(&self, model: Option<&str>) -> Bytes {
        let body = Body {
            model: self.model.as_deref().or(model),
            messages: self.messages(),
            stream: true,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
        };
        Bytes::from(serde_json::to_vec(&body).expect("numbers and texts can be written as JSON"))
    }

    /// Returns the given messages, otherwise the system message and the prompt.
    fn messages(&self) -> Messages<'_> {
        if let Some(given) = &self.messages {
            return Messages::Given(given);
        }
        let system = self.system.as_deref().map(|content| ChatMessage {
            role: "system",
            content,
        });
        let prompt = ChatMessage {
            role: "user",
            content: self.prompt.as_deref().unwrap_or_default(),
        };
        Messages::Composed(system.into_iter().chain([prompt]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(payload: &str) -> String {
        let chat: Chat<'_> = serde_json::from_str(payload).unwrap();
        String::from_utf8(chat.body(Some("m")).to_vec()).unwrap()
    }

    #[test]
    fn a_prompt_becomes_a_message_after_that_of_the_system() {
        assert_eq!(
            body(r#"{"prompt":"hi \"é\"","user_id":1}"#),
            r#"{"model":"m","messages":[{"role":"user","content":"hi \"é\""}],"stream":true}"#
        );
        assert_eq!(
            body(r#"{"prompt":"p","system":"s"}"#),
            r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"p"}],"stream":true}"#
        );
    }

    #[test]
    fn given_messages_are_passed_on_unchanged_with_everything_else() {
        let payload = r#"{"messages":[{"role":"user","content":[{"x":1.50}],"y":null}],
            "prompt":"no","system":"no","model":"big","max_tokens":16,"temperature":0.1,
            "test_pattern":"plain","request_id":"r"}"#;
        assert_eq!(
            body(payload),
            r#"{"model":"big","messages":[{"role":"user","content":[{"x":1.50}],"y":null}],"stream":true,"max_tokens":16,"temperature":0.1}"#
        );
    }

    #[test]
    fn nothing_and_null_are_an_empty_prompt() {
        let expected = r#"{"model":"m","messages":[{"role":"user","content":""}],"stream":true}"#;
        assert_eq!(body("{}"), expected);
        assert_eq!(
            body(r#"{"prompt":null,"messages":null,"model":null}"#),
            expected
        );
    }
}
