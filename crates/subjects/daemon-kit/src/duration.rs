//! Durations in Go's syntax: `50ms`, `1m30s`, `1.5h`, `0`.

use std::time::Duration;

const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Parses a duration of one or more numbers, each with its unit. Only zero needs no unit.
///
/// # Errors
/// An explanation with examples, for the user.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("`{text}` is not a duration: write for instance 50ms, 5625ms, 1m30s or 0");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit = UNITS
            .iter()
            .find(|(name, _)| *name == &rest[..end])
            .ok_or_else(wrong)?;
        nanos += number * unit.1;
        rest = &rest[end..];
    }
    if text.is_empty() {
        return Err(wrong());
    }
    // Exact up to 2^53 ns (104 days).
    Ok(Duration::from_nanos(nanos.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let nanos = |text| parse_duration(text).unwrap().as_nanos();
        assert_eq!(nanos("0"), 0);
        assert_eq!(nanos("0s"), 0);
        assert_eq!(nanos("1ns"), 1);
        assert_eq!(nanos("5625ms"), 5_625_000_000);
        assert_eq!(nanos("1m30s"), 90_000_000_000);
        assert_eq!(nanos("1.5s"), 1_500_000_000);
        assert_eq!(nanos("1h2m3s4ms5us6ns"), 3_723_004_005_006);
        assert_eq!(nanos("7µs"), 7_000);
    }

    #[test]
    fn a_malformed_duration_is_refused_with_an_example() {
        for text in [
            "", "5", "ms", "-1s", "1s ", "1 s", "1.2.3s", "1d", "1e3s", "s1",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("50ms"), "{text}: {error}");
        }
    }
}
