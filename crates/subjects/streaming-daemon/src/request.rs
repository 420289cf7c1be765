//! The JSON payload of a handoff; only three of its keys matter.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::de::value::MapDeserializer;
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;

/// Maximum length of a payload; a longer one is refused. (`SOCK_SEQPACKET` records end at about 208 KiB with the usual
/// socket buffers.)
pub(crate) const PAYLOAD_LIMIT: usize = 128 * 1024;

const HALF_PAIR: &str = "an escape is half a surrogate pair";
/// Maximum depth of objects and lists, the payload itself included.
const DEPTH_LIMIT: usize = 127;

/// The keys that the mock backend uses. Unknown keys are ignored; `null` counts as absent.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Request<'a> {
    #[serde(default, deserialize_with = "integer")]
    pub(crate) user_id: Option<i64>,
    #[serde(borrow)]
    pub(crate) prompt: Option<Cow<'a, str>>,
    /// Extra headers, sorted by name, so that every daemon sends them in the same order.
    #[serde(default, deserialize_with = "headers")]
    pub(crate) response_headers: Option<BTreeMap<String, String>>,
}

/// The interpretation of the bytes received so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<T> {
    /// A complete request, or an empty one: no bytes, or the single NUL that Apache sends without data.
    Whole(T),
    /// The beginning of a JSON object. On a stream socket the rest may still arrive.
    Beginning,
    /// Data that no further bytes could turn into a request.
    Invalid(String),
}

/// Parses a payload, without the NULs at both of its ends, for the keys of one backend.
pub(crate) fn parse<'a, T: Default + Deserialize<'a>>(payload: &'a [u8]) -> Parsed<T> {
    let payload = trim(payload);
    match payload.first() {
        None => return Parsed::Whole(T::default()),
        // Also rejects the arrays that serde would accept for a struct.
        Some(b'{') => {}
        Some(_) => return Parsed::Invalid("it is not a JSON object".to_owned()),
    }
    // Avoids a full parse for each piece of a payload that arrives in many.
    if payload.last() != Some(&b'}') {
        return Parsed::Beginning;
    }
    let Ok(text) = std::str::from_utf8(payload) else {
        return Parsed::Invalid("it is not UTF-8".to_owned());
    };
    if let Err(problem) = check(payload) {
        return Parsed::Invalid(problem.to_owned());
    }
    match serde_json::from_str(text) {
        Ok(request) => Parsed::Whole(request),
        Err(problem) => match last_of_equal_keys(text) {
            Ok(request) => Parsed::Whole(request),
            // Even if the beginning has a fault: a further key may replace it.
            Err(error) if error.classify() == Category::Eof => Parsed::Beginning,
            Err(_) => Parsed::Invalid(problem.to_string()),
        },
    }
}

/// Parses an object in which known keys occur more than once, which serde refuses: the last one counts.
fn last_of_equal_keys<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    let keys: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
    T::deserialize(MapDeserializer::new(keys.into_iter()))
}

/// Parses an integer from its digits, since serde_json takes -0 for a fraction, which other parsers do not.
pub(crate) fn integer<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    let digits: Option<&RawValue> = Deserialize::deserialize(from)?;
    let parse = |digits: &RawValue| digits.get().parse().map_err(D::Error::custom);
    digits.map(parse).transpose()
}

/// Parses an object of strings, in which the last of equal names counts, whatever the others are.
pub(crate) fn headers<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    let values: Option<BTreeMap<String, &RawValue>> = Deserialize::deserialize(from)?;
    let text = |value: &RawValue| serde_json::from_str(value.get()).map_err(D::Error::custom);
    let parse = |values: BTreeMap<_, &RawValue>| {
        let texts = values
            .into_iter()
            .map(|(name, value)| Ok((name, text(value)?)));
        texts.collect()
    };
    values.map(parse).transpose()
}

