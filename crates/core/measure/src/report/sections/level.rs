//! Section of a level: all distributions side by side, failures, thresholds, faults and growth. Levels that were not
//! reached.

use std::collections::BTreeSet;

use super::{latency, overview, thresholds_and_faults, throughput};
use crate::growth::{FIGURES, Growing, SIDES, Side};
use crate::report::columns::{self, Column};
use crate::report::comparison::{Comparison, Repetitions, level_id, level_name, numbered};
use crate::report::distinct;
use crate::report::document::{Charts, Part, Section};
use crate::report::plain;
use crate::report::table::{Head, Row, Table};
use crate::result::RunResult;
use crate::suite::Unreached;
use crate::units;

/// Element ID of the section of levels that were not reached.
pub(super) const UNREACHED: &str = "unreached";

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let levels = comparison.levels.iter();
    levels
        .map(|level| match comparison.only_run() {
            Some(run) => of_one(comparison, level, run),
            None => of_several(comparison, level),
        })
        .collect()
}

fn of_several(comparison: &Comparison<'_>, level: &str) -> Section {
    let at = comparison.at(level);
    let distributions = Table {
        runs: every_run(comparison, &at),
        ..latency::distributions(comparison, &at)
    };
    let mut parts = vec![
        Part::Facts(plans(&at)),
        Part::Charts(Charts::Level(level.to_owned())),
        Part::Heading("Latency distributions (milliseconds)".to_owned()),
        Part::Table(distributions),
    ];
    if let Some(failures) = self::failures(comparison, &at) {
        parts.extend(Part::headed_table("Failures by kind, all runs", failures));
    }
    parts.extend(outcomes(comparison, &at));
    let title = match level {
        "" => "Runs without a level".to_owned(),
        level => format!("Level {}", level_name(level)),
    };
    Section::new(&level_id(level), &title, parts)
}

