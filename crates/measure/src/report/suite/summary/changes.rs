//! What is said of the change of each figure against its base.

use super::super::cells::{Cell, Cells};
use super::super::glance::Best;
use super::super::grid::Figure;
use super::super::show;
use crate::machine::Machine;
use crate::ratio::{Ratio, Word, words};
use crate::result::RunResult;
use crate::warning::Verdict;

/// What a figure is held against, and where it comes from.
pub(super) struct Against<'a> {
    /// An earlier suite, else the first daemon of this one.
    pub(super) base: Option<&'a Cells<'a>>,
    /// Whether runs of the same number were made beside each other.
    pub(super) paired: bool,
}

/// A change that is told: its cell, its column, and what it is.
struct Change {
    row: usize,
    column: usize,
    ratio: Ratio,
    lower_is_better: bool,
}

/// What is said of each figure that has a base, by row and column.
pub(super) fn said(
    cells: &Cells<'_>,
    rows: &[Cell<'_>],
    compared: &[(Figure<'_>, Best)],
    against: &Against<'_>,
) -> Vec<((usize, usize), String)> {
    let mut said = Vec::new();
    let mut changes = Vec::new();
    for (row, cell) in rows.iter().enumerate() {
        let Some(base) = base_of(cells, cell, against) else {
            continue;
        };
        for (column, (figure, best)) in compared.iter().enumerate() {
            if *best == Best::MostServed {
                continue;
            }
            if let Some(why) = incomparable(cell, &base) {
                said.push(((row, column), format!("not comparable: {why}")));
                break;
            }
            if let Some(ratio) = ratio(figure, &base, cell, against.paired) {
                changes.push(Change {
                    row,
                    column,
                    ratio,
                    lower_is_better: *best == Best::Lowest,
                });
            }
        }
    }
    let asked: Vec<(Ratio, bool)> = changes
        .iter()
        .map(|change| (change.ratio, change.lower_is_better))
        .collect();
    let told = changes
        .iter()
        .zip(words(&asked))
        .map(|(change, word)| ((change.row, change.column), told(&change.ratio, word)));
    said.extend(told);
    said
}

fn base_of<'a>(cells: &Cells<'a>, cell: &Cell<'_>, against: &Against<'a>) -> Option<Cell<'a>> {
    match against.base {
        Some(base) => {
            let name = cells.daemons[cell.daemon];
            base.at(cell.level)
                .into_iter()
                .find(|other| base.daemons[other.daemon] == name)
        }
        None => {
            let first = cells
                .measured()
                .next()
                .filter(|first| *first != cell.daemon)?;
            cells
                .at(cell.level)
                .into_iter()
                .find(|other| other.daemon == first)
        }
    }
}

/// Why two cells say nothing about each other.
fn incomparable(one: &Cell<'_>, other: &Cell<'_>) -> Option<&'static str> {
    let all = || one.runs.iter().chain(&other.runs);
    let first = one.runs.first()?;
    if all().any(|run| run.verdict == Verdict::Invalid) {
        return Some("INVALID runs");
    }
    if all().any(|run| fingerprint(&run.machine) != fingerprint(&first.machine)) {
        return Some("other machine");
    }
    if all().any(|run| run.plan_sentence != first.plan_sentence) {
        return Some("other plan");
    }
    all()
        .any(|run| run.success_pct().is_none_or(|share| share < 100.0))
        .then_some("failures")
}

/// What makes figures those of a machine, whatever its name is.
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

fn ratio(figure: &Figure<'_>, base: &Cell<'_>, cell: &Cell<'_>, paired: bool) -> Option<Ratio> {
    if paired {
        let pairs = base.runs.iter().zip(&cell.runs);
        return Ratio::paired(
            pairs.filter_map(|(base, run)| Some((figure.of(base)?, figure.of(run)?))),
        );
    }
    let of = |runs: &[&RunResult]| {
        runs.iter()
            .filter_map(|run| figure.of(run))
            .collect::<Vec<f64>>()
    };
    Ratio::apart(&of(&base.runs), &of(&cell.runs))
}

/// `**better** −12.1 % [−14.0, −10.1]`; from double on as a factor.
fn told(ratio: &Ratio, word: Word) -> String {
    let factor = ratio.ratio >= 2.0 || ratio.ratio <= 0.5;
    let show = |value: f64| {
        if factor {
            format!("× {}", show::significant(value))
        } else {
            percent(value)
        }
    };
    let interval = ratio.interval.map_or(String::new(), |(low, high)| {
        let plain = |value: f64| show(value).replace(" %", "").replace("× ", "");
        format!(" [{}, {}]", plain(low), plain(high))
    });
    let word = match word {
        Word::NoEvidence => word.to_string(),
        _ => format!("**{word}**"),
    };
    format!("{word} {}{interval}", show(ratio.ratio))
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
