//! Times as logs write them.

use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// The time of the common log format: `10/Oct/2000:13:55:36 -0700`.
const COMMON: StaticFormatDescription = format_description!(
    "[day]/[month repr:short]/[year]:[hour]:[minute]:[second] [offset_hour sign:mandatory][offset_minute]"
);
/// Numbers from here on are milliseconds: as seconds they would be after the year 5000.
const MILLISECONDS: i64 = 100_000_000_000;

/// Reads times. Lines of one second have the same text, which is parsed once.
#[derive(Debug, Default)]
pub(super) struct TimeReader {
    text: Vec<u8>,
    time: i64,
}

impl TimeReader {
    /// Returns a time in nanoseconds since 1970.
    pub(super) fn read(&mut self, text: &[u8]) -> Result<i64, String> {
        if self.text != text || text.is_empty() {
            let time = std::str::from_utf8(text).ok().and_then(parse);
            self.time = time.ok_or_else(|| {
                format!(
                    "`{}` is not a time: write seconds since 1970 (1700000000.25), RFC 3339 (2026-01-31T12:00:00Z), or as access logs do (31/Jan/2026:12:00:00 +0000)",
                    String::from_utf8_lossy(text)
                )
            })?;
            text.clone_into(&mut self.text);
        }
        Ok(self.time)
    }
}

fn parse(text: &str) -> Option<i64> {
    if text.starts_with(|first: char| first.is_ascii_digit()) && !text.contains(['-', '/', ':']) {
        return parse_number(text);
    }
    let time =
        OffsetDateTime::parse(text, &Rfc3339).or_else(|_| OffsetDateTime::parse(text, COMMON));
    i64::try_from(time.ok()?.unix_timestamp_nanos()).ok()
}

/// Parses seconds or milliseconds since 1970, with a fraction.
fn parse_number(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = whole.parse().ok()?;
    let unit = if whole >= MILLISECONDS {
        1_000_000
    } else {
        1_000_000_000
    };
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let mut part = 0;
    let mut digit_ns = unit;
    for digit in fraction.bytes() {
        digit_ns /= 10;
        part += i64::from(digit - b'0') * digit_ns;
    }
    whole.checked_mul(unit)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_logs_write_them() {
        let second = 971_211_336_000_000_000;
        for (text, time) in [
            ("10/Oct/2000:13:55:36 -0700", Some(second)),
            ("2000-10-10T20:55:36Z", Some(second)),
            ("2000-10-10T22:55:36.5+02:00", Some(second + 500_000_000)),
            ("971211336", Some(second)),
            ("971211336.25", Some(second + 250_000_000)),
            ("971211336000.5", Some(second + 500_000)),
            ("", None),
            ("-", None),
            ("1e9", None),
            ("10/Okt/2000:13:55:36 -0700", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(
                TimeReader::default().read(text.as_bytes()).ok(),
                time,
                "{text}"
            );
        }
    }
}
