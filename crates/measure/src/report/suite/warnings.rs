//! All warnings of all runs, with their hints.

use std::collections::BTreeMap;

use super::cells::{Cell, Cells};
use super::document::{Part, Section};
use crate::report::page;
use crate::result::Answer;
use crate::units;
use crate::warning::{Kind, Severity, Warning};

/// Lists warnings, the most severe first. Notes of one kind in one cell share a line.
pub(super) fn section(cells: &Cells<'_>) -> Option<Section> {
    let mut warnings: Vec<Warning> = Vec::new();
    for cell in cells.all() {
        warnings.extend(of_cell(cells, &cell));
    }
    warnings.extend(answers(cells));
    warnings.sort_by_key(|warning| std::cmp::Reverse(warning.severity));
    (!warnings.is_empty())
        .then(|| Section::new("warnings", "Warnings", vec![Part::Warnings(warnings)]))
}

/// Returns a warning for each daemon whose answer differs from that of the first one at its level.
fn answers(cells: &Cells<'_>) -> Vec<Warning> {
    let mut firsts: BTreeMap<&str, (String, &Answer)> = BTreeMap::new();
    let mut warnings = Vec::new();
    for cell in cells.all() {
        let Some(answer) = cell.runs.iter().find_map(|run| run.answer.as_ref()) else {
            continue;
        };
        let name = cells.run_name(&cell, 0);
        let (first, theirs) = firsts.entry(cell.level).or_insert((name.clone(), answer));
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
        page::plain(&digits)
    )
}

fn of_cell(cells: &Cells<'_>, cell: &Cell<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut noted: Vec<(Kind, usize)> = Vec::new();
    for (place, run) in cell.runs.iter().enumerate() {
        for warning in &run.warnings {
            if warning.severity == Severity::Note {
                let same = noted.iter_mut().find(|(kind, _)| *kind == warning.kind);
                if let Some((_, more)) = same {
                    *more += 1;
                    continue;
                }
                noted.push((warning.kind, 0));
            }
            warnings.push(Warning {
                message: format!(
                    "{}: {}",
                    cells.run_name(cell, place),
                    page::plain(&warning.message)
                ),
                hint: page::plain(&warning.hint),
                ..warning.clone()
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
