//! Reads and writes durations as people and plans do: `90s`, `1m30s`, `1.5s`, `50ms`, `0`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserializer, Serializer};

/// The type of durations in the schemas of documents: a text with a unit.
#[derive(Debug)]
pub struct Text;

impl JsonSchema for Text {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": PATTERN,
            "description": "A time with its unit, such as 10s, 1m 30s or 50ms.",
        })
    }
}

/// Numbers with units, in the spelling of humantime.
const PATTERN: &str = "^ *(0|([0-9]+(\\.[0-9]+)? *(ns|nsec|us|µs|usec|ms|msec|s|sec|secs|second|seconds|m|min|mins|minute|minutes|h|hr|hrs|hour|hours|d|day|days) *)+)$";

/// Parses a duration that was typed: a number alone means seconds.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>().map(Duration::try_from_secs_f64) {
        Ok(Ok(seconds)) => Ok(seconds),
        _ => parse_with_unit(text),
    }
}

/// Parses a duration in a plan; the spellings of Go's flags are accepted as well.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse_with_unit(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| {
        format!("{error}: write a number with a unit, such as 1m30s, 1.5s or 50ms")
    })
}

/// Formats a duration so that [`parse`] can read it: `1m 30s`.
#[must_use]
pub fn format(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Serializes a duration for `#[serde(with = "duration")]`.
///
/// # Errors
/// None of its own.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

/// Deserializes a duration for `#[serde(with = "duration")]`.
///
/// # Errors
/// Text that [`parse_with_unit`] does not take, or a number, whose unit is unknown.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_any(WithUnit)
}

/// Reads a text with a unit, and says how to write a number with one.
struct WithUnit;

impl Visitor<'_> for WithUnit {
    type Value = Duration;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a time such as \"10s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse_with_unit(text).map_err(|problem| match text.parse::<f64>() {
            Ok(number) => without_unit(number),
            Err(_) => E::custom(format!("`{text}`: {problem}")),
        })
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Duration, E> {
        Err(without_unit(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Duration, E> {
        Err(without_unit(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Duration, E> {
        Err(without_unit(number))
    }
}

fn without_unit<E: de::Error>(number: impl fmt::Display) -> E {
    E::custom(format!(
        "must be a time with its unit: write \"{number}s\" for {number} seconds"
    ))
}

/// Handles optional durations: `#[serde(default, with = "duration::optional")]`.
pub mod optional {
    use serde::Deserialize;

    use super::{Deserializer, Duration, Serializer};

    /// Serializes an optional duration for `#[serde(with = "duration::optional")]`.
    ///
    /// # Errors
    /// None of its own.
    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Deserializes an optional duration for `#[serde(with = "duration::optional")]`.
    ///
    /// # Errors
    /// As [`super::deserialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let some = Option::<WithUnit>::deserialize(deserializer)?;
        Ok(some.map(|WithUnit(duration)| duration))
    }

    #[derive(Deserialize)]
    struct WithUnit(#[serde(with = "super")] Duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spellings_of_go_flags_are_read() {
        let read =
            ["1m30s", "1.5s", "50ms", "1ns", "0", "2h"].map(|text| parse(text).unwrap().as_nanos());
        assert_eq!(
            read,
            [
                90_000_000_000,
                1_500_000_000,
                50_000_000,
                1,
                0,
                7_200_000_000_000
            ]
        );
    }

    #[test]
    fn a_number_alone_means_seconds_if_it_was_typed() {
        for (text, expected) in [("30", 30.0), ("0.5", 0.5), ("0", 0.0)] {
            assert_eq!(parse(text).unwrap(), Duration::from_secs_f64(expected));
        }
        for text in ["-1", "nan", "soon", "10x"] {
            assert!(parse(text).unwrap_err().contains("such as 1m30s"), "{text}");
        }
    }

    #[test]
    fn a_number_without_a_unit_in_a_plan_is_refused_with_its_spelling() {
        assert!(parse_with_unit("10").unwrap_err().contains("such as 1m30s"));
        let problem = |json: &str| {
            let mut json = serde_json::Deserializer::from_str(json);
            deserialize(&mut json).unwrap_err().to_string()
        };
        for json in ["10", "\"10\""] {
            assert!(problem(json).contains("write \"10s\" for 10 seconds"));
        }
        assert!(problem("2.5").contains("\"2.5s\""));
        assert!(problem("true").contains("a time such as \"10s\""));
        let mut null = serde_json::Deserializer::from_str("null");
        assert_eq!(optional::deserialize(&mut null).unwrap(), None);
        let mut time = serde_json::Deserializer::from_str("\"5ms\"");
        let read = optional::deserialize(&mut time).unwrap();
        assert_eq!(read, Some(Duration::from_millis(5)));
    }
}