/// Builds a row for each run of the level with its main figures, or none if no daemon has several.
fn every_run(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Box<Table>> {
    let mut columns = Vec::from(["started", "errors"].map(Column::count));
    columns.extend(overview::compared(comparison));
    let headline = comparison.headline().into_iter();
    columns.extend(headline.flat_map(|series| {
        ["p50", "max"].map(|statistic| {
            let column = Column::series(comparison, series, statistic);
            let head = format!("{} {statistic}, ms", comparison.series_label(series));
            column.titled(&head)
        })
    }));
    columns.push(Column::metric(
        "driver.cpu.average",
        "driver CPU, % of a core",
        units::tenths,
    ));
    let mut runs = Table::of_runs("Figures", comparison, at, &columns).runs?;
    // The section names the level.
    runs.remove_column(columns::LEVEL);
    Some(runs)
}

/// Builds the same of a single run, whose level, plan and failures other sections name.
fn of_one(comparison: &Comparison<'_>, level: &str, run: &RunResult) -> Section {
    let at = comparison.at(level);
    let mut parts = latency::notes(comparison);
    parts.push(Part::Table(latency::distributions(comparison, &at)));
    let goodput = throughput::goodput(&[run]);
    parts.extend(goodput.map(|text| Part::Facts(vec![("goodput", text)])));
    parts.extend(clamped(run).map(Part::Facts));
    parts.extend([
        Part::Charts(Charts::Level(level.to_owned())),
        Part::Charts(Charts::Levels),
    ]);
    parts.extend(outcomes(comparison, &at));
    Section::new(&level_id(level), "Latency", parts)
}

/// Builds the tables of thresholds, faults and growth that are not empty.
fn outcomes(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Vec<Part> {
    let tables = [
        (
            "Thresholds",
            thresholds_and_faults::thresholds(comparison, at),
        ),
        ("Faults", thresholds_and_faults::faults(comparison, at)),
        ("Growth under steady load", growth(comparison, at)),
    ];
    let tables = tables.into_iter();
    tables
        .filter_map(|(title, table)| Some(Part::headed_table(title, table?)))
        .flatten()
        .collect()
}

/// Names the series with values outside the range of a histogram.
fn clamped(run: &RunResult) -> Option<Vec<(&'static str, String)>> {
    let series = run.series.iter().chain(&run.lag);
    let facts: Vec<_> = series
        .filter(|series| series.clamped > 0)
        .map(|series| {
            let clamped = units::count(series.clamped);
            let name = plain(&series.name);
            let text = format!("{clamped} values of {name} were outside 1 ns to 1 h");
            ("clamped", text)
        })
        .collect();
    (!facts.is_empty()).then_some(facts)
}

/// Returns the distinct plans of a level: one, unless runs of different plans are combined.
fn plans(at: &[Repetitions<'_>]) -> Vec<(&'static str, String)> {
    let runs = at.iter().flat_map(|repeated| &repeated.runs);
    let plans = distinct(runs.map(|run| plain(&run.plan_sentence)));
    plans.into_iter().map(|plan| ("plan", plan)).collect()
}

/// Builds a row for each daemon with its failed operations by kind, or `None` if nothing failed.
fn failures(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Table> {
    let runs = at.iter().flat_map(|repeated| &repeated.runs);
    let kinds: BTreeSet<&String> = runs.flat_map(|run| run.errors.keys()).collect();
    let mut head = vec![Head::text("daemon"), Head::number("started")];
    head.extend(kinds.iter().map(|kind| Head::number(&plain(kind))));
    let row = |repeated: &Repetitions<'_>| {
        let runs = || repeated.runs.iter();
        let started = runs().map(|run| run.operations.started).sum();
        let mut cells = vec![comparison.daemon(repeated.daemon), units::count(started)];
        cells.extend(kinds.iter().map(|kind| {
            let failed = runs().filter_map(|run| run.errors.get(*kind));
            units::count(failed.sum())
        }));
        Row::new(Some(repeated.daemon), cells)
    };
    let rows = at.iter().map(row).collect();
    (!kinds.is_empty()).then(|| Table::new("Failures by kind", head, rows))
}

/// Builds a row for each figure of each run with enough steady load: its growth and the verdict. Returns `None` if there
/// is none.
fn growth(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Table> {
    let head = [
        Head::text("daemon"),
        Head::number("run"),
        Head::text("figure"),
        Head::number("per hour"),
        Head::number("95 % interval, from"),
        Head::number("to"),
        Head::text("verdict"),
    ];
    let figures = SIDES
        .iter()
        .flat_map(|side| FIGURES.iter().map(move |figure| (side, figure)));
    let row = |(repeated, index, run): (&Repetitions<'_>, usize, &RunResult),
               ((name, side), figure): (&(&str, Side), &Growing)| {
        let trend = run.trend(*side, figure)?;
        let mut cells = vec![
            comparison.daemon(repeated.daemon),
            (index + 1).to_string(),
            format!("{name}.{}", figure.key),
        ];
        let (from, to) = trend.interval;
        cells.extend([trend.per_hour, from, to].map(|value| figure.unit.signed(value)));
        cells.push(
            if trend.proven() > 0.0 {
                "grows"
            } else {
                "flat"
            }
            .to_owned(),
        );
        Some(Row::new(Some(repeated.daemon), cells))
    };
    let rows =
        numbered(at).flat_map(|run| figures.clone().filter_map(move |figure| row(run, figure)));
    Table::non_empty("Growth under steady load", head.into(), rows.collect())
}

/// Builds a row for each level that could not be measured, with its reason.
pub(super) fn unreached(comparison: &Comparison<'_>) -> Vec<Section> {
    let row = |missing: &Unreached| {
        let level = level_name(&missing.level);
        let cells = [plain(&missing.daemon), level, plain(&missing.reason)];
        Row::new(None, cells)
    };
    let rows = comparison.suite.unreached.iter().map(row).collect();
    let head = ["daemon", "level", "reason"].map(Head::text).into();
    let table = Table::non_empty("Not reached", head, rows);
    let parts = table.into_iter().map(Part::Table).collect();
    Section::non_empty(UNREACHED, "Not reached", parts)
}
