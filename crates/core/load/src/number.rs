//! Reads numbers as people type them: `100`, `10k`, `1.5m`, `1_000`.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// Factors that may follow a number, in either case.
const FACTORS: [(&str, f64); 3] = [("k", 1e3), ("m", 1e6), ("g", 1e9)];
/// Largest whole number that a float holds without a gap.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Parses a whole number, such as `100`, `10k` or `1.5m`.
///
/// # Errors
/// A sentence that says what is expected.
pub fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = match text.replace('_', "").parse::<u64>() {
        Ok(number) => number,
        Err(_) => from_decimal(decimal(text)?)?,
    };
    number
        .try_into()
        .map_err(|_| "is larger than this option can be: lower it".to_owned())
}

/// Returns a parser of whole numbers in a range, written as [`whole`] reads them.
pub fn within<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: TryFrom<u64> + PartialOrd + Display + Clone,
{
    move |text| match whole::<T>(text)? {
        number if range.contains(&number) => Ok(number),
        _ => Err(format!("must be from {} to {}", range.start(), range.end())),
    }
}

fn from_decimal(number: f64) -> Result<u64, String> {
    if number < 0.0 {
        return Err("must be 0 or more".to_owned());
    }
    if number > EXACT {
        return Err("is too large: lower it".to_owned());
    }
    // 2.3 × 100 is not quite 230.
    if (number - number.round()).abs() > 1e-6 {
        return Err("must be a whole number, such as 100, 10k or 1.5m".to_owned());
    }
    Ok(number.round() as u64)
}

/// Parses a number that may have a fraction, such as `0.5`, `500` or `1.5k`.
///
/// # Errors
/// A sentence that says what is expected.
pub fn decimal(text: &str) -> Result<f64, String> {
    let lower = text.to_lowercase();
    let suffix = FACTORS
        .iter()
        .find_map(|(name, factor)| Some((lower.strip_suffix(name)?, *factor)));
    let (digits, factor) = suffix.unwrap_or((&lower, 1.0));
    let number: Option<f64> = digits.replace('_', "").parse().ok();
    number
        .map(|number| number * factor)
        .filter(|number| number.is_finite())
        .ok_or_else(|| "is not a number: write it as 500, 10k (thousand) or 1.5m (million)".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_checked_and_named() {
        let parser = within(1..=1_000_u32);
        assert_eq!(parser("1k"), Ok(1_000));
        for text in ["0", "1001", "2k"] {
            assert_eq!(parser(text), Err("must be from 1 to 1000".to_owned()));
        }
        assert!(parser("many").is_err());
    }

    #[test]
    fn thousands_and_millions_are_numbers() {
        for (text, expected) in [
            ("0", 0),
            ("100", 100),
            ("10k", 10_000),
            ("10K", 10_000),
            ("1.5m", 1_500_000),
            ("2M", 2_000_000),
            ("1g", 1_000_000_000),
            ("1_000", 1_000),
            ("2.3k", 2_300),
            ("0.29m", 290_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(whole::<u64>(text), Ok(expected), "{text}");
        }
        assert!((decimal("0.5k").unwrap() - 500.0).abs() < 1e-9);
        assert!((decimal("-5").unwrap() + 5.0).abs() < 1e-9);
    }

    #[test]
    fn a_malformed_number_is_refused_with_an_example() {
        for (text, part) in [
            ("fast", "10k"),
            ("k", "10k"),
            ("1kk", "10k"),
            ("", "10k"),
            ("nan", "10k"),
            ("inf", "10k"),
            ("-5", "0 or more"),
            ("1e300", "lower it"),
            ("1.5", "whole number"),
        ] {
            let problem = whole::<u64>(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
        assert!(whole::<u16>("70k").unwrap_err().contains("larger"));
    }
}
