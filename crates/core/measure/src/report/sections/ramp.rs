//! The curve of a rate that rises in steps: a row for each step, and the last one that the daemon held.

use crate::report::comparison::{Comparison, numbered};
use crate::report::document::{Charts, Part, Section};
use crate::report::plain;
use crate::report::ramp::Step;
use crate::report::table::{Head, Row, Table};
use crate::result::RunResult;
use crate::units::{self, NONE};

const NOTE: &str = "A step is a stage in which the rate stays the same, without its first second. It was held if at least 99 % of the offered operations were served, and the p99 meets each objective. The knee is the last step that was held.";

/// Builds the section if the rate of some run rises in steps.
pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let groups = comparison.all();
    let mut table = Table {
        caption: "Steps of the rate".to_owned(),
        head: head(comparison),
        ..Table::default()
    };
    let mut knees = Vec::new();
    for (repeated, index, run) in numbered(&groups) {
        let steps = run.steps();
        let name = comparison.daemon(repeated.daemon);
        for (number, step) in steps.iter().enumerate() {
            let mut cells = vec![name.clone(), repeated.level_name(), (index + 1).to_string()];
            cells.extend(self::cells(comparison, step));
            table.rows.push(Row {
                starts_group: number == 0,
                ..Row::new(Some(repeated.daemon), cells)
            });
        }
        if let Some(knee) = knee(&steps) {
            knees.push(match comparison.only_run() {
                Some(_) => ("knee", knee),
                None => ("knee", format!("{name}, run {}: {knee}", index + 1)),
            });
        }
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    let parts = vec![
        Part::Facts(knees),
        Part::Note(NOTE.to_owned()),
        Part::Table(table),
        Part::Charts(Charts::Ramp),
    ];
    vec![Section::new("ramp", "Rising rate", parts)]
}

/// Describes the knee of the only run, or of the first of several.
pub(in crate::report) fn knee_of(runs: &[&RunResult]) -> Option<String> {
    knee(&runs.first()?.steps())
}

fn has_objectives(comparison: &Comparison<'_>) -> bool {
    let mut runs = comparison.suite.results.iter();
    runs.any(|run| run.objectives().next().is_some())
}

fn head(comparison: &Comparison<'_>) -> Vec<Head> {
    let name = comparison.headline();
    let name = name.map_or_else(String::new, |series| comparison.series_label(series));
    let mut head = vec![
        Head::text("daemon"),
        Head::number("level"),
        Head::number("run"),
    ];
    head.extend(["offered/s", "served/s", "served %"].map(Head::number));
    head.extend(["p50", "p99"].map(|key| Head::number(format!("{name} {key}, ms").trim())));
    head.extend(has_objectives(comparison).then(|| Head::number("goodput %")));
    head.push(Head::text("held"));
    head
}

fn cells(comparison: &Comparison<'_>, step: &Step) -> Vec<String> {
    let ms = |ns: Option<u64>| ns.map_or(NONE.to_owned(), |ns| units::ms(ns as f64));
    let mut cells = vec![
        units::significant(step.offered_per_s),
        units::significant(step.served_per_s),
        units::share(step.served_pct().min(100.0)),
        ms(step.p50_ns),
        ms(step.p99_ns),
    ];
    if has_objectives(comparison) {
        cells.push(step.goodput_pct.map_or(NONE.to_owned(), units::share));
    }
    let problem = step
        .problem
        .as_deref()
        .map(|problem| format!("no: {}", plain(problem)));
    cells.push(problem.unwrap_or_else(|| "yes".to_owned()));
    cells
}

/// Describes the last step that was held, and the one above it; `None` without steps.
fn knee(steps: &[Step]) -> Option<String> {
    let rate = |step: &Step| format!("{}/s", units::significant(step.offered_per_s));
    let first = steps.first()?;
    let Some(knee) = RunResult::knee(steps) else {
        let problem = first.problem.as_deref().unwrap_or_default();
        let rate = rate(first);
        return Some(format!(
            "below {rate}, the first step: {}; begin lower",
            plain(problem)
        ));
    };
    let text = match steps.get(knee + 1) {
        None => format!(
            "not reached: {}, the last step, was held; go higher",
            rate(&steps[knee])
        ),
        Some(next) => {
            let problem = next.problem.as_deref().unwrap_or_default();
            format!(
                "{} was held, and {} was not: {}",
                rate(&steps[knee]),
                rate(next),
                plain(problem)
            )
        }
    };
    let lower = steps[..knee].iter().find(|step| step.problem.is_some());
    Some(match lower {
        Some(lower) => format!(
            "{text}; a lower step, {}, was not held: repeat the run",
            rate(lower)
        ),
        None => text,
    })
}
