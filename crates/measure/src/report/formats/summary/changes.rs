//! Conclusions about the change of each figure against its baseline.

use crate::machine::Machine;
use crate::metrics::Better;
use crate::ratio::{Conclusion, Ratio, holm_conclusions};
use crate::report::columns::Column;
use crate::report::comparison::{Comparison, Repetitions};
use crate::result::RunResult;
use crate::units;
use crate::warning::Verdict;

/// The baseline of the figures.
pub(super) struct Baseline<'a> {
    /// An earlier suite; if absent, the first daemon of this suite is the baseline.
    pub(super) base: Option<&'a Comparison<'a>>,
    /// True if runs of the same number were made next to each other.
    pub(super) paired: bool,
}

/// A change of a figure: its row, its column and its size.
struct Change {
    row: usize,
    column: usize,
    ratio: Ratio,
    lower_is_better: bool,
}

/// Returns the conclusion for each figure with a baseline, by row and column.
pub(super) fn conclusions(
    comparison: &Comparison<'_>,
    rows: &[Repetitions<'_>],
    compared: &[Column<'_>],
    baseline: &Baseline<'_>,
) -> Vec<((usize, usize), String)> {
    let mut found = Vec::new();
    let mut changes = Vec::new();
    for (row, repeated) in rows.iter().enumerate() {
        let Some(base) = base_of(comparison, repeated, baseline) else {
            continue;
        };
        for (index, column) in compared.iter().enumerate() {
            if column.is_success() {
                continue;
            }
            if let Some(why) = incomparable(repeated, &base) {
                found.push(((row, index), format!("not comparable: {why}")));
                break;
            }
            if let Some(ratio) = ratio(column, &base, repeated, baseline.paired) {
                changes.push(Change {
                    row,
                    column: index,
                    ratio,
                    lower_is_better: column.better == Better::Lower,
                });
            }
        }
    }
    let asked: Vec<(Ratio, bool)> = changes
        .iter()
        .map(|change| (change.ratio, change.lower_is_better))
        .collect();
    let concluded = changes
        .iter()
        .zip(holm_conclusions(&asked))
        .map(|(change, conclusion)| {
            (
                (change.row, change.column),
                describe(&change.ratio, conclusion),
            )
        });
    found.extend(concluded);
    found
}

fn base_of<'a>(
    comparison: &Comparison<'a>,
    repeated: &Repetitions<'_>,
    baseline: &Baseline<'a>,
) -> Option<Repetitions<'a>> {
    match baseline.base {
        Some(base) => {
            let name = comparison.daemons[repeated.daemon];
            base.at(repeated.level)
                .into_iter()
                .find(|other| base.daemons[other.daemon] == name)
        }
        None => {
            let first = comparison
                .measured()
                .next()
                .filter(|first| *first != repeated.daemon)?;
            comparison
                .at(repeated.level)
                .into_iter()
                .find(|other| other.daemon == first)
        }
    }
}

/// Returns the reason why two groups of runs cannot be compared.
fn incomparable(one: &Repetitions<'_>, other: &Repetitions<'_>) -> Option<&'static str> {
    let all = || one.runs.iter().chain(&other.runs);
    let first = one.runs.first()?;
    if all().any(|run| run.verdict == Verdict::Invalid) {
        return Some("INVALID runs");
    }
    if all().any(|run| fingerprint(&run.machine) != fingerprint(&first.machine)) {
        return Some("different machines");
    }
    if all().any(|run| run.plan_sentence != first.plan_sentence) {
        return Some("different plans");
    }
    all()
        .any(|run| run.success_pct().is_none_or(|share| share < 100.0))
        .then_some("failures")
}

/// Returns the facts that identify a machine regardless of its name.
fn fingerprint(machine: &Machine) -> (&str, Option<&str>, u64, u64, &str) {
    let gib = machine.memory_bytes >> 30;
    (
        &machine.kernel,
        machine.cpu_model.as_deref(),
        machine.cpus,
        gib,
        &machine.build_profile,
    )
}

fn ratio(
    figure: &Column<'_>,
    base: &Repetitions<'_>,
    repeated: &Repetitions<'_>,
    paired: bool,
) -> Option<Ratio> {
    if paired {
        let pairs = base.runs.iter().zip(&repeated.runs);
        return Ratio::paired(
            pairs.filter_map(|(base, run)| Some((figure.value(base)?, figure.value(run)?))),
        );
    }
    let of = |runs: &[&RunResult]| {
        runs.iter()
            .filter_map(|run| figure.value(run))
            .collect::<Vec<f64>>()
    };
    Ratio::unpaired(&of(&base.runs), &of(&repeated.runs))
}

/// Formats a change: `**better** −12.1 % [−14.0, −10.1]`; from a factor of two on as a factor.
fn describe(ratio: &Ratio, conclusion: Conclusion) -> String {
    let factor = ratio.ratio >= 2.0 || ratio.ratio <= 0.5;
    let show = |value: f64| {
        if factor {
            format!("× {}", units::significant(value))
        } else {
            percent(value)
        }
    };
    let interval = ratio.interval.map_or(String::new(), |(low, high)| {
        let plain = |value: f64| show(value).replace(" %", "").replace("× ", "");
        format!(" [{}, {}]", plain(low), plain(high))
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
