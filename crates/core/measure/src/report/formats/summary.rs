//! Short summary of the comparison for a comment on a pull request: verdict, one table, missed thresholds and warnings.

mod changes;

use changes::{Position, changes};

use super::markdown;
use crate::report::cell::Cell;
use crate::report::columns::{self, Column};
use crate::report::comparison::{Comparison, Repetitions, level_name, measured_values};
use crate::report::distinct;
use crate::report::plain;
use crate::report::{facts, sections};
use crate::suite::Suite;
use crate::units;

/// Maximum number of lines of the answer and of table rows together. With more rows, only the highest levels are shown.
const ANSWER_AND_ROWS: usize = 22;
/// Maximum number of lines of each list.
const THRESHOLDS: usize = 5;
const WARNINGS: usize = 5;
const UNREACHED: usize = 3;
/// Maximum number of machines listed.
const MACHINES: usize = 2;
/// Maximum number of letters in a line of a list and in a cell, since text of other programs may be long.
const LINE: usize = 300;
const CELL: usize = 60;

/// Renders the summary as Markdown of fewer than 60 lines.
pub fn render(suite: &Suite) -> String {
    let comparison = Comparison::new(suite);
    let mut lines = vec![
        format!("## {}", text(&sections::title(&comparison), LINE)),
        String::new(),
    ];
    let answer = sections::answer(&comparison).into_iter();
    let answer: Vec<String> = answer
        .map(|(label, sentence)| format!("- **{label}:** {}", text(&sentence, LINE)))
        .collect();
    let compared = sections::compared(&comparison);
    let most = ANSWER_AND_ROWS.saturating_sub(answer.len());
    let rows = rows(&comparison, most);
    let changes = changes(&comparison, &rows, &compared);
    if !answer.is_empty() {
        lines.extend(answer);
        lines.push(String::new());
    }
    if let Some(question) = &suite.question {
        lines.extend([text(question, LINE), String::new()]);
    }
    if !rows.is_empty() {
        lines.extend(table(&comparison, &rows, &compared, &changes));
        lines.extend([String::new(), reading(&comparison, &rows), String::new()]);
    }
    let missed = missed_thresholds(&comparison);
    lines.extend(list(&missed, THRESHOLDS, "missed thresholds"));
    lines.extend(list(&warning_lines(&comparison), WARNINGS, "warnings"));
    let unreached = unreached_levels(suite);
    lines.extend(list(&unreached, UNREACHED, "levels that were not reached"));
    lines.extend(facts(suite));
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the groups of runs that have one of at most `most` rows: all of them, or the groups of the highest levels.
fn rows<'a>(comparison: &Comparison<'a>, most: usize) -> Vec<Repetitions<'a>> {
    let mut rows = Vec::new();
    for level in comparison.levels.iter().rev() {
        let at = comparison.at(level);
        if !rows.is_empty() && rows.len() + at.len() > most {
            break;
        }
        rows.splice(0..0, at);
    }
    rows.truncate(most);
    rows
}

