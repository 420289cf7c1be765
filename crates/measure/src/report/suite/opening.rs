//! Opening of the report: verdicts with their reasons, the question, the machine and the dates.

use super::cells::{Cell, Cells, level_name};
use super::document::{Part, Section};
use super::grid::{Grid, Head, Row};
use super::show::Text;
use crate::report::page;
use crate::result::RunResult;
use crate::spread::SummaryStats;
use crate::units;
use crate::warning::{Severity, Verdict};

const VERDICTS: [Verdict; 3] = [Verdict::Valid, Verdict::Suspect, Verdict::Invalid];

pub(super) fn section(cells: &Cells<'_>) -> Section {
    let suite = cells.suite;
    let mut parts = Vec::new();
    if !suite.results.is_empty() {
        parts.push(Part::Grid(verdicts(cells)));
        parts.push(Part::Facts(overloads(cells)));
        parts.push(Part::Facts(reasons(cells)));
    }
    parts.push(Part::Facts(facts(cells)));
    if !suite.results.is_empty() {
        parts.push(Part::Grid(subjects(cells)));
    }
    parts.retain(|part| !matches!(part, Part::Facts(facts) if facts.is_empty()));
    Section::new("verdict", &title(cells), parts)
}

/// Returns the title: the most severe verdict and the size of the suite.
pub(super) fn title(cells: &Cells<'_>) -> String {
    let results = &cells.suite.results;
    let name = page::plain(&cells.suite.name);
    let Some(worst) = results.iter().map(|result| result.verdict).max() else {
        return format!("{name}: nothing was measured");
    };
    format!(
        "{worst}: {name}, {} of {} at {}",
        counted(results.len(), "run", "runs"),
        counted(cells.measured().count(), "daemon", "daemons"),
        counted(cells.levels.len(), "level", "levels")
    )
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!(
        "{} {}",
        units::count(count as u64),
        if count == 1 { one } else { several }
    )
}

fn facts(cells: &Cells<'_>) -> Vec<(&'static str, String)> {
    let suite = cells.suite;
    let results = &suite.results;
    let mut facts = Vec::new();
    facts.extend(
        suite
            .question
            .iter()
            .map(|question| ("question", page::plain(question))),
    );
    if results.is_empty() {
        return facts;
    }
    facts.push(("verdicts", verdict_counts(results)));
    facts.push(("dates", dates(results)));
    let machines = distinct(results, |result| page::machine(&result.machine));
    if machines.len() > 1 {
        let warning = format!(
            "{} different machines: their figures cannot be compared",
            machines.len()
        );
        facts.push(("machines", warning));
    }
    facts.extend(machines.into_iter().map(|machine| ("machine", machine)));
    facts.extend(mixed_versions(cells));
    facts.extend(imported(results).map(|imported| ("imported", imported)));
    facts.extend(noise(results).map(|noise| ("noise", noise)));
    facts.extend(
        distinct(results, page::driver)
            .into_iter()
            .map(|driver| ("driver", driver)),
    );
    facts
}

fn verdict_counts(results: &[RunResult]) -> String {
    let count = |verdict: Verdict| {
        let of = results.iter().filter(|result| result.verdict == verdict);
        format!("{} {verdict}", of.count())
    };
    VERDICTS.map(count).join(", ")
}

/// Returns the first and last start. Times in RFC 3339 and UTC sort as text.
fn dates(results: &[RunResult]) -> String {
    let known = |result: &&RunResult| !result.started_at.is_empty();
    let starts = || results.iter().filter(known).map(page::started);
    let (first, last) = (
        starts().min().unwrap_or_default(),
        starts().max().unwrap_or_default(),
    );
    if first.is_empty() {
        "not known".to_owned()
    } else if first == last {
        first
    } else {
        format!("{first} to {last}")
    }
}

/// Explains imported figures: they may be defined differently from those of other drivers.
fn imported(results: &[RunResult]) -> Option<String> {
    let foreign = results.iter().filter(|result| result.imported.is_some());
    let tools = distinct(foreign, |result| page::plain(&result.driver));
    let drivers = distinct(results, |result| page::plain(&result.driver));
    (!tools.is_empty()).then(|| {
        let beside = if drivers.len() > 1 {
            format!(
                "; {} define request start and completion differently, so their figures are not directly comparable",
                drivers.join(", ")
            )
        } else {
            String::new()
        };
        format!(
            "figures reported by {}, without histograms; the machine is not known{beside}",
            tools.join(", ")
        )
    })
}

/// Describes other load on the machine.
fn noise(results: &[RunResult]) -> Option<String> {
    let of = |figure: fn(&RunResult) -> Option<f64>| {
        SummaryStats::from_values(results.iter().filter_map(figure))
    };
    let loads = of(|result| result.machine.load1).map(|loads| {
        format!(
            "load average before the runs {:.2} to {:.2}",
            loads.min, loads.max
        )
    });
    let stolen = of(|result| result.machine.steal_pct)
        .map(|stolen| format!("up to {:.1} % of the CPU time stolen", stolen.max));
    let facts: Vec<String> = loads.into_iter().chain(stolen).collect();
    (!facts.is_empty()).then(|| facts.join(", "))
}

