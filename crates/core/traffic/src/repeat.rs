//! The number of times that a client does something before it goes on.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::draw::draw;

/// The forms, for messages.
const FORMS: &str =
    "write a number such as 3, or \"uniform:1:5\" (evenly from the first to the second)";

/// A distribution of numbers from 1 to 65,535: `3`, or `"uniform:1:5"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    least: u16,
    most: u16,
}

impl Repeat {
    /// Returns the number of times for the operation with this number.
    #[must_use]
    pub fn count(&self, seed: u64, number: u64) -> u16 {
        let width = u64::from(self.most - self.least) + 1;
        self.least + (draw(seed.rotate_left(32), number) % width) as u16
    }

    fn new(least: u16, most: u16) -> Result<Self, String> {
        match (least, most) {
            (0, _) => Err(format!("0 times is never: {FORMS}")),
            _ if least > most => Err(format!("the first number is the smaller one: {FORMS}")),
            _ => Ok(Self { least, most }),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let numbers = text.strip_prefix("uniform:").and_then(|rest| {
            let (least, most) = rest.split_once(':')?;
            least.parse().ok().zip(most.parse().ok())
        });
        match numbers {
            Some((least, most)) => Self::new(least, most),
            None => Err(format!("`{text}` is not a number of times: {FORMS}")),
        }
    }
}

impl Serialize for Repeat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { least, most } = self;
        if least == most {
            serializer.serialize_u16(*least)
        } else {
            serializer.collect_str(&format_args!("uniform:{least}:{most}"))
        }
    }
}

impl<'de> Deserialize<'de> for Repeat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(i64),
            Text(String),
        }
        let repeat = match Form::deserialize(deserializer) {
            Ok(Form::Number(number)) => match u16::try_from(number) {
                Ok(number) => Self::new(number, number),
                Err(_) => Err(format!("{number} is not between 1 and 65,535: {FORMS}")),
            },
            Ok(Form::Text(text)) => Self::parse(&text),
            Err(_) => Err(format!("is not a number of times: {FORMS}")),
        };
        repeat.map_err(de::Error::custom)
    }
}

impl JsonSchema for Repeat {
    fn schema_name() -> Cow<'static, str> {
        "Repeat".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "minimum": 1,
            "maximum": 65_535,
            "description": "A number of times: 3, or uniform:1:5, which is drawn each time.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_times_is_read_and_written_alike() {
        for json in ["3", "\"uniform:2:5\"", "65535"] {
            let repeat: Repeat = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&repeat).unwrap(), json);
        }
        for (json, problem) in [
            ("0", "0 times is never"),
            ("-1", "-1 is not between 1 and 65,535"),
            ("1.5", "such as 3"),
            ("\"3\"", "uniform:1:5"),
            ("\"uniform:5:2\"", "the smaller one"),
            ("\"uniform:0:2\"", "0 times is never"),
        ] {
            let error = serde_json::from_str::<Repeat>(json).unwrap_err();
            assert!(error.to_string().contains(problem), "{json}: {error}");
        }
    }

    #[test]
    fn numbers_are_drawn_evenly_within_their_bounds() {
        let repeat: Repeat = serde_json::from_str("\"uniform:2:5\"").unwrap();
        let mut counts = [0_u32; 7];
        (0..40_000).for_each(|number| counts[usize::from(repeat.count(7, number))] += 1);
        for (times, count) in counts.into_iter().enumerate() {
            let expected = if (2..=5).contains(&times) { 10_000 } else { 0 };
            assert!(count.abs_diff(expected) < 400, "{counts:?}");
        }
    }
}
