//! Human-readable numbers.

/// Formats a duration in nanoseconds with three significant digits and its unit: `870 ns`, `12.3 µs`, `1.04 ms`, `96.0
/// s`.
#[must_use]
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

/// Formats a number of bytes with its binary unit: `512 B`, `1.50 KiB`, `341 MiB`.
#[must_use]
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
#[must_use]
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
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
}
