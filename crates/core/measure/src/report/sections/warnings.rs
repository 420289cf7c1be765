//! All warnings of all runs, with their hints.

use std::collections::BTreeMap;

use crate::report::compare::different_answers;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::document::{Part, Section};
use crate::report::facts;
use crate::report::plain;
use crate::warning::{Kind, Severity, Warning};

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let warnings = Some(all(comparison)).filter(|warnings| !warnings.is_empty());
    let parts = warnings.into_iter().map(Part::Warnings).collect();
    Section::non_empty("warnings", "Warnings", parts)
}

/// Lists all warnings, the most severe first. Notes of one kind from repetitions share a line.
pub(in crate::report) fn all(comparison: &Comparison<'_>) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = Vec::new();
    for repeated in comparison.all() {
        warnings.extend(of_runs(comparison, &repeated));
    }
    warnings.extend(answers(comparison));
    warnings.sort_by_key(|warning| std::cmp::Reverse(warning.severity));
    warnings
}

/// Returns a warning for each daemon whose answer differs from the first one's at its level.
fn answers(comparison: &Comparison<'_>) -> Vec<Warning> {
    let mut firsts: BTreeMap<&str, Repetitions<'_>> = BTreeMap::new();
    let mut warnings = Vec::new();
    let answered =
        |repeated: &Repetitions<'_>| repeated.shown().iter().any(|run| run.answer.is_some());
    for repeated in comparison.all().into_iter().filter(answered) {
        let Some(first) = firsts.get(repeated.level) else {
            firsts.insert(repeated.level, repeated);
            continue;
        };
        if let Some((theirs, answer)) = different_answers(first, &repeated) {
            let named = |repeated: &Repetitions<'_>, answer| {
                format!(
                    "{} {}",
                    comparison.group_name(repeated),
                    facts::answer(answer)
                )
            };
            warnings.push(Warning::answers_differ(
                &named(first, theirs),
                &named(&repeated, answer),
            ));
        }
    }
    warnings
}

fn of_runs(comparison: &Comparison<'_>, repeated: &Repetitions<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut notes: BTreeMap<Kind, usize> = BTreeMap::new();
    for (index, run) in repeated.runs.iter().enumerate() {
        for warning in &run.warnings {
            if warning.severity == Severity::Note {
                let count = notes.entry(warning.kind).or_default();
                *count += 1;
                if *count > 1 {
                    continue;
                }
            }
            let message = comparison.about(repeated, index, &plain(&warning.message));
            warnings.push(Warning {
                message,
                hint: plain(&warning.hint),
                ..warning.clone()
            });
        }
    }
    let listed = warnings.iter_mut();
    for note in listed.filter(|warning| warning.severity == Severity::Note) {
        if let Some(more @ 1..) = notes.get(&note.kind).map(|count| count - 1) {
            note.message += &format!(", and {more} more of this kind");
        }
    }
    warnings
}
