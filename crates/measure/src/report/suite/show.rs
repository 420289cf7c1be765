//! Formats figures of several runs.

use crate::report::page;
use crate::result::RunResult;
use crate::spread::SummaryStats;
use crate::units;
use crate::warning::Verdict;

/// Placeholder for a missing figure.
pub(super) use crate::report::page::NONE;

/// Formats a number.
pub(super) type Show = fn(f64) -> String;

/// A formatted figure of a cell: the median of its runs, and their variation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Text {
    /// The median, or the figure of the only run.
    pub(super) median: String,
    /// `lowest–highest`; empty for one run and for runs that agree.
    pub(super) range: String,
    /// `[lower, upper]` end of the 95 % t interval of the mean, not of the median; empty for fewer than five runs.
    pub(super) interval: String,
    /// True if it is the best of its column.
    pub(super) best: bool,
    /// The most severe verdict of the runs that the row is about, unless it is VALID.
    pub(super) verdict: Option<Verdict>,
}

impl Text {
    /// Creates text without variation.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self {
            median: text.into(),
            ..Self::default()
        }
    }

    pub(super) fn from_stats(spread: Option<SummaryStats>, show: Show) -> Self {
        let Some(spread) = spread else {
            return Self::plain(NONE);
        };
        let differs = show(spread.min) != show(spread.max);
        let interval = spread.interval.filter(|_| differs);
        Self {
            median: show(spread.median),
            range: if differs {
                format!("{}–{}", show(spread.min), show(spread.max))
            } else {
                String::new()
            },
            interval: interval.map_or(String::new(), |(low, high)| {
                // With few runs and a long tail, the interval could reach below 0 for a figure that cannot be negative.
                let low = if spread.min >= 0.0 { low.max(0.0) } else { low };
                format!("[{}, {}]", show(low), show(high))
            }),
            ..Self::default()
        }
    }

    /// Creates the name of a row, with the verdict of its runs.
    pub(super) fn row_name(name: &str, runs: &[&RunResult]) -> Self {
        let worst = runs.iter().map(|run| run.verdict).max();
        Self {
            median: page::plain(name),
            verdict: worst.filter(|verdict| *verdict > Verdict::Valid),
            ..Self::default()
        }
    }

    /// Formats everything in one line: `0.42 (0.39–0.51) [0.40, 0.46] best`.
    pub(super) fn line(&self) -> String {
        let mut line = self.short();
        if !self.range.is_empty() {
            line.push_str(&format!(" ({})", self.range));
        }
        if !self.interval.is_empty() {
            line.push_str(&format!(" {}", self.interval));
        }
        if self.best {
            line.push_str(" best");
        }
        line
    }

    /// Formats the median, with the verdict if there is one.
    pub(super) fn short(&self) -> String {
        match self.verdict {
            Some(verdict) => format!("{} ({verdict})", self.median),
            None => self.median.clone(),
        }
    }
}

/// Formats a whole number with thousands separators.
pub(super) fn whole(value: f64) -> String {
    signed(value, |value| units::count(value.round() as u64))
}

/// Formats three significant digits without an exponent.
pub(super) fn significant(value: f64) -> String {
    signed(value, |value| {
        if value >= 999.5 {
            return units::count(value.round() as u64);
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
pub(super) fn ms(ns: f64) -> String {
    significant(ns / 1e6)
}

/// Formats one digit after the decimal point.
pub(super) fn tenths(value: f64) -> String {
    signed(value, |value| format!("{value:.1}"))
}

/// Formats a share in percent, rounded down so that one failure in a million is not 100.
pub(super) fn share(pct: f64) -> String {
    if pct >= 100.0 {
        "100".to_owned()
    } else {
        format!("{:.2}", (pct * 100.0).floor() / 100.0)
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

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn one_run_has_no_spread_and_runs_that_agree_have_none_to_show() {
        assert_eq!(
            Text::from_stats(SummaryStats::from_values([1.0]), significant).line(),
            "1.00"
        );
        assert_eq!(
            Text::from_stats(SummaryStats::from_values([2.0, 2.000_1]), significant).line(),
            "2.00"
        );
        assert_eq!(
            Text::from_stats(SummaryStats::from_values([1.0, 2.0, 4.0]), significant).line(),
            "2.00 (1.00–4.00)"
        );
        assert_eq!(
            Text::from_stats(
                SummaryStats::from_values([9.0, 10.0, 11.0, 12.0, 13.0]),
                tenths
            )
            .line(),
            "11.0 (9.0–13.0) [9.0, 13.0]"
        );
        assert_eq!(
            Text::from_stats(
                SummaryStats::from_values([1.0, 1.0, 1.0, 1.0, 90.0]),
                tenths
            )
            .interval,
            "[0.0, 68.2]"
        );
    }
}
