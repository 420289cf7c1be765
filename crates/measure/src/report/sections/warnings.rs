//! All warnings of all runs, with their hints.

use std::collections::BTreeMap;

use crate::report::comparison::{Comparison, Repetitions};
use crate::report::document::{Part, Section};
use crate::report::text::plain;
use crate::result::Answer;
use crate::units;
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

/// Returns a warning for each daemon whose answer differs from that of the first one at its level.
fn answers(comparison: &Comparison<'_>) -> Vec<Warning> {
    let mut firsts: BTreeMap<&str, (String, &Answer)> = BTreeMap::new();
    let mut warnings = Vec::new();
    for repeated in comparison.all() {
        let Some(answer) = repeated.runs.iter().find_map(|run| run.answer.as_ref()) else {
            continue;
        };
        let name = comparison.run_name(&repeated, 0);
        let (first, theirs) = firsts
            .entry(repeated.level)
            .or_insert((name.clone(), answer));
        if *theirs != answer {
            let one = format!("{first} {}", shown(theirs));
            let other = format!("{name} {}", shown(answer));
            warnings.push(Warning::answers_differ(&one, &other));
        }
    }
    warnings
}

/// Formats an answer: `200 with 1,024 bytes (SHA-256 5f70bf18…)`.
fn shown(answer: &Answer) -> String {
    let digits: String = answer.sha256.chars().take(8).collect();
    format!(
        "{} with {} bytes (SHA-256 {}…)",
        answer.status,
        units::count(answer.length),
        plain(&digits)
    )
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
