//! The JSON payload of a handoff; only three of its keys matter.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::error::Category;

/// Maximum length of a payload; a longer one is refused. (`SOCK_SEQPACKET` records end at about 208 KiB with the usual
/// socket buffers.)
pub(crate) const PAYLOAD_LIMIT: usize = 128 * 1024;

/// The keys that the mock backend uses. Unknown keys are ignored; `null` counts as absent.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Request<'a> {
    pub(crate) user_id: Option<i64>,
    #[serde(borrow)]
    pub(crate) prompt: Option<Cow<'a, str>>,
    /// Extra headers, sorted by name, so that every daemon sends them in the same order.
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
    match serde_json::from_slice(payload) {
        Ok(request) => Parsed::Whole(request),
        Err(error) if error.classify() == Category::Eof => Parsed::Beginning,
        Err(error) => Parsed::Invalid(error.to_string()),
    }
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
