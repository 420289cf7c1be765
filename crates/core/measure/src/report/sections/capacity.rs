//! Capacity of each daemon under the thresholds, as a bracket of two levels rather than a point.

use crate::capacity::LoadOutcome;
use crate::report::comparison::{Comparison, Repetitions, level_name, size};
use crate::report::distinct;
use crate::report::document::{Part, Section};
use crate::report::plain;
use crate::report::table::{Head, Row, Table};
use crate::units::NONE;
use crate::warning::Warning;

/// Builds a row for each daemon with thresholds at several levels.
pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let head = ["daemon", "sustained", "not sustained", "reason", "remark"];
    let daemons = 0..comparison.daemons.len();
    let rows = daemons
        .filter_map(|daemon| row(comparison, daemon))
        .collect();
    let note = "The highest level that every run sustained, and the lowest that a run did not sustain; the capacity lies between them. A run sustains its level if it meets every threshold and has no unfinished or missed operations. An INVALID run is inconclusive, since the driver or the machine was the limit, unless its daemon exited.";
    let table = Table::non_empty("Capacity", head.map(Head::text).into(), rows);
    let parts = table.map(|table| vec![Part::Note(note.to_owned()), Part::Table(table)]);
    Section::non_empty("capacity", "Capacity", parts.unwrap_or_default())
}

fn row(comparison: &Comparison<'_>, daemon: usize) -> Option<Row> {
    let with_thresholds =
        |repeated: &Repetitions<'_>| repeated.runs.iter().any(|run| !run.thresholds.is_empty());
    let asked: Vec<Repetitions<'_>> = comparison
        .of_daemon(daemon)
        .into_iter()
        .filter(|repeated| size(repeated.level).is_some() && with_thresholds(repeated))
        .collect();
    if asked.len() < 2 {
        return None;
    }
    let outcomes: Vec<Option<bool>> = asked.iter().map(is_sustained).collect();
    let sustained = outcomes.iter().rposition(|outcome| *outcome == Some(true));
    let failed = outcomes.iter().position(|outcome| *outcome == Some(false));
    let name =
        |index: Option<usize>| index.map_or(NONE.to_owned(), |index| asked[index].level_name());
    let remark = match (sustained, failed) {
        (Some(sustained), Some(failed)) if sustained > failed => Some(
            "a higher level was sustained although a lower one was not: repeat both".to_owned(),
        ),
        (None, Some(_)) => Some("no level was sustained: add lower levels".to_owned()),
        (Some(sustained), None) if sustained + 1 == asked.len() => {
            Some(above(comparison, daemon, asked[sustained].level))
        }
        _ => None,
    };
    let inconclusive = asked.iter().filter_map(inconclusive);
    let remarks: Vec<String> = remark.into_iter().chain(inconclusive).collect();
    let cells = [
        comparison.daemon(daemon),
        name(sustained),
        name(failed),
        failed.map_or(String::new(), |index| reasons(&asked[index])),
        remarks.join("; "),
    ];
    Some(Row::new(Some(daemon), cells))
}

/// Returns true if every conclusive run sustained the level, or `None` if no run was conclusive.
fn is_sustained(repeated: &Repetitions<'_>) -> Option<bool> {
    let runs = repeated.runs.iter();
    let judged = runs.filter_map(|run| match run.load_outcome() {
        LoadOutcome::Sustained => Some(true),
        LoadOutcome::Failed(_) => Some(false),
        LoadOutcome::Inconclusive(_) => None,
    });
    judged.reduce(|all, sustained| all && sustained)
}

/// Describes the inconclusive runs, with the hint of the first.
fn inconclusive(repeated: &Repetitions<'_>) -> Option<String> {
    let runs = repeated.runs.iter();
    let warnings: Vec<&Warning> = runs
        .filter_map(|run| match run.load_outcome() {
            LoadOutcome::Inconclusive(warning) => Some(warning),
            _ => None,
        })
        .collect();
    let first = warnings.first()?;
    let level = repeated.level_name();
    let subject = match (warnings.len(), repeated.runs.len()) {
        (count, all) if count == all => format!("{level} is inconclusive"),
        (count, all) => format!("at {level}, {count} of {all} runs inconclusive"),
    };
    let (message, hint) = (plain(&first.message), plain(&first.hint));
    Some(format!("{subject}: {message} → {hint}"))
}

/// Describes the levels above the highest one that was run: the lowest that was not reached, and the reason.
fn above(comparison: &Comparison<'_>, daemon: usize, highest: &str) -> String {
    let higher = comparison.suite.unreached.iter().filter_map(|missing| {
        let level = size(&missing.level).filter(|level| Some(*level) > size(highest))?;
        (missing.daemon == comparison.daemons[daemon]).then_some((level, missing))
    });
    let lowest = higher.min_by(|(one, _), (other, _)| one.total_cmp(other));
    lowest.map_or("no higher level was run".to_owned(), |(_, missing)| {
        let reason = missing.reason.lines().next().unwrap_or_default();
        let level = level_name(&missing.level);
        plain(&format!("{level} was not reached: {reason}"))
    })
}

/// Lists the reasons of all runs, each wording once.
fn reasons(repeated: &Repetitions<'_>) -> String {
    let reasons = repeated
        .runs
        .iter()
        .flat_map(|run| match run.load_outcome() {
            LoadOutcome::Failed(reasons) => reasons,
            _ => Vec::new(),
        });
    plain(&distinct(reasons).join("; "))
}
