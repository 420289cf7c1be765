//! Fuzz targets: the lines of clients.

use serde_json::Value;

use crate::{Answer, Request};

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("request", request)];

/// A request is a JSON object, and an answer is one line of JSON with the id of the request.
pub fn request(line: &[u8]) {
    let parsed = Request::parse(line);
    let (id, answer) = match &parsed {
        Ok(request) => {
            let value: Value = serde_json::from_slice(line).expect("a request is JSON");
            assert!(value.is_object());
            (&request.header.request_id, Answer::success(&()))
        }
        Err(rejection) => {
            assert!(rejection.answer.code().is_some());
            (&rejection.request_id, rejection.answer.clone())
        }
    };
    let text = answer.line(id.as_ref());
    assert_eq!(text.find('\n'), Some(text.len() - 1), "{text:?}");
    let value: Value = serde_json::from_str(&text).expect("an answer is JSON");
    assert_eq!(value.get("request_id").is_some(), id.is_some());
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
