//! Assertions about values and JSON.

use anyhow::{Context as _, ensure};
use serde_json::Value;

pub(crate) use harness::verify::conformance::expect_eq;

/// Returns the text at a JSON pointer.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> anyhow::Result<&'a str> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.with_context(|| format!("no text {pointer} in {}", shortened(value)))
}

/// Returns the integer ≥ 0 at a JSON pointer.
pub(crate) fn number(value: &Value, pointer: &str) -> anyhow::Result<u64> {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.with_context(|| format!("no integer {pointer} in {}", shortened(value)))
}

/// Returns the seq of an event or of the answer to a join.
pub(crate) fn seq(value: &Value) -> anyhow::Result<u64> {
    number(value, "/seq")
}

/// Returns the array at a JSON pointer.
pub(crate) fn array<'a>(value: &'a Value, pointer: &str) -> anyhow::Result<&'a Vec<Value>> {
    let found = value.pointer(pointer).and_then(Value::as_array);
    found.with_context(|| format!("no array {pointer} in {}", shortened(value)))
}

/// Asserts the value at a JSON pointer.
pub(crate) fn expect_at(value: &Value, pointer: &str, expected: &Value) -> anyhow::Result<()> {
    let found = value.pointer(pointer);
    ensure!(
        found == Some(expected),
        "{pointer} is not {} in {}",
        shortened(expected),
        shortened(value)
    );
    Ok(())
}

/// Returns the beginning of a value as text, for errors.
pub(crate) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_show_the_beginning_of_a_long_value() {
        let error = expect_at(&json!({"a": "x".repeat(10_000)}), "/b", &json!(1)).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("/b is not 1 in {\"a\":\"xxx") && error.len() < 500,
            "{error}"
        );
    }
}
