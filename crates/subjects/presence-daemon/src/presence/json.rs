//! JSON texts: the entries of objects, compact copies, strings and numbers.

use std::borrow::Cow;

/// The entries of an object, in their order. A key is written without its quotes and with as few escapes as possible. It
/// may occur more than once; the last one counts.
pub(crate) type Entries<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// Levels of arrays and objects that a state may have. Parsers with a limit (`serde_json`: 128) must be able to read
/// the events that contain it.
pub(crate) const MAX_DEPTH: usize = 100;

/// Splits an object into its entries. The text consists of valid JSON values, separated by commas. Returns `None` if it is
/// not one object.
pub(crate) fn entries(text: &str) -> Option<Entries<'_>> {
    let text = text.trim_ascii();
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'{') {
        return None;
    }
    let mut entries = Vec::new();
    let mut at = skip_space(bytes, 1);
    while bytes.get(at) == Some(&b'"') {
        let key_end = string_end(bytes, at);
        let colon = skip_space(bytes, key_end);
        let value = skip_space(bytes, colon + 1);
        let end = value_end(bytes, value);
        let key = plain_key(text.get(at..key_end)?)?;
        entries.push((key, text.get(value..end)?.trim_ascii_end()));
        at = match bytes.get(end) {
            Some(b',') => skip_space(bytes, end + 1),
            _ => end,
        };
    }
    // The brace that ends the object ends the text.
    (at + 1 == bytes.len()).then_some(entries)
}

/// Returns a key as it stands in [`Entries`].
fn plain_key(json: &str) -> Option<Cow<'_, str>> {
    let without_quotes = |json: &str| 1..json.len() - 1;
    if !json.contains('\\') {
        return json.get(without_quotes(json)).map(Cow::Borrowed);
    }
    let json = quoted(&parse_string(json)?);
    Some(Cow::Owned(json[without_quotes(&json)].to_owned()))
}

/// Returns the index of the first byte from `start` on that is not white space.
fn skip_space(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    start
        + rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count()
}

/// Appends a valid JSON value that has no white space around it, without white space between its tokens. Numbers and
/// strings stay as they were written. Returns false if it is nested deeper than [`MAX_DEPTH`].
pub(crate) fn push_compact(text: &str, target: &mut String) -> bool {
    if !text.starts_with(['{', '[']) {
        target.push_str(text);
        return true;
    }
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

/// Returns the index after a value that begins at `start`, in an array or object, and after the white space behind it.
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
            "{},{}",
            r#"{"a":1},{}"#,
            r#"{"a":1} , 2"#,
        ] {
            assert!(entries(text).is_none(), "{text}");
        }
        assert_eq!(entries(" { } ").unwrap(), []);
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
