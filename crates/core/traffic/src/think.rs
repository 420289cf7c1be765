//! Think time: how long a client waits between an answer and its next request.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use load::duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::draw::{draw, fraction};

/// The longest pause: the largest value of a histogram.
const LONGEST: Duration = Duration::from_secs(3_600);
/// The forms, for messages.
const FORMS: &str = "write a time such as 1s, uniform:1s:3s (evenly from the first to the second) or exponential:1s (the mean)";

/// A distribution of pauses: `1s`, `uniform:1s:3s`, or `exponential:1s`, which names the mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkTime {
    /// Always the same.
    Constant(Duration),
    /// Evenly from the first to the second.
    Uniform(Duration, Duration),
    /// Exponential with this mean: the pauses of a client that acts at random. Cut off at an hour.
    Exponential(Duration),
}

impl ThinkTime {
    /// Parses a think time that was typed: a number alone means seconds, as for other times.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn parse_typed(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(_) => format!("{text}s").parse(),
            Err(_) => text.parse(),
        }
    }

    /// Returns the pause before the operation with this number, nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self, seed: u64, number: u64) -> u64 {
        let fraction = || fraction(draw(!seed, number));
        match self {
            Self::Constant(pause) => pause.as_nanos() as u64,
            Self::Uniform(least, most) => {
                let (least, most) = (least.as_nanos() as f64, most.as_nanos() as f64);
                (least + fraction() * (most - least)) as u64
            }
            Self::Exponential(mean) => {
                let drawn = -(1.0 - fraction()).ln() * mean.as_nanos() as f64;
                (drawn as u64).min(LONGEST.as_nanos() as u64)
            }
        }
    }
}

impl FromStr for ThinkTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| {
            let time = duration::parse_with_unit(text);
            let time = time.map_err(|problem| format!("`{text}`: {problem}; {FORMS}"))?;
            if time > LONGEST {
                return Err(format!("`{text}` is longer than an hour: shorten it"));
            }
            Ok(time)
        };
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        match parts.as_slice() {
            [constant] => Ok(Self::Constant(time(constant)?)),
            ["constant", constant] => Ok(Self::Constant(time(constant)?)),
            ["uniform", least, most] => {
                let (least, most) = (time(least)?, time(most)?);
                if least > most {
                    return Err(format!(
                        "`{text}`: the first time is the shorter one: {FORMS}"
                    ));
                }
                Ok(Self::Uniform(least, most))
            }
            ["exponential", mean] => Ok(Self::Exponential(time(mean)?)),
            _ => Err(format!("`{text}` is not a think time: {FORMS}")),
        }
    }
}

impl fmt::Display for ThinkTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |time: Duration| duration::format(time).replace(' ', "");
        match self {
            Self::Constant(pause) => formatter.write_str(&shown(*pause)),
            Self::Uniform(least, most) => {
                write!(formatter, "uniform:{}:{}", shown(*least), shown(*most))
            }
            Self::Exponential(mean) => write!(formatter, "exponential:{}", shown(*mean)),
        }
    }
}

impl Serialize for ThinkTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ThinkTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for ThinkTime {
    fn schema_name() -> Cow<'static, str> {
        "ThinkTime".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "The pause of a client after an answer: 1s, uniform:1s:3s, or exponential:1s with its mean.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_think_time_is_read_and_written_alike() {
        for text in ["1s", "uniform:1s:3s", "exponential:1m30s", "0s"] {
            assert_eq!(text.parse::<ThinkTime>().unwrap().to_string(), text);
        }
        assert_eq!(ThinkTime::parse_typed("7").unwrap().to_string(), "7s");
        for (text, problem) in [
            ("soon", "such as 1s"),
            ("1", "a unit"),
            ("uniform:3s:1s", "shorter"),
            ("uniform:1s", "uniform:1s:3s"),
            ("2h", "longer than an hour"),
            ("normal:1s:1s", "is not a think time"),
        ] {
            let error = text.parse::<ThinkTime>().unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn pauses_have_the_mean_and_the_bounds_of_their_distribution() {
        let mean = |text: &str| {
            let think: ThinkTime = text.parse().unwrap();
            let all = (0..100_000).map(|number| think.nanoseconds(3, number));
            let (mut sum, mut least, mut most) = (0, u64::MAX, 0);
            for pause in all {
                (sum, least, most) = (sum + pause, least.min(pause), most.max(pause));
            }
            (sum as f64 / 1e14, least as f64 / 1e9, most as f64 / 1e9)
        };
        assert_eq!(mean("1s"), (1.0, 1.0, 1.0));
        let (uniform, least, most) = mean("uniform:1s:3s");
        assert!((uniform - 2.0).abs() < 0.01, "{uniform}");
        assert!((1.0..1.01).contains(&least) && (2.99..3.0).contains(&most));
        let (exponential, _, most) = mean("exponential:1s");
        assert!((exponential - 1.0).abs() < 0.01, "{exponential}");
        assert!((8.0..20.0).contains(&most), "{most}");
    }
}
