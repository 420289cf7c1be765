//! Times as the database stores them, and as RFC 3339 writes them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time in microseconds since 1970-01-01 UTC. Its text is that of RFC 3339, such as `2026-11-23T10:00:00.000000Z`.
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

    /// Parses a text of RFC 3339 in UTC.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let time = humantime::parse_rfc3339_weak(text).ok()?;
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        Some(Self(i64::try_from(since.as_micros()).ok()?))
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
        assert_eq!(Timestamp::parse("yesterday"), None);
        assert_eq!(
            Timestamp(i64::MAX).to_string(),
            "9999-12-31T23:59:59.999999Z"
        );
        assert_eq!(Timestamp(-1).to_string(), "1970-01-01T00:00:00.000000Z");
    }
}
