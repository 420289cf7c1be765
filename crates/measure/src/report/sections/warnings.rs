//! All warnings of all runs, with their hints.

use std::collections::BTreeMap;

use crate::report::comparison::{Comparison, Repetitions};
use crate::report::document::{Part, Section};
use crate::report::text;
use crate::result::Answer;
use crate::units;
use crate::warning::{Kind, Severity, Warning};

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let warnings = all(comparison);
    if warnings.is_empty() {
        return Vec::new();
    }
    let parts = vec![Part::Warnings(warnings)];
    vec![Section::new("warnings", "Warnings", parts)]
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
        text::plain(&digits)
    )
}

fn of_runs(comparison: &Comparison<'_>, repeated: &Repetitions<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut noted: Vec<(Kind, usize)> = Vec::new();
    for (place, run) in repeated.runs.iter().enumerate() {
        for warning in &run.warnings {
            if warning.severity == Severity::Note {
                let same = noted.iter_mut().find(|(kind, _)| *kind == warning.kind);
                if let Some((_, more)) = same {
                    *more += 1;
                    continue;
                }
                noted.push((warning.kind, 0));
            }
            let shown = text::plain_warning(warning);
            warnings.push(Warning {
                message: comparison.about(repeated, place, &shown.message),
                ..shown
            });
        }
    }
    for warning in &mut warnings {
        let of_its_kind = noted.iter().find(|(kind, _)| *kind == warning.kind);
        if let Some((_, more @ 1..)) = of_its_kind.filter(|_| warning.severity == Severity::Note) {
            warning
                .message
                .push_str(&format!(", and {more} more of this kind"));
        }
    }
    warnings
}
