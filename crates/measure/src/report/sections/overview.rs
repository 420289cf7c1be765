//! Overview: the key figures of each daemon at the highest level that all of them ran.

use super::memory;
use crate::metrics::Better;
use crate::report::columns::{self, Column};
use crate::report::compare::fair;
use crate::report::comparison::{Comparison, Repetitions, level_name, size};
use crate::report::distinct::distinct;
use crate::report::document::{Charts, Part, Section};
use crate::report::roles;
use crate::report::table::Table;
use crate::summary::SummaryStats;
use crate::units;

/// Minimum number of runs per daemon before any figure is called best.
const MIN_RUNS: usize = 3;
/// Minimum distance of two medians, as a share of the better one.
const MIN_DISTANCE: f64 = 0.03;

const READING: &str = "A figure is marked as best if its runs do not overlap with those of any worse daemon and the medians differ by at least 3 %. Closer figures share the mark; if all are close, none has it. INVALID runs do not count, and daemons that the answer excludes are compared by success only.";
const SLOPE: &str = "The slope covers all levels and is not compared.";
const FEW: &str = "No figure is marked as best, because that requires 3 runs of each daemon.";

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
        groups if !are_enough(&groups) => format!("{at} {FEW}"),
        _ if roles::has_messages(comparison.suite) => format!("{at} {READING}"),
        _ => format!("{at} {READING} {SLOPE}"),
    }
}

/// Returns true if there are enough runs to rule out chance differences of single runs.
fn are_enough(groups: &[Repetitions<'_>]) -> bool {
    let counted = groups.iter().map(|repeated| repeated.counted().len());
    let mut counted = counted.filter(|counted| *counted > 0);
    counted.all(|counted| counted >= MIN_RUNS)
}

/// Returns the level to compare daemons at: the highest at which all of them have runs that count, otherwise the highest
/// at which all have runs; daemons without any runs do not matter. A level that is not a number is used only if there is
/// no numeric one.
pub(super) fn common_level<'a>(comparison: &Comparison<'a>) -> Option<&'a str> {
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

/// Returns the columns to compare: the share of successful operations, then figures of daemons without failures.
pub(in crate::report) fn compared<'a>(comparison: &Comparison<'a>) -> Vec<Column<'a>> {
    let headline = comparison.headline().map(|series| {
        let head = format!("{} p99, ms", comparison.series_label(series));
        Column::series(comparison, series, "p99").titled(&head)
    });
    let rates = roles::rates(comparison.suite).into_iter().map(Column::rate);
    let memory = if roles::has_messages(comparison.suite) {
        Column::metric("daemon.rss.peak", "peak MiB", units::mib)
    } else {
        columns::kib_per_connection()
    };
    [columns::success()]
        .into_iter()
        .chain(rates)
        .chain(headline)
        .chain([memory, columns::cpu_per_operation()])
        .collect()
}

fn table(comparison: &Comparison<'_>, level: &str) -> Table {
    let at = comparison.at(level);
    let compared = compared(comparison);
    let mut table = Table::of_runs("At a glance", comparison, &at, &compared);
    let (fair, _) = fair(comparison, level);
    let fair: Vec<usize> = fair.iter().map(|repeated| repeated.daemon).collect();
    for (index, column) in compared.iter().enumerate() {
        for row in best(&at, &fair, column) {
            table.rows[row].cells[index + 2].best = true;
        }
    }
    if !roles::has_messages(comparison.suite) {
        memory::add_slope_column(&mut table, &memory::slopes(comparison));
    }
    table.runs = None;
    // All rows belong to one level, which the note above the table names.
    table.remove_column(columns::LEVEL);
    table
}

/// Returns the rows that cannot be distinguished from the best one. Daemons that the answer excludes are compared only by
/// the share of successful operations.
fn best(groups: &[Repetitions<'_>], fair: &[usize], column: &Column<'_>) -> Vec<usize> {
    if !are_enough(groups) {
        return Vec::new();
    }
    let sign = match column.better {
        Better::Lower => 1.0,
        _ => -1.0,
    };
    let compared = |repeated: &Repetitions<'_>| match column.is_success() {
        true => !repeated.broke_down(),
        false => fair.contains(&repeated.daemon),
    };
    let stats: Vec<(usize, SummaryStats)> = groups
        .iter()
        .enumerate()
        .filter(|(_, repeated)| compared(repeated))
        .filter_map(|(row, repeated)| Some((row, column.stats(&repeated.counted())?)))
        .collect();
    let median = |(_, stats): &&(usize, SummaryStats)| stats.median * sign;
    let first = stats
        .iter()
        .min_by(|one, other| median(one).total_cmp(&median(other)));
    let Some((_, first)) = first else {
        return Vec::new();
    };
    let is_close = |(_, other): &&(usize, SummaryStats)| !are_distinct(first, other);
    let close: Vec<usize> = stats.iter().filter(is_close).map(|(row, _)| *row).collect();
    match close.len() == stats.len() {
        true => Vec::new(),
        false => close,
    }
}

/// Returns true if the runs do not overlap and the medians are far enough from each other.
fn are_distinct(first: &SummaryStats, other: &SummaryStats) -> bool {
    let overlap = first.min <= other.max && other.min <= first.max;
    let distance = (first.median - other.median).abs();
    !overlap && distance >= MIN_DISTANCE * first.median.abs()
}
