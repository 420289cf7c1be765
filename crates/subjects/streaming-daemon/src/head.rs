//! The head of the response, and the requested headers that may be added to it.

use std::collections::BTreeMap;

/// The head of every stream.
pub(crate) const HEAD: &str = "HTTP/1.1 200 OK\r\n\
    Content-Type: text/event-stream\r\n\
    Cache-Control: no-cache\r\n\
    Connection: close\r\n\
    X-Accel-Buffering: no\r\n\
    \r\n";

/// The complete response to a handoff above the limit.
pub(crate) const REFUSAL: &str = "HTTP/1.1 503 Service Unavailable\r\n\
    Retry-After: 1\r\n\
    Connection: close\r\n\
    Content-Length: 0\r\n\
    \r\n";

/// The complete response to a client whose backend failed before it responded.
pub(crate) const BAD_GATEWAY: &str = "HTTP/1.1 502 Bad Gateway\r\n\
    Connection: close\r\n\
    Content-Length: 0\r\n\
    \r\n";

/// The complete response to a client whose backend did not respond in time.
pub(crate) const GATEWAY_TIMEOUT: &str = "HTTP/1.1 504 Gateway Timeout\r\n\
    Connection: close\r\n\
    Content-Length: 0\r\n\
    \r\n";

/// Header names that the daemon sets itself, or that would change the meaning of the body.
const RESERVED: [&str; 7] = [
    "content-type",
    "cache-control",
    "connection",
    "x-accel-buffering",
    "transfer-encoding",
    "content-length",
    "content-encoding",
];

/// Returns the head with the allowed headers, before the empty line; `None` if none is allowed.
pub(crate) fn with_headers(headers: &BTreeMap<String, String>) -> Option<Vec<u8>> {
    let allowed = headers
        .iter()
        .filter(|(name, value)| is_allowed(name, value));
    let lines: String = allowed
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    if lines.is_empty() {
        return None;
    }
    let fixed = HEAD
        .strip_suffix("\r\n")
        .expect("a head ends with an empty line");
    Some([fixed, &lines, "\r\n"].concat().into_bytes())
}

fn is_allowed(name: &str, value: &str) -> bool {
    is_token(name)
        && !RESERVED
            .iter()
            .any(|reserved| name.eq_ignore_ascii_case(reserved))
        && !value
            .bytes()
            .any(|byte| byte.is_ascii_control() && byte != b'\t')
}

/// Returns true if `name` is a token as RFC 9110 §5.6.2 defines it.
fn is_token(name: &str) -> bool {
    let is_token_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(headers: &[(&str, &str)]) -> Option<String> {
        let owned = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        with_headers(&owned.collect()).map(|head| String::from_utf8(head).unwrap())
    }

    #[test]
    fn the_plain_head_has_119_bytes() {
        assert_eq!(HEAD.len(), 119);
    }

    #[test]
    fn allowed_headers_stand_sorted_before_the_empty_line() {
        let head = head(&[("X-B", "2\tand a tab, é"), ("X-A", "1")]).unwrap();
        assert!(
            head.ends_with("no\r\nX-A: 1\r\nX-B: 2\tand a tab, é\r\n\r\n"),
            "{head}"
        );
    }

    #[test]
    fn names_that_are_no_tokens_are_dropped() {
        for name in ["", "a b", "a:b", "é", "a\r\nb", "(a)"] {
            assert_eq!(head(&[(name, "v")]), None, "{name:?}");
        }
    }

    #[test]
    fn values_with_control_characters_are_dropped() {
        for value in ["a\r\nSet-Cookie: b", "a\0", "a\x7f", "\x1b[0m"] {
            assert_eq!(head(&[("X", value)]), None, "{value:?}");
        }
    }

    #[test]
    fn reserved_names_are_dropped_in_any_case() {
        for name in RESERVED {
            assert_eq!(head(&[(name, "v")]), None);
            assert_eq!(head(&[(&name.to_uppercase(), "v")]), None);
        }
        assert!(head(&[("Content-Typed", "v")]).is_some());
    }
}
