//! Overview: the key figures of each daemon at the highest level that all of them ran.

use super::memory::{self, Slope};
use crate::report::columns::{self, Column};
use crate::report::comparison::{Comparison, Repetitions, level_name, size};
use crate::report::contest::Contests;
use crate::report::deciding;
use crate::report::distinct;
use crate::report::document::{Charts, Part, Section};
use crate::report::roles;
use crate::report::table::Table;

const READING: &str = "A figure is marked as best if the answer finds its daemon better than another one. Figures that it cannot tell from the best share the mark.";
const SLOPE: &str = "The slope covers all levels and is not compared.";

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let mut parts = vec![Part::Charts(Charts::Levels)];
    match common_level(comparison) {
        Some(level) => parts.extend([
            Part::Note(reading(comparison, level)),
            Part::Table(table(comparison, level)),
        ]),
        None => parts.push(Part::Note(
            "No level was run by every daemon, so there is no overview.".to_owned(),
        )),
    }
    vec![Section::new("glance", "At a glance", parts)]
}

fn reading(comparison: &Comparison<'_>, level: &str) -> String {
    let name = level_name(level);
    let at = match size(level) {
        _ if level.is_empty() => "Runs without a level.".to_owned(),
        None => format!("At {name}, which every daemon ran."),
        Some(_) => format!("At {name}, the highest level that every daemon ran."),
    };
    match comparison.at(level) {
        groups if groups.len() < 2 => at,
        _ if slopes(comparison).is_some() => format!("{at} {READING} {SLOPE}"),
        _ => format!("{at} {READING}"),
    }
}

/// Returns the level to compare daemons at: the highest at which all of them have runs that count, otherwise the highest
/// at which all have runs; daemons without any runs do not matter. A level that is not a number is used only if there is
/// no numeric one.
pub(in crate::report) fn common_level<'a>(comparison: &Comparison<'a>) -> Option<&'a str> {
    let all: Vec<Repetitions<'_>> = comparison.all();
    let daemons = |counts: fn(&Repetitions<'_>) -> bool, level: Option<&str>| {
        let at = |repeated: &&Repetitions<'_>| level.is_none_or(|level| repeated.level == level);
        let groups = all.iter().filter(at).filter(|repeated| counts(repeated));
        distinct(groups.map(|repeated| repeated.daemon)).len()
    };
    let highest = |counts: fn(&Repetitions<'_>) -> bool| {
        let levels = comparison.levels.iter().rev().copied();
        let (sized, others): (Vec<&str>, Vec<&str>) = levels
            .filter(|level| match daemons(counts, None) {
                0 => false,
                every => daemons(counts, Some(level)) == every,
            })
            .partition(|level| size(level).is_some());
        sized.into_iter().chain(others).next()
    };
    highest(|repeated| !repeated.counted().is_empty()).or_else(|| highest(|_| true))
}

/// Returns the columns to compare: the share of failed operations, then the figures of the others.
pub(in crate::report) fn compared<'a>(comparison: &Comparison<'a>) -> Vec<Column<'a>> {
    let headline = comparison.headline().into_iter().flat_map(|series| {
        deciding::STATISTICS.map(|statistic| {
            let head = format!("{} {statistic}, ms", comparison.series_label(series));
            Column::series(comparison, series, statistic).titled(&head)
        })
    });
    let rates = roles::rates(comparison.suite).into_iter().map(Column::rate);
    [columns::failed()]
        .into_iter()
        .chain(rates)
        .chain(headline)
        .chain([columns::memory(comparison), columns::cpu_per_operation()])
        .collect()
}

/// Returns the memory of a connection over the levels, if a daemon has such a slope.
fn slopes(comparison: &Comparison<'_>) -> Option<Vec<Slope>> {
    let slopes = memory::slopes(comparison);
    let is_shown =
        !roles::has_messages(comparison.suite) && slopes.iter().any(|slope| slope.line.is_ok());
    is_shown.then_some(slopes)
}

fn table(comparison: &Comparison<'_>, level: &str) -> Table {
    let at = comparison.at(level);
    let compared = compared(comparison);
    let mut table = Table::of_runs("At a glance", comparison, &at, &compared);
    let contests = Contests::new(comparison, level);
    let leaders = contests.leaders();
    for (index, column) in compared.iter().enumerate() {
        let key = column.key.as_deref().unwrap_or_default();
        let leaders = leaders.get(key).map(Vec::as_slice).unwrap_or_default();
        for (row, repeated) in at.iter().enumerate() {
            table.rows[row].cells[index + 2].best = leaders.contains(&repeated.daemon);
        }
    }
    if let Some(slopes) = slopes(comparison) {
        let beside = columns::memory(comparison).head().text;
        memory::add_slope_column(&mut table, &slopes, &beside);
    }
    table.runs = None;
    // All rows belong to one level, which the note above the table names.
    table.remove_column(columns::LEVEL);
    table
}
