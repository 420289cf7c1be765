//! Times as the database stores them, and as RFC 3339 writes them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time in microseconds since 1970-01-01 UTC. Its text follows RFC 3339, such as `2026-11-23T10:00:00.000000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// The last microsecond of the year 9999, the last that RFC 3339 can write.
const LATEST_US: i64 = 253_402_300_799_999_999;

impl Timestamp {
    /// Returns the time of the system's clock.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self(since.map_or(0, |since| since.as_micros() as i64))
    }

    /// Parses a text of RFC 3339, such as `2026-11-23T10:00:00Z` or `2026-11-23T03:00:00.5-07:00`. A text without an
    /// offset is of UTC, and a date alone is its beginning.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parse = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok();
        let time = parse(text)
            .or_else(|| parse(&format!("{text}Z")))
            .or_else(|| parse(&format!("{text}T00:00:00Z")))?;
        let micros = i64::try_from(time.unix_timestamp_nanos() / 1_000).ok()?;
        (micros >= 0).then_some(Self(micros))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Times before 1970 and after 9999 come only from a clock that is wrong.
        let since = Duration::from_micros(self.0.clamp(0, LATEST_US) as u64);
        humantime::format_rfc3339_micros(UNIX_EPOCH + since).fmt(formatter)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(format!(
                "{text:?} is not a time such as 2026-11-23T10:00:00Z"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_and_read_to_the_microsecond() {
        let time = Timestamp(1_763_892_000_123_456);
        assert_eq!(time.to_string(), "2025-11-23T10:00:00.123456Z");
        assert_eq!(Timestamp::parse(&time.to_string()), Some(time));
        assert_eq!(
            Timestamp::parse("2025-11-23T10:00:00Z"),
            Some(Timestamp(1_763_892_000_000_000))
        );
        let utc = Timestamp::parse("2025-10-15T05:30:00.25Z");
        for same in [
            "2025-10-15T05:30:00.250000000+00:00",
            "2025-10-14T22:30:00.25-07:00",
            "2025-10-15T11:00:00.25+05:30",
        ] {
            assert_eq!(Timestamp::parse(same), utc, "{same}");
        }
        assert_eq!(
            Timestamp::parse("2026-01-31"),
            Timestamp::parse("2026-01-31T00:00:00Z")
        );
        for wrong in [
            "yesterday",
            "",
            "2026-01",
            "2026-01-31-07:00",
            "2026-01-31T10:00:00+7:00",
            "2026-01-31T10:00:00+24:00",
            "2026-01-31T10:00:00Z-07:00",
            "2026-01-31T10:00:00+é:00",
        ] {
            assert_eq!(Timestamp::parse(wrong), None, "{wrong}");
        }
        assert_eq!(
            Timestamp(i64::MAX).to_string(),
            "9999-12-31T23:59:59.999999Z"
        );
        assert_eq!(Timestamp(-1).to_string(), "1970-01-01T00:00:00.000000Z");
    }
}
