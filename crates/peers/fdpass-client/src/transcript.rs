//! The transcript shared by all streaming daemons: the answers to given payloads, byte for byte.

use std::collections::BTreeSet;

use serde::Deserialize;

mod body;
mod difference;

pub use body::Body;
pub use difference::Difference;

/// The file at build time.
const GOLDEN: &str = include_str!("../../../../daemons/fdpass.golden.json");

/// Payloads and their answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transcript {
    /// The description in the file.
    pub about: String,
    /// Cases in the order of the file.
    pub cases: Vec<Case>,
}

/// A payload and its answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Written")]
pub struct Case {
    /// A short, unique name.
    pub name: String,
    /// The payload that is handed over with the client.
    pub payload: Vec<u8>,
    /// `DAEMON_MESSAGE_COUNT`: events of a stream.
    pub messages: u32,
    /// True if the daemon counts the payload as `invalid_json`.
    pub invalid: bool,
    /// Everything that the client reads, in the pieces in which the daemon writes it.
    pub answer: Vec<String>,
}

impl Transcript {
    /// Returns the shared transcript.
    ///
    /// # Panics
    /// Never panics: a test reads the same file.
    #[must_use]
    pub fn golden() -> Self {
        serde_json::from_str(GOLDEN).expect("the transcript was checked by the tests")
    }

    /// Returns the numbers of events that its cases need, ascending.
    pub fn messages(&self) -> BTreeSet<u32> {
        self.cases.iter().map(|case| case.messages).collect()
    }
}

impl Case {
    /// Returns the answer in one piece.
    #[must_use]
    pub fn whole_answer(&self) -> String {
        self.answer.concat()
    }
}

/// A case as written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    payload: Option<String>,
    payload_hex: Option<String>,
    messages: u32,
    invalid: bool,
    answer: Vec<String>,
}

impl TryFrom<Written> for Case {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let wrong = |problem| format!("{}: {problem}", written.name);
        let payload = match (written.payload, written.payload_hex) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(hex)) => {
                bytes(&hex).ok_or_else(|| wrong("payload_hex needs two digits per byte"))?
            }
            _ => return Err(wrong("a case needs either payload or payload_hex")),
        };
        Ok(Self {
            name: written.name,
            payload,
            messages: written.messages,
            invalid: written.invalid,
            answer: written.answer,
        })
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    hex.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(case: &str) -> Result<Transcript, serde_json::Error> {
        serde_json::from_str(&format!(r#"{{"about": "a", "cases": [{case}]}}"#))
    }

    #[test]
    fn the_shared_transcript_is_read_and_each_case_has_a_name_of_its_own() {
        let golden = Transcript::golden();
        let names: BTreeSet<&str> = golden.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), golden.cases.len());
        assert!(golden.messages().contains(&18) && golden.messages().contains(&0));
        let default = &golden.cases[0];
        assert_eq!(
            (default.whole_answer().len(), default.answer.len()),
            (1226, 19)
        );
    }

    #[test]
    fn a_payload_is_text_or_hexadecimal_digits() {
        let payload = |field: &str| {
            let case = format!(
                r#"{{"name": "n", {field}, "messages": 1, "invalid": true, "answer": []}}"#
            );
            parse(&case).map(|transcript| transcript.cases[0].payload.clone())
        };
        assert_eq!(
            payload(r#""payload": "a\u0000é""#).unwrap(),
            "a\0é".as_bytes()
        );
        assert_eq!(payload(r#""payload_hex": "00fF""#).unwrap(), [0, 255]);
        for wrong in [
            r#""payload_hex": "0""#,
            r#""payload_hex": "0g""#,
            r#""payload_hex": "é""#,
            r#""payload": "", "payload_hex": """#,
            r#""payloda": """#,
        ] {
            assert!(payload(wrong).is_err(), "{wrong}");
        }
        let error = payload(r#""payload_hex": "0""#).unwrap_err().to_string();
        assert!(error.contains("n: payload_hex"), "{error}");
    }
}
