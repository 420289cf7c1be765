//! Capacity of each daemon under the thresholds, as a bracket of two levels rather than a point.

use crate::capacity::LoadOutcome;
use crate::report::comparison::{Comparison, Repetitions, level_name, size};
use crate::report::document::{Part, Section};
use crate::report::table::{Head, Row, Table};
use crate::report::text::plain;
use crate::units::NONE;
use crate::warning::Warning;

/// Builds a row for each daemon with thresholds at several levels.
pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let head = ["daemon", "sustained", "not sustained", "reason", "remark"];
    let rows: Vec<Row> = (0..comparison.daemons.len())
        .filter_map(|daemon| row(comparison, daemon))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let note = "The highest level that every run sustained, and the lowest that a run did not sustain; the capacity lies between them. A run sustains its level if it meets every threshold and has no unfinished or missed operations. An INVALID run is inconclusive, since the driver or the machine was the limit, unless its daemon exited.";
    let table = Table::new("Capacity", head.map(Head::text).into(), rows);
    let parts = vec![Part::Note(note.to_owned()), Part::Table(table)];
    vec![Section::new("capacity", "Capacity", parts)]
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
    let highest_held = asked
        .iter()
        .rposition(|repeated| held(repeated) == Some(true));
    let lowest_not = asked
        .iter()
        .position(|repeated| held(repeated) == Some(false));
    let name =
        |place: Option<usize>| place.map_or(NONE.to_owned(), |place| asked[place].level_name());
    let remark = match (highest_held, lowest_not) {
        (Some(held), Some(not)) if held > not => Some(
            "a higher level was sustained although a lower one was not: repeat both".to_owned(),
        ),
        (None, Some(_)) => Some("no level was sustained: add lower levels".to_owned()),
        (Some(held), None) if held + 1 == asked.len() => {
            Some(above(comparison, daemon, asked[held].level))
        }
        _ => None,
    };
    let remarks: Vec<String> = remark
        .into_iter()
        .chain(asked.iter().filter_map(not_judged))
        .collect();
    let cells = [
        plain(comparison.daemons[daemon]),
        name(highest_held),
        name(lowest_not),
        lowest_not.map_or(String::new(), |place| why_not(&asked[place])),
        remarks.join("; "),
    ];
    Some(Row::new(Some(daemon), cells))
}

/// Returns true if every conclusive run sustained the level, or `None` if no run was conclusive.
fn held(repeated: &Repetitions<'_>) -> Option<bool> {
    let runs = repeated.runs.iter();
    let judged = runs.filter_map(|run| match run.load_outcome() {
        LoadOutcome::Sustained => Some(true),
        LoadOutcome::Failed(_) => Some(false),
        LoadOutcome::Inconclusive(_) => None,
    });
    judged.reduce(|all, held| all && held)
}

/// Describes the inconclusive runs, with the hint of the first.
fn not_judged(repeated: &Repetitions<'_>) -> Option<String> {
    let runs = repeated.runs.iter();
    let spoiled: Vec<&Warning> = runs
        .filter_map(|run| match run.load_outcome() {
            LoadOutcome::Inconclusive(warning) => Some(warning),
            _ => None,
        })
        .collect();
    let first = spoiled.first()?;
    let which = match repeated.runs.len() - spoiled.len() {
        0 => format!("{} is inconclusive", repeated.level_name()),
        _ => format!(
            "at {}, {} of {} runs inconclusive",
            repeated.level_name(),
            spoiled.len(),
            repeated.runs.len()
        ),
    };
    let (message, hint) = (plain(&first.message), plain(&first.hint));
    Some(format!("{which}: {message} → {hint}"))
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
fn why_not(repeated: &Repetitions<'_>) -> String {
    let mut why: Vec<String> = Vec::new();
    for run in &repeated.runs {
        if let LoadOutcome::Failed(reasons) = run.load_outcome() {
            let new = reasons.into_iter().filter(|reason| !why.contains(reason));
            let new: Vec<String> = new.collect();
            why.extend(new);
        }
    }
    plain(&why.join("; "))
}
