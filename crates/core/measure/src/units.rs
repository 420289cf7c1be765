//! Human-readable numbers: every format of a figure in reports, messages and thresholds.

/// Placeholder for a missing figure.
pub const NONE: &str = "–";

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A time, in nanoseconds.
    Nanoseconds,
    /// Memory, in bytes.
    Bytes,
    /// A share, or CPU use of one core, in percent.
    Percent,
    /// A number of things.
    Count,
    /// A number of things per second.
    PerSecond,
}

impl Unit {
    /// Formats a value with its unit and enough digits to compare it with a bound.
    pub fn precise(self, value: f64) -> String {
        match self {
            Self::Percent => format!("{value:.3} %"),
            Self::PerSecond => format!("{value:.1}/s"),
            Self::Count if value.fract() != 0.0 || value < 0.0 => format!("{value:.3}"),
            _ => self.short(value),
        }
    }

    /// Formats a change with its unit: `-1.50 KiB`.
    pub fn signed(self, value: f64) -> String {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", self.precise(value.abs()))
    }

    /// Formats a value with its unit and about three digits.
    pub fn short(self, value: f64) -> String {
        match self {
            Self::Nanoseconds => duration(value as u64),
            Self::Bytes if value < 0.0 => format!("-{}", bytes(-value as u64)),
            Self::Bytes => bytes(value as u64),
            Self::Percent => format!("{value:.1} %"),
            Self::Count => whole(value),
            Self::PerSecond => format!("{}/s", significant(value)),
        }
    }
}

/// Formats a duration in nanoseconds with three significant digits and its unit: `870 ns`, `12.3 µs`, `1.04 ms`, `96.0
/// s`.
pub fn duration(ns: u64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    let value = ns as f64;
    let (scale, unit) = UNITS
        .into_iter()
        .find(|(scale, _)| value >= scale * 0.9995)
        .unwrap_or((1.0, "ns"));
    if scale == 1.0 {
        format!("{ns} ns")
    } else {
        format!("{} {unit}", three_digits(value / scale))
    }
}

/// Formats a time in seconds with a suitable unit.
pub fn seconds(seconds: f64) -> String {
    duration((seconds * 1e9) as u64)
}

/// Formats a number of bytes with its binary unit: `512 B`, `1.50 KiB`, `341 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{} {}", three_digits(value), UNITS[unit])
    }
}

/// Formats a count with thousands separators: `1,234,567`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats three significant digits without an exponent.
fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// Formats a whole number with thousands separators.
pub fn whole(value: f64) -> String {
    signed(value, |value| count(value.round() as u64))
}

/// Formats three significant digits without an exponent.
pub fn significant(value: f64) -> String {
    signed(value, |value| {
        if value >= 999.5 {
            return count(value.round() as u64);
        }
        if value == 0.0 {
            return "0".to_owned();
        }
        // 9.995 is rounded to the digits of 10.0.
        let magnitude = (value * 1.000_5).log10().floor();
        format!("{value:.0$}", (2.0 - magnitude).clamp(0.0, 9.0) as usize)
    })
}

/// Formats nanoseconds as milliseconds.
pub fn ms(ns: f64) -> String {
    significant(ns / 1e6)
}

/// Formats one digit after the decimal point.
pub fn tenths(value: f64) -> String {
    signed(value, |value| format!("{value:.1}"))
}

/// Formats a share in percent, rounded down so that one failure in a million is not 100.
pub fn share(pct: f64) -> String {
    if pct >= 100.0 {
        "100".to_owned()
    } else {
        format!("{:.2}", (pct * 100.0).floor() / 100.0)
    }
}

/// Formats bytes as KiB.
pub fn kib(bytes: f64) -> String {
    significant(bytes / 1024.0)
}

/// Formats bytes as MiB.
pub fn mib(bytes: f64) -> String {
    significant(bytes / 1_048_576.0)
}

/// Formats nanoseconds as microseconds.
pub fn us(ns: f64) -> String {
    significant(ns / 1e3)
}

/// Formats nanoseconds as seconds.
pub fn s(ns: f64) -> String {
    significant(ns / 1e9)
}

/// Formats a short axis label.
pub fn label(value: f64) -> String {
    if value >= 10.0 || value == 0.0 {
        count(value.round() as u64)
    } else {
        format!("{}", (value * 1_000.0).round() / 1_000.0)
    }
}

/// Formats a number with its significant digits only.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 999.5 => count(value.max(0.0).round() as u64),
        magnitude if magnitude >= 9.95 => format!("{value:.0}"),
        magnitude if magnitude >= 0.1 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

/// Formats seconds as such, with one digit below 100.
pub(crate) fn in_seconds(seconds: f64) -> String {
    match seconds {
        long if long >= 100.0 => format!("{} s", count(long.round() as u64)),
        short => format!("{short:.1} s"),
    }
}

/// Formats a share with its significant digits only.
pub(crate) fn percent(share: f64) -> String {
    match share {
        large if large >= 9.95 => format!("{large:.0} %"),
        middle if middle >= 0.095 => format!("{middle:.1} %"),
        small => format!("{small:.2} %"),
    }
}

/// Formats a rate with its unit, as a whole number from 100 on.
pub(crate) fn per_second(per_s: f64) -> String {
    match per_s {
        few if few < 99.95 => format!("{few:.1}/s"),
        many => format!("{}/s", count(many.round() as u64)),
    }
}

fn signed(value: f64, show: impl Fn(f64) -> String) -> String {
    let text = show(value.abs());
    let is_zero = text.chars().all(|letter| "0.".contains(letter));
    if value < 0.0 && !is_zero {
        format!("−{text}")
    } else {
        text
    }
}

/// Lists the most frequent kinds in brackets, behind a space: ` (status 200, timeout 95, …)`; empty if none was counted.
pub(crate) fn kinds(mut kinds: Vec<(String, u64)>, most: usize) -> String {
    kinds.retain(|(_, number)| *number > 0);
    kinds.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let named = kinds.iter().take(most);
    let named = named.map(|(name, number)| format!("{name} {}", count(*number)));
    let mut named: Vec<String> = named.collect();
    named.extend((kinds.len() > most).then(|| "…".to_owned()));
    match named.as_slice() {
        [] => String::new(),
        named => format!(" ({})", named.join(", ")),
    }
}

/// Lists ascending numbers with their ranges: `0, 3–5, 9`.
pub fn ranges(numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = ranges.into_iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}–{last}")
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_three_digits_and_the_unit_that_fits() {
        let shown = [
            0,
            999,
            1_000,
            12_345,
            999_499,
            999_600,
            1_040_000,
            96_000_000_000,
        ]
        .map(duration);
        assert_eq!(
            shown,
            [
                "0 ns", "999 ns", "1.00 µs", "12.3 µs", "999 µs", "1.00 ms", "1.04 ms", "96.0 s"
            ]
        );
    }

    #[test]
    fn bytes_have_binary_units() {
        assert_eq!(
            [512, 1_536, 357_564_416].map(bytes),
            ["512 B", "1.50 KiB", "341 MiB"]
        );
    }

    #[test]
    fn a_count_has_its_thousands_set_apart() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn figures_have_three_digits_whatever_their_size() {
        let shown = [
            0.0, 0.000_226, 0.157_4, 9.996, 99.96, 851.3, 38_795.4, -1.25,
        ]
        .map(significant);
        assert_eq!(
            shown,
            [
                "0", "0.000226", "0.157", "10.0", "100", "851", "38,795", "−1.25"
            ]
        );
    }
}
