//! Reads and writes durations as people and plans do: `90s`, `1m30s`, `1.5s`, `50ms`, `0`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

/// Parses a duration; the spellings of Go's flags are accepted as well.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse(text: &str) -> Result<Duration, String> {
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
/// Text that [`parse`] does not take.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// Handles optional durations: `#[serde(default, with = "duration::optional")]`.
pub mod optional {
    use super::{Deserialize, Deserializer, Duration, Serializer};

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
    /// Text that [`super::parse`] does not take.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<String>::deserialize(deserializer)?
            .map(|text| super::parse(&text).map_err(serde::de::Error::custom))
            .transpose()
    }
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
    fn a_number_without_a_unit_is_refused_with_an_example() {
        assert!(parse("10").unwrap_err().contains("such as 1m30s"));
    }
}
