//! A cell of a table: text, or a figure with its variation over several runs.

use super::plain;
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::units;
use crate::warning::Verdict;

/// Formats a number.
pub(super) type Show = fn(f64) -> String;

/// A cell: text, or the mean of several runs with their variation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Cell {
    /// The mean of the runs ([`SummaryStats::mean`]), or the figure of the only one.
    pub(super) value: String,
    /// `lowest–highest`; empty for one run and for runs that agree.
    pub(super) range: String,
    /// `[lower, upper]` end of the 95 % t interval of the mean; empty for fewer than five runs.
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
            value: text.into(),
            ..Self::default()
        }
    }

    pub(super) fn from_stats(stats: Option<SummaryStats>, show: Show) -> Self {
        let Some(stats) = stats else {
            return Self::plain(units::NONE);
        };
        let mut cell = Self::plain(show(stats.mean));
        let (lowest, highest) = (show(stats.min), show(stats.max));
        if lowest == highest {
            return cell;
        }
        cell.range = format!("{lowest}–{highest}");
        if let Some((low, high)) = stats.interval {
            // The interval of an arithmetic mean could reach below 0 for values that cannot be negative.
            let low = if stats.min >= 0.0 { low.max(0.0) } else { low };
            cell.interval = format!("[{}, {}]", show(low), show(high));
        }
        cell
    }

    /// Creates the name of a row, with the verdict of its runs.
    pub(super) fn row_name(name: &str, runs: &[&RunResult]) -> Self {
        let worst = runs.iter().map(|run| run.verdict).max();
        Self {
            verdict: worst.filter(|verdict| *verdict > Verdict::Valid),
            ..Self::plain(plain(name))
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

    /// Formats the value with the interval, or else the range.
    pub(super) fn spread(&self) -> String {
        match (self.interval.as_str(), self.range.as_str()) {
            ("", "") => self.value.clone(),
            ("", range) => format!("{} ({range})", self.value),
            (interval, _) => format!("{} {interval}", self.value),
        }
    }

    /// Formats the value, with the verdict if there is one.
    pub(super) fn short(&self) -> String {
        match self.verdict {
            Some(verdict) => format!("{} ({verdict})", self.value),
            None => self.value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{significant, tenths};

    #[test]
    fn one_run_has_no_spread_and_runs_that_agree_have_none_to_show() {
        let cell = |values: &[f64], show: Show| {
            let values = values.iter().copied();
            Cell::from_stats(SummaryStats::from_values(values), show)
        };
        for (values, line) in [
            (&[1.0][..], "1.00"),
            (&[2.0, 2.000_1], "2.00"),
            (&[1.0, 2.0, 4.0], "2.00 (1.00–4.00)"),
        ] {
            assert_eq!(cell(values, significant).line(), line);
        }
        let five = cell(&[9.0, 10.0, 11.0, 12.0, 13.0], tenths);
        assert_eq!(five.line(), "10.9 (9.0–13.0) [9.1, 13.1]");
        let tailed = cell(&[1.0, 1.0, 1.0, 1.0, 90.0], tenths);
        assert_eq!(tailed.interval, "[0.2, 29.9]");
    }
}