/// Checks what serde_json does not check in the unknown keys, which it skips: the depth, and that no escape is half a
/// surrogate pair.
fn check(payload: &[u8]) -> Result<(), &'static str> {
    let (mut depth, mut is_string) = (0_usize, false);
    let mut at = 0;
    while let Some(byte) = payload.get(at) {
        at += 1;
        match (is_string, byte) {
            (_, b'"') => is_string = !is_string,
            (true, b'\\') => at += escape_length(&payload[at..])?,
            (false, b'{' | b'[') if depth == DEPTH_LIMIT => return Err("it is nested too deeply"),
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the length of an escape after its backslash, with the other half of a surrogate pair.
fn escape_length(rest: &[u8]) -> Result<usize, &'static str> {
    match code_unit(rest) {
        Some(0xd800..=0xdbff) => match rest.get(5..).and_then(|rest| rest.strip_prefix(b"\\")) {
            Some(other) if matches!(code_unit(other), Some(0xdc00..=0xdfff)) => Ok(11),
            _ => Err(HALF_PAIR),
        },
        Some(0xdc00..=0xdfff) => Err(HALF_PAIR),
        _ => Ok(1),
    }
}

/// Returns the value of an escape such as `u00e9`.
fn code_unit(escape: &[u8]) -> Option<u16> {
    let digits = escape.strip_prefix(b"u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Strips NULs from both ends, and the white space that JSON allows there.
fn trim(payload: &[u8]) -> &[u8] {
    let is_content = |byte: &u8| !matches!(byte, 0 | b' ' | b'\t' | b'\n' | b'\r');
    let start = payload.iter().position(is_content).unwrap_or(payload.len());
    let end = payload
        .iter()
        .rposition(is_content)
        .map_or(start, |last| last + 1);
    &payload[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(payload: &[u8]) -> Request<'_> {
        match parse(payload) {
            Parsed::Whole(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn is_invalid(payload: &[u8]) -> bool {
        matches!(parse::<Request<'_>>(payload), Parsed::Invalid(_))
    }

    #[test]
    fn nothing_and_nuls_are_the_default_request() {
        for payload in [&b""[..], b"\0", b"\0\0\0", b" \n\0"] {
            assert_eq!(whole(payload), Request::default());
        }
    }

    #[test]
    fn nuls_around_the_object_are_stripped() {
        assert_eq!(whole(b"\0\0{\"user_id\":7}\0").user_id, Some(7));
    }

    #[test]
    fn unknown_keys_of_any_shape_are_ignored() {
        let request =
            whole(br#"{"messages":[{"a":1}],"user_id":-3,"model":null,"temperature":0.1}"#);
        assert_eq!(request.user_id, Some(-3));
    }

    #[test]
    fn null_counts_as_absent() {
        let request = whole(br#"{"user_id":null,"prompt":null,"response_headers":null}"#);
        assert_eq!(request, Request::default());
    }

    #[test]
    fn a_known_key_of_the_wrong_type_is_invalid() {
        assert!(is_invalid(br#"{"user_id":"1"}"#));
        assert!(is_invalid(br#"{"user_id":1.5}"#));
        assert!(is_invalid(br#"{"prompt":["a"]}"#));
        assert!(is_invalid(br#"{"response_headers":{"A":1}}"#));
    }

    #[test]
    fn requests_that_no_further_byte_can_save_are_invalid() {
        for payload in [
            &b"hello"[..],
            b"[1,2]",
            b"{]}",
            b"{} {}",
            b"{\"prompt\":\"\xff\"}",
        ] {
            assert!(is_invalid(payload), "{payload:?}");
        }
    }

    #[test]
    fn every_proper_prefix_of_an_object_is_a_beginning() {
        let payload = br#"{"prompt":"a } b","response_headers":{"X":"}"},"user_id":1}"#;
        for end in 1..payload.len() {
            let parsed: Parsed<Request<'_>> = parse(&payload[..end]);
            assert_eq!(parsed, Parsed::Beginning, "{end}");
        }
        assert_eq!(whole(payload).user_id, Some(1));
    }
}
