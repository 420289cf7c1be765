//! JSON texts: the entries of objects, compact copies, strings and numbers.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The entries of an object, in their order. A key may occur more than once; the last one counts.
pub(crate) type Entries<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// Levels of arrays and objects that a state may have. Parsers with a limit (`serde_json`: 128) must be able to read
/// the events that contain it.
pub(crate) const MAX_DEPTH: usize = 100;

/// Splits an object into its entries. Returns `None` if the text is not one JSON object.
pub(crate) fn entries(text: &str) -> Option<Entries<'_>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let entries = deserializer.deserialize_map(EntriesVisitor).ok()?;
    deserializer.end().ok()?;
    Some(entries)
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
        let mut entries = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            entries.push((key, value.get()));
        }
        Ok(entries)
    }
}

/// A key that is borrowed if it has no escapes; `Cow` itself is always copied.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Appends a valid JSON value without white space between its tokens. Numbers and strings stay as they were written.
/// Returns false if it is nested deeper than [`MAX_DEPTH`].
pub(crate) fn push_compact(text: &str, target: &mut String) -> bool {
    let bytes = text.as_bytes();
    let (mut depth, mut start, mut at) = (0, 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b' ' | b'\t' | b'\n' | b'\r' => {
                target.push_str(&text[start..at]);
                at += 1;
                start = at;
            }
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return false;
                }
                at += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            _ => at += 1,
        }
    }
    target.push_str(&text[start..]);
    true
}

/// Returns the index after a string that begins at `start`.
pub(crate) fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the index after a value of compact JSON that begins at `start`.
pub(crate) fn value_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Parses a JSON string. Returns `None` for any other value.
pub(crate) fn parse_string(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

/// Returns a string as JSON, with quotes.
pub(crate) fn quoted(text: &str) -> Box<str> {
    let json = serde_json::to_string(text).expect("a string can be written as JSON");
    json.into_boxed_str()
}

/// Appends a number in digits.
pub(crate) fn push_number(number: u64, target: &mut Vec<u8>) {
    serde_json::to_writer(target, &number).expect("a number can be written as JSON");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compact(text: &str) -> Option<String> {
        let mut target = String::new();
        push_compact(text, &mut target).then_some(target)
    }

    #[test]
    fn only_one_object_has_entries() {
        for text in [
            "",
            "[]",
            "1",
            "null",
            "{} {}",
            "{",
            r#"{"a":}"#,
            r#"{"a":1}x"#,
        ] {
            assert!(entries(text).is_none(), "{text}");
        }
        let found = entries(r#" {"a":1.50, "\u0061" : [ 1 ], "b":"x"} "#).unwrap();
        let expected = [("a", "1.50"), ("a", "[ 1 ]"), ("b", "\"x\"")];
        assert_eq!(found.len(), 3);
        for ((key, value), expected) in found.iter().zip(expected) {
            assert_eq!((key.as_ref(), *value), expected);
        }
        assert!(matches!(found[0].0, Cow::Borrowed(_)));
    }

    #[test]
    fn a_compact_text_keeps_numbers_and_strings_as_written() {
        let text = "{ \"a b\" : [ 1.50 , -0 ,\t1E+3 ],\n\"c\\\" d\" : { } }";
        let expected = r#"{"a b":[1.50,-0,1E+3],"c\" d":{}}"#;
        assert_eq!(compact(text).unwrap(), expected);
    }

    #[test]
    fn nesting_beyond_the_limit_is_refused() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(compact(&nested(MAX_DEPTH)).is_some());
        assert!(compact(&nested(MAX_DEPTH + 1)).is_none());
        let deep = format!("{{\"a\":{}}}", nested(100_000));
        assert_eq!(entries(&deep).unwrap()[0].1.len(), 200_000);
    }
}
