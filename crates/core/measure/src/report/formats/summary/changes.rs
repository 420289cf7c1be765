//! Conclusions about the change of each figure against its baseline.

use crate::metrics::Better;
use crate::ratio::{Conclusion, Ratio, holm_conclusions};
use crate::report::columns::Column;
use crate::report::compare::{incomparable, ratio};
use crate::report::comparison::{Comparison, Repetitions};
use crate::result::RunResult;
use crate::units;

/// The baseline of the figures.
pub(super) struct Baseline<'a> {
    /// An earlier suite; if absent, the first daemon of this suite is the baseline.
    pub(super) base: Option<&'a Comparison<'a>>,
    /// True if runs of the same number were made next to each other.
    pub(super) paired: bool,
}

/// Row and column of a figure.
pub(super) type Position = (usize, usize);

/// Returns the conclusion for each figure with a baseline, by row and column.
pub(super) fn conclusions(
    comparison: &Comparison<'_>,
    rows: &[Repetitions<'_>],
    compared: &[Column<'_>],
    baseline: &Baseline<'_>,
) -> Vec<(Position, String)> {
    let mut texts = Vec::new();
    let mut positions: Vec<Position> = Vec::new();
    let mut changes: Vec<(Ratio, bool)> = Vec::new();
    for (row, repeated) in rows.iter().enumerate() {
        let Some(base) = base_of(comparison, repeated, baseline) else {
            continue;
        };
        for (index, column) in compared.iter().enumerate() {
            if column.is_success() {
                continue;
            }
            if let Some(reason) = incomparable(repeated, &base) {
                texts.push(((row, index), format!("not comparable: {reason}")));
                break;
            }
            let is_rate = column.is_rate();
            let read = |run: &RunResult| {
                let is_compared = !is_rate || !run.rates_include_backlog();
                column.value(run).filter(|_| is_compared)
            };
            if let Some(ratio) = ratio(read, &base, repeated, baseline.paired) {
                positions.push((row, index));
                changes.push((ratio, column.better == Better::Lower));
            }
        }
    }
    let conclusions = holm_conclusions(&changes).into_iter().zip(&changes);
    let described = conclusions.map(|(conclusion, (ratio, _))| describe(ratio, conclusion));
    texts.extend(positions.into_iter().zip(described));
    texts
}

fn base_of<'a>(
    comparison: &Comparison<'a>,
    repeated: &Repetitions<'_>,
    baseline: &Baseline<'a>,
) -> Option<Repetitions<'a>> {
    if let Some(base) = baseline.base {
        let name = comparison.daemons[repeated.daemon];
        let mut groups = base.at(repeated.level).into_iter();
        return groups.find(|other| base.daemons[other.daemon] == name);
    }
    let first = comparison.measured().next()?;
    let mut groups = comparison.at(repeated.level).into_iter();
    groups.find(|other| other.daemon == first && first != repeated.daemon)
}

/// Formats a change: `**better** −12.1 % [−14.0, −10.1]`; from a factor of two on as a factor.
fn describe(ratio: &Ratio, conclusion: Conclusion) -> String {
    let is_factor = ratio.ratio >= 2.0 || ratio.ratio <= 0.5;
    let show: fn(f64) -> String = if is_factor {
        |value| format!("× {}", units::significant(value))
    } else {
        percent
    };
    let interval = ratio.interval.map_or(String::new(), |(low, high)| {
        let number = |value: f64| show(value).replace(" %", "").replace("× ", "");
        format!(" [{}, {}]", number(low), number(high))
    });
    let conclusion = match conclusion {
        Conclusion::NoEvidence => conclusion.to_string(),
        _ => format!("**{conclusion}**"),
    };
    format!("{conclusion} {}{interval}", show(ratio.ratio))
}

fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    let size = format!("{:.1}", change.abs());
    let sign = match change {
        _ if size == "0.0" => "±",
        change if change < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{size} %")
}
