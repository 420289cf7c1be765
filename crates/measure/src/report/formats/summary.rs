//! Short summary of the comparison for a comment on a pull request: verdict, one table, missed thresholds and warnings.

mod changes;

use changes::{Baseline, conclusions};

use super::markdown;
use crate::report::comparison::{Comparison, Repetitions, level_name};
use crate::report::text::{plain, severity};
use crate::report::{facts, sections};
use crate::suite::Suite;
use crate::summary::RUNS_FOR_AN_INTERVAL;
use crate::units::{self, NONE};
use crate::warning::Verdict;

/// Maximum number of table rows. With more, only the highest levels are shown.
const ROWS: usize = 20;
/// Maximum number of lines of each list.
const THRESHOLDS: usize = 8;
const WARNINGS: usize = 8;
const UNREACHED: usize = 4;
/// Maximum number of machines listed.
const MACHINES: usize = 2;
/// Maximum number of letters in a line of a list and in a cell, since text of other programs may be long.
const LINE: usize = 300;
const CELL: usize = 60;

/// Renders the summary as Markdown of fewer than 60 lines. Each daemon is compared with itself in `base`, an earlier
/// suite of the same plan; without one, with the first daemon.
#[must_use]
pub fn render(suite: &Suite, base: Option<&Suite>) -> String {
    let comparison = Comparison::new(suite);
    let before = base.map(Comparison::new);
    let baseline = Baseline {
        base: before.as_ref(),
        paired: base.is_none(),
    };
    let mut lines = vec![
        format!("## {}", text(&sections::title(&comparison), LINE)),
        String::new(),
    ];
    if let Some(question) = &suite.question {
        lines.extend([text(question, LINE), String::new()]);
    }
    let rows = rows(&comparison);
    if !rows.is_empty() {
        lines.extend(table(&comparison, &rows, &baseline));
        lines.extend([
            String::new(),
            reading(&comparison, &rows, &baseline),
            String::new(),
        ]);
    }
    lines.extend(list(
        &missed_thresholds(&comparison),
        THRESHOLDS,
        "missed thresholds",
    ));
    lines.extend(list(&warning_lines(&comparison), WARNINGS, "warnings"));
    lines.extend(list(
        &unreached_levels(suite),
        UNREACHED,
        "levels that were not reached",
    ));
    lines.extend(facts(suite));
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the groups of runs that have a row: all of them, or those of the highest levels.
fn rows<'a>(comparison: &Comparison<'a>) -> Vec<Repetitions<'a>> {
    let mut rows = Vec::new();
    for level in comparison.levels.iter().rev() {
        let at = comparison.at(level);
        if !rows.is_empty() && rows.len() + at.len() > ROWS {
            break;
        }
        rows.splice(0..0, at);
    }
    rows.truncate(ROWS);
    rows
}

fn table(
    comparison: &Comparison<'_>,
    rows: &[Repetitions<'_>],
    baseline: &Baseline<'_>,
) -> Vec<String> {
    let compared = sections::compared(comparison);
    let levels = comparison.levels.iter().any(|level| !level.is_empty());
    let mut head = vec!["daemon".to_owned()];
    head.extend(levels.then(|| "level".to_owned()));
    head.extend(
        compared
            .iter()
            .map(|column| text(&column.head().text, CELL)),
    );
    let rule = (0..head.len()).map(|place| if place == 0 { "---" } else { "---:" }.to_owned());
    let conclusions = conclusions(comparison, rows, &compared, baseline);
    let row = |(place, repeated): (usize, &Repetitions<'_>)| {
        let verdict = repeated.runs.iter().map(|run| run.verdict).max();
        let verdict = verdict.filter(|verdict| *verdict > Verdict::Valid);
        let verdict = verdict.map_or(String::new(), |verdict| format!(" ({verdict})"));
        let name = format!(
            "{}{verdict}",
            text(comparison.daemons[repeated.daemon], CELL)
        );
        let figures = compared.iter().enumerate().map(|(index, column)| {
            let shown = column.cell(&repeated.runs);
            let spread = if shown.interval.is_empty() {
                range(&shown.range)
            } else {
                shown.interval
            };
            let change = conclusions.iter().find(|(at, _)| *at == (place, index));
            let change =
                change.map_or(String::new(), |(_, conclusion)| format!("<br>{conclusion}"));
            format!("{}{}{change}", shown.median, before(&spread))
        });
        let level = levels.then(|| text(&level_name(repeated.level), CELL));
        [name]
            .into_iter()
            .chain(level)
            .chain(figures)
            .collect::<Vec<_>>()
    };
    let body = rows.iter().enumerate().map(row);
    [head, rule.collect()]
        .into_iter()
        .chain(body)
        .map(|row| format!("| {} |", row.join(" | ")))
        .collect()
}

fn range(range: &str) -> String {
    if range.is_empty() {
        String::new()
    } else {
        format!("({range})")
    }
}

fn before(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" {text}")
    }
}