fn distinct<'a>(
    results: impl IntoIterator<Item = &'a RunResult>,
    of: fn(&RunResult) -> String,
) -> Vec<String> {
    let mut distinct = Vec::new();
    for text in results.into_iter().map(of) {
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    distinct
}

/// Builds a table of daemons by level with the verdicts of the runs.
fn verdicts(cells: &Cells<'_>) -> Grid {
    let levels = cells
        .levels
        .iter()
        .map(|level| Head::text(&level_head(level)));
    let head = [Head::text("daemon")].into_iter().chain(levels).collect();
    let row = |(daemon, name): (usize, &&str)| {
        let of_daemon = cells.of_daemon(daemon);
        let at = |level: &&str| {
            let cell = of_daemon.iter().find(|cell| cell.level == *level);
            cell.map_or("not run".to_owned(), of_cell)
        };
        let texts = [page::plain(name)]
            .into_iter()
            .chain(cells.levels.iter().map(at));
        Row {
            daemon: Some(daemon),
            texts: texts.map(Text::plain).collect(),
            starts_group: false,
        }
    };
    let rows = cells.daemons.iter().enumerate().map(row).collect();
    Grid::of_rows("Verdicts of all runs by level", head, rows)
}

fn level_head(level: &str) -> String {
    if level.is_empty() {
        "runs".to_owned()
    } else {
        format!("at {}", level_name(level))
    }
}

/// Counts the verdicts of a cell: `4 VALID, 1 SUSPECT`.
fn of_cell(cell: &Cell<'_>) -> String {
    let count = |verdict: Verdict| {
        let of = cell.runs.iter().filter(|run| run.verdict == verdict);
        (of.count(), verdict)
    };
    let there = VERDICTS
        .map(count)
        .into_iter()
        .filter(|(count, _)| *count > 0);
    let there: Vec<String> = there
        .map(|(count, verdict)| format!("{count} {verdict}"))
        .collect();
    there.join(", ")
}

/// Lists the runs whose daemon did not serve the offered load.
fn overloads(cells: &Cells<'_>) -> Vec<(&'static str, String)> {
    let mut overloads = Vec::new();
    for cell in cells.all() {
        for (place, run) in cell.runs.iter().enumerate() {
            if let Some(headline) = run.overload() {
                let who = cells.run_name(&cell, place);
                overloads.push(("overload", format!("{who}: {headline}")));
            }
        }
    }
    overloads
}

/// Returns the first line of each warning above a note, with its run.
fn reasons(cells: &Cells<'_>) -> Vec<(&'static str, String)> {
    let mut reasons = Vec::new();
    for cell in cells.all() {
        for (place, run) in cell.runs.iter().enumerate() {
            let severe = run
                .warnings
                .iter()
                .filter(|warning| warning.severity > Severity::Note);
            for warning in severe {
                let message = page::plain(warning.message.lines().next().unwrap_or_default());
                let who = cells.run_name(&cell, place);
                reasons.push((
                    page::severity(warning.severity),
                    format!("{who}: {message}"),
                ));
            }
        }
    }
    reasons
}

/// Returns the distinct versions of the daemon in these runs, in order of appearance.
fn versions<'a>(runs: impl IntoIterator<Item = &'a RunResult>) -> Vec<String> {
    let mut versions = Vec::new();
    for version in runs
        .into_iter()
        .filter_map(|run| run.daemon.version.as_ref())
    {
        let version = page::plain(version);
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

/// Lists cells whose runs used several versions of the daemon.
fn mixed_versions(cells: &Cells<'_>) -> Vec<(&'static str, String)> {
    let mut mixed = Vec::new();
    for cell in cells.all() {
        let versions = versions(cell.runs.iter().copied());
        if versions.len() > 1 {
            let name = page::plain(cells.daemons[cell.daemon]);
            let (level, versions) = (cell.level_name(), versions.join("; "));
            let warning = format!(
                "{name} at {level} has runs of several versions, which are not repetitions of each other: {versions}"
            );
            mixed.push(("versions", warning));
        }
    }
    mixed
}

fn subjects(cells: &Cells<'_>) -> Grid {
    let head = ["daemon", "version", "description"].map(Head::text).into();
    let results = &cells.suite.results;
    let row = |(place, name): (usize, &&str)| {
        let runs = || results.iter().filter(|run| run.daemon.name == **name);
        let first = |of: fn(&RunResult) -> Option<&String>| {
            runs()
                .find_map(of)
                .map_or("–".to_owned(), |text| page::plain(text))
        };
        let versions = versions(runs());
        let texts = [
            page::plain(name),
            if versions.is_empty() {
                "–".to_owned()
            } else {
                versions.join("; ")
            },
            first(|run| run.daemon.about.as_ref()),
        ];
        Row {
            daemon: Some(place),
            texts: texts.map(Text::plain).into(),
            starts_group: false,
        }
    };
    let rows = cells.daemons.iter().enumerate().map(row).collect();
    Grid::of_rows("The daemons", head, rows)
}
