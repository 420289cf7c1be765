//! A cell of a table: text, or a figure with its variation over several runs.

use super::text;
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::units;
use crate::warning::Verdict;

/// Formats a number.
pub(super) type Show = fn(f64) -> String;

/// A cell: text, or the median of several runs with their variation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Cell {
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

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::plain(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::plain(text)
    }
}

impl Cell {
    /// Creates text without variation.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self {
            median: text.into(),
            ..Self::default()
        }
    }

    pub(super) fn from_stats(spread: Option<SummaryStats>, show: Show) -> Self {
        let Some(spread) = spread else {
            return Self::plain(units::NONE);
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
            median: text::plain(name),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{significant, tenths};

    #[test]
    fn one_run_has_no_spread_and_runs_that_agree_have_none_to_show() {
        assert_eq!(
            Cell::from_stats(SummaryStats::from_values([1.0]), significant).line(),
            "1.00"
        );
        assert_eq!(
            Cell::from_stats(SummaryStats::from_values([2.0, 2.000_1]), significant).line(),
            "2.00"
        );
        assert_eq!(
            Cell::from_stats(SummaryStats::from_values([1.0, 2.0, 4.0]), significant).line(),
            "2.00 (1.00–4.00)"
        );
        assert_eq!(
            Cell::from_stats(
                SummaryStats::from_values([9.0, 10.0, 11.0, 12.0, 13.0]),
                tenths
            )
            .line(),
            "11.0 (9.0–13.0) [9.0, 13.0]"
        );
        assert_eq!(
            Cell::from_stats(
                SummaryStats::from_values([1.0, 1.0, 1.0, 1.0, 90.0]),
                tenths
            )
            .interval,
            "[0.0, 68.2]"
        );
    }
}
