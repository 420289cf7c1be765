//! The first difference between two answers, with its context.

use std::fmt;

/// Bytes of context shown on each side of the difference.
const CONTEXT: usize = 24;

/// The first byte in which an answer differs from the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its offset, from 0.
    pub at: usize,
    /// The expected text around it.
    pub expected: String,
    /// The received text around it.
    pub received: String,
}

impl Difference {
    /// Compares two answers; `None` if they are equal.
    pub fn between(expected: &[u8], received: &[u8]) -> Option<Self> {
        let shared = expected.iter().zip(received).take_while(|(a, b)| a == b);
        let at = shared.count();
        if at == expected.len() && at == received.len() {
            return None;
        }
        Some(Self {
            at,
            expected: around(expected, at),
            received: around(received, at),
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            expected,
            received,
        } = self;
        write!(
            formatter,
            "byte {at}: {expected} was expected, {received} came"
        )
    }
}

/// Returns the bytes around an offset, printable, with a mark before the byte itself.
fn around(bytes: &[u8], at: usize) -> String {
    let from = at.saturating_sub(CONTEXT);
    let to = bytes.len().min(at + CONTEXT);
    let before = if from > 0 { "…" } else { "" };
    let after = match () {
        () if at == bytes.len() => "<end>",
        () if to < bytes.len() => "…",
        () => "",
    };
    format!(
        "\"{before}{}▸{}{after}\"",
        bytes[from..at].escape_ascii(),
        bytes[at..to].escape_ascii()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_answers_do_not_differ() {
        assert_eq!(Difference::between(b"", b""), None);
        assert_eq!(Difference::between(b"abc", b"abc"), None);
    }

    #[test]
    fn the_first_byte_is_named_with_its_surroundings() {
        let difference = Difference::between(b"data: a\n\ndata: b", b"data: a\n\nDATA: b").unwrap();
        assert_eq!(difference.at, 9);
        assert_eq!(
            difference.to_string(),
            r#"byte 9: "data: a\n\n▸data: b" was expected, "data: a\n\n▸DATA: b" came"#
        );
    }

    #[test]
    fn an_answer_that_is_too_short_or_too_long_differs_at_its_end() {
        let short = Difference::between(b"abc", b"ab").unwrap();
        assert_eq!((short.at, short.received.as_str()), (2, "\"ab▸<end>\""));
        let long = Difference::between(b"ab", b"abc").unwrap();
        assert_eq!((long.at, long.expected.as_str()), (2, "\"ab▸<end>\""));
        assert_eq!(Difference::between(b"", b"x").unwrap().at, 0);
    }

    #[test]
    fn long_surroundings_are_cut_and_bytes_that_are_no_text_are_escaped() {
        let expected = [[b'a'; 100], [b'b'; 100]].concat();
        let mut received = expected.clone();
        received[100] = 0xff;
        let difference = Difference::between(&expected, &received).unwrap();
        let a = "a".repeat(CONTEXT);
        assert_eq!(
            difference.expected,
            format!("\"…{a}▸{}…\"", "b".repeat(CONTEXT))
        );
        assert_eq!(
            difference.received,
            format!("\"…{a}▸\\xff{}…\"", "b".repeat(CONTEXT - 1))
        );
    }
}