fn reading(
    comparison: &Comparison<'_>,
    rows: &[Repetitions<'_>],
    baseline: &Baseline<'_>,
) -> String {
    let mut parts = vec!["Medians of the runs, with [95 % interval of their mean] from five runs on, otherwise (lowest–highest).".to_owned()];
    let left_out = comparison.all().len() - rows.len();
    if left_out > 0 {
        parts.push(format!(
            "{} lower rows are in report.md.",
            units::count(left_out as u64)
        ));
    }
    let base = match baseline.base {
        Some(base) => Some(format!(
            "the same daemon in the earlier suite {}",
            text(&base.suite.name, CELL)
        )),
        None => comparison
            .measured()
            .next()
            .filter(|_| comparison.measured().count() > 1)
            .map(|first| text(comparison.daemons[first], CELL)),
    };
    if let Some(base) = base {
        parts.push(format!(
            "Below each: the change against {base}, with its 95 % interval for {RUNS_FOR_AN_INTERVAL} or more runs. Better and worse mean a change of at least 3 %; the probability that any of these words in the table is wrong is at most 5 %."
        ));
    }
    parts.join(" ")
}

/// Returns a line for each threshold that a run missed, once for its repetitions.
fn missed_thresholds(comparison: &Comparison<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for repeated in comparison.all() {
        let mut named: Vec<&str> = Vec::new();
        for threshold in repeated
            .runs
            .iter()
            .flat_map(|run| &run.thresholds)
            .filter(|threshold| !threshold.met)
        {
            if named.contains(&threshold.text.as_str()) {
                continue;
            }
            named.push(&threshold.text);
            let same = repeated
                .runs
                .iter()
                .flat_map(|run| &run.thresholds)
                .filter(|other| !other.met && other.text == threshold.text);
            let measured: Vec<&str> = same
                .map(|other| other.measured.as_deref().unwrap_or(NONE))
                .collect();
            let name = match repeated.level {
                "" => comparison.daemons[repeated.daemon].to_owned(),
                _ => format!(
                    "{} at {}",
                    comparison.daemons[repeated.daemon],
                    repeated.level_name()
                ),
            };
            lines.push(format!(
                "- **missed:** {name}: {} in {} of {} runs ({})",
                threshold.text,
                measured.len(),
                repeated.runs.len(),
                measured.join(", ")
            ));
        }
    }
    lines
}

/// Returns the first line of each warning, the most severe first.
fn warning_lines(comparison: &Comparison<'_>) -> Vec<String> {
    let line = |warning: crate::warning::Warning| {
        let first = warning.message.lines().next().unwrap_or_default();
        format!("- **{}:** {first}", severity(warning.severity))
    };
    sections::all_warnings(comparison)
        .into_iter()
        .map(line)
        .collect()
}

fn unreached_levels(suite: &Suite) -> Vec<String> {
    let line = |missing: &crate::suite::Unreached| {
        let reason = missing.reason.lines().next().unwrap_or_default();
        format!(
            "- **not reached:** {} at {}: {reason}",
            missing.daemon,
            level_name(&missing.level)
        )
    };
    suite.unreached.iter().map(line).collect()
}

/// Returns at most `most` lines, the number of omitted ones, and an empty line at the end.
fn list(lines: &[String], most: usize, what: &str) -> Vec<String> {
    let more = lines.len().saturating_sub(most);
    let shown = lines.iter().take(most);
    let mut shown: Vec<String> = shown
        .map(|line| {
            // The mark before the colon is not user text.
            let (mark, said) = line.split_once(":** ").unwrap_or(("", line));
            format!("{mark}:** {}", text(said, LINE))
        })
        .collect();
    if more > 0 {
        shown.push(format!("- and {more} more {what}"));
    }
    if !shown.is_empty() {
        shown.push(String::new());
    }
    shown
}

fn facts(suite: &Suite) -> Vec<String> {
    let mut machines: Vec<String> = Vec::new();
    for machine in suite
        .results
        .iter()
        .map(|result| facts::machine(&result.machine))
    {
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    let mut lines: Vec<String> = machines
        .iter()
        .take(MACHINES)
        .map(|machine| format!("- machine: {}", text(machine, LINE)))
        .collect();
    if machines.len() > MACHINES {
        lines.push(format!("- and {} more machines", machines.len() - MACHINES));
    }
    let commands = suite.command.iter();
    // The command must stay intact for copying.
    lines.extend(
        commands
            .map(|command| format!("- command: `{}`", plain(command).replace(['`', '\n'], " "))),
    );
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