fn table(
    comparison: &Comparison<'_>,
    rows: &[Repetitions<'_>],
    compared: &[Column<'_>],
    changes: &[(Position, String)],
) -> Vec<String> {
    let levels = comparison.levels.iter().any(|level| !level.is_empty());
    let mut head = vec!["daemon".to_owned()];
    head.extend(levels.then(|| "level".to_owned()));
    let heads = compared.iter().map(Column::head);
    head.extend(heads.map(|head| text(&head.text, CELL)));
    let mut rule = vec!["---:".to_owned(); head.len()];
    rule[0] = "---".to_owned();
    let row = |(number, repeated): (usize, &Repetitions<'_>)| {
        let name = columns::row_name(comparison, repeated);
        let name = Cell {
            value: text(&name.value, CELL),
            ..name
        };
        let figures = compared.iter().enumerate().map(|(index, column)| {
            let mut text = column.cell(&repeated.shown()).spread();
            let change = changes.iter().find(|(at, _)| *at == (number, index));
            if let Some((_, change)) = change {
                text += &format!("<br>{change}");
            }
            text
        });
        let mut cells = vec![name.short()];
        cells.extend(levels.then(|| text(&level_name(repeated.level), CELL)));
        cells.extend(figures);
        cells
    };
    let body = rows.iter().enumerate().map(row);
    [head, rule]
        .into_iter()
        .chain(body)
        .map(|row| format!("| {} |", row.join(" | ")))
        .collect()
}

fn reading(comparison: &Comparison<'_>, rows: &[Repetitions<'_>]) -> String {
    let mut parts = vec!["Geometric means of the runs, with [95 % interval] from five runs on, otherwise (lowest–highest).".to_owned()];
    let left_out = comparison.all().len() - rows.len();
    if left_out > 0 {
        parts.push(format!(
            "{} lower rows are in report.md.",
            units::count(left_out as u64)
        ));
    }
    let base = match comparison.only_control() {
        _ if comparison.measured().count() < 2 => None,
        Some(control) => Some(text(comparison.daemons[control], CELL)),
        None if comparison.has_controls() => {
            Some("the daemon of that name in the first suite".to_owned())
        }
        None => Some("the best daemon by that metric".to_owned()),
    };
    if let Some(base) = base {
        parts.push(format!(
            "Below each, at the level of the answer: the change against {base}, and the interval that the word is about. The answer says how many of these intervals hold."
        ));
    }
    parts.join(" ")
}

/// Returns a line for each threshold that a run missed, once for its repetitions.
fn missed_thresholds(comparison: &Comparison<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for repeated in comparison.all() {
        let name = comparison.daemons[repeated.daemon];
        let at = match repeated.level {
            "" => String::new(),
            _ => format!(" at {}", repeated.level_name()),
        };
        for (text, missed) in repeated.thresholds(|threshold| !threshold.met) {
            lines.push(format!(
                "- **missed:** {name}{at}: {text} in {} of {} runs ({})",
                missed.len(),
                repeated.runs.len(),
                measured_values(&missed)
            ));
        }
    }
    lines
}

/// Returns the first line of each warning, the most severe first.
fn warning_lines(comparison: &Comparison<'_>) -> Vec<String> {
    let warnings = sections::all_warnings(comparison).into_iter();
    let lines = warnings.map(|warning| {
        let first = warning.message.lines().next().unwrap_or_default();
        format!("- **{}:** {first}", warning.severity.name())
    });
    lines.collect()
}

fn unreached_levels(suite: &Suite) -> Vec<String> {
    let lines = suite.unreached.iter().map(|missing| {
        let reason = missing.reason.lines().next().unwrap_or_default();
        let (daemon, level) = (&missing.daemon, level_name(&missing.level));
        format!("- **not reached:** {daemon} at {level}: {reason}")
    });
    lines.collect()
}

/// Returns at most `most` lines, the number of omitted ones, and an empty line at the end.
fn list(lines: &[String], most: usize, name: &str) -> Vec<String> {
    let more = lines.len().saturating_sub(most);
    let shown = lines.iter().take(most).map(|line| {
        // The mark before the colon is not user text.
        let (mark, content) = line.split_once(":** ").unwrap_or(("", line));
        format!("{mark}:** {}", text(content, LINE))
    });
    let mut shown: Vec<String> = shown.collect();
    if more > 0 {
        shown.push(format!("- and {more} more {name}"));
    }
    if !shown.is_empty() {
        shown.push(String::new());
    }
    shown
}

fn facts(suite: &Suite) -> Vec<String> {
    let results = suite.results.iter();
    let machines = distinct(results.map(|run| facts::machine(&run.machine)));
    let shown = machines.iter().take(MACHINES);
    let mut lines: Vec<String> = shown
        .map(|machine| format!("- machine: {}", text(machine, LINE)))
        .collect();
    if machines.len() > MACHINES {
        lines.push(format!("- and {} more machines", machines.len() - MACHINES));
    }
    // The command must stay intact for copying.
    lines.extend(suite.command.iter().map(|command| {
        let command = plain(command).replace(['`', '\n'], " ");
        format!("- command: `{command}`")
    }));
    lines
}

/// Returns a text as one line of at most `most` letters, without markup.
fn text(text: &str, most: usize) -> String {
    let plain = plain(text).replace('\n', " ");
    let mut short: String = plain.chars().take(most).collect();
    if short.len() < plain.len() {
        short.push('…');
    }
    markdown::escaped(&short)
}
