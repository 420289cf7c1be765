//! Opening of the report: verdicts with their reasons, the question, the machine and the dates.

use crate::report::comparison::{Comparison, Repetitions, level_name};
use crate::report::document::{Part, Section};
use crate::report::facts;
use crate::report::table::{Head, Row, Table};
use crate::report::text::{self, plain};
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::units::{self, NONE};
use crate::warning::{self, Severity, Verdict};

const VERDICTS: [Verdict; 3] = [Verdict::Valid, Verdict::Suspect, Verdict::Invalid];

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let is_comparison = comparison.suite.results.len() > 1;
    let mut parts = Vec::new();
    parts.extend(is_comparison.then(|| Part::Table(verdicts(comparison))));
    parts.push(Part::Facts(overloads(comparison)));
    parts.push(Part::Facts(reasons(comparison)));
    parts.push(Part::Facts(facts(comparison)));
    parts.extend(is_comparison.then(|| Part::Table(subjects(comparison))));
    parts.retain(|part| !matches!(part, Part::Facts(facts) if facts.is_empty()));
    vec![Section::new("verdict", &title(comparison), parts)]
}

/// Returns the title: the verdict of a single run; otherwise the most severe verdict and the size of the suite.
pub(in crate::report) fn title(comparison: &Comparison<'_>) -> String {
    let results = &comparison.suite.results;
    if let Some(run) = comparison.only_run() {
        let daemon = plain(&run.daemon.name);
        return format!("{}: {} against {daemon}", run.verdict, run.driver);
    }
    let name = plain(&comparison.suite.name);
    let Some(worst) = results.iter().map(|result| result.verdict).max() else {
        return format!("{name}: nothing was measured");
    };
    format!(
        "{worst}: {name}, {} of {} at {}",
        counted(results.len(), "run", "runs"),
        counted(comparison.measured().count(), "daemon", "daemons"),
        counted(comparison.levels.len(), "level", "levels")
    )
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!(
        "{} {}",
        units::count(count as u64),
        if count == 1 { one } else { several }
    )
}

fn facts(comparison: &Comparison<'_>) -> Vec<(&'static str, String)> {
    let question = comparison.suite.question.iter();
    let mut facts: Vec<_> = question
        .map(|question| ("question", plain(question)))
        .collect();
    let results = &comparison.suite.results;
    match results.as_slice() {
        [] => {}
        [run] => {
            facts.extend(facts::run(run));
            facts.extend(imported(results));
        }
        _ => facts.extend(facts_of_several(comparison)),
    }
    facts
}

fn facts_of_several(comparison: &Comparison<'_>) -> Vec<(&'static str, String)> {
    let results = &comparison.suite.results;
    let mut facts = vec![
        ("verdicts", verdict_counts(results)),
        ("dates", dates(results)),
    ];
    let machines = distinct(results, |result| facts::machine(&result.machine));
    if machines.len() > 1 {
        let warning = format!(
            "{} different machines: their figures cannot be compared",
            machines.len()
        );
        facts.push(("machines", warning));
    }
    facts.extend(machines.into_iter().map(|machine| ("machine", machine)));
    facts.extend(mixed_versions(comparison));
    facts.extend(imported(results));
    facts.extend(noise(results).map(|noise| ("noise", noise)));
    let drivers = distinct(results, facts::driver).into_iter();
    facts.extend(drivers.map(|driver| ("driver", driver)));
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
    let starts = || results.iter().filter(known).map(facts::started);
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
fn imported(results: &[RunResult]) -> Option<(&'static str, String)> {
    let foreign = results.iter().filter(|result| result.imported.is_some());
    let tools = distinct(foreign, |result| plain(&result.driver));
    let drivers = distinct(results, |result| plain(&result.driver));
    (!tools.is_empty()).then(|| {
        let beside = if drivers.len() > 1 {
            format!(
                "; {} define request start and completion differently, so their figures are not directly comparable",
                drivers.join(", ")
            )
        } else {
            String::new()
        };
        let imported = format!(
            "figures reported by {}, without histograms; the machine is not known{beside}",
            tools.join(", ")
        );
        ("imported", imported)
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
fn verdicts(comparison: &Comparison<'_>) -> Table {
    let levels = comparison
        .levels
        .iter()
        .map(|level| Head::text(&level_head(level)));
    let head = [Head::text("daemon")].into_iter().chain(levels).collect();
    let row = |(daemon, name): (usize, &&str)| {
        let of_daemon = comparison.of_daemon(daemon);
        let at = |level: &&str| {
            let repeated = of_daemon.iter().find(|repeated| repeated.level == *level);
            repeated.map_or("not run".to_owned(), verdicts_of)
        };
        let cells = [plain(name)]
            .into_iter()
            .chain(comparison.levels.iter().map(at));
        Row::new(Some(daemon), cells)
    };
    let rows = comparison.daemons.iter().enumerate().map(row).collect();
    Table::new("Verdicts of all runs by level", head, rows)
}

fn level_head(level: &str) -> String {
    if level.is_empty() {
        "runs".to_owned()
    } else {
        format!("at {}", level_name(level))
    }
}

/// Counts the verdicts of repetitions: `4 VALID, 1 SUSPECT`.
fn verdicts_of(repeated: &Repetitions<'_>) -> String {
    let count = |verdict: Verdict| {
        let of = repeated.runs.iter().filter(|run| run.verdict == verdict);
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
fn overloads(comparison: &Comparison<'_>) -> Vec<(&'static str, String)> {
    let mut overloads = Vec::new();
    for repeated in comparison.all() {
        for (place, run) in repeated.runs.iter().enumerate() {
            let headline = run.overload();
            let named = headline.map(|headline| comparison.about(&repeated, place, headline));
            overloads.extend(named.map(|text| ("overload", text)));
        }
    }
    overloads
}

/// Returns the first line of each warning above a note, with its run: causes first, then by severity.
fn reasons(comparison: &Comparison<'_>) -> Vec<(&'static str, String)> {
    let mut reasons = Vec::new();
    for repeated in comparison.all() {
        for (place, run) in repeated.runs.iter().enumerate() {
            let mut warnings = run.warnings.clone();
            warning::sort(&mut warnings);
            warnings.retain(|warning| warning.severity > Severity::Note);
            for warning in warnings {
                let message = plain(warning.message.lines().next().unwrap_or_default());
                let message = comparison.about(&repeated, place, &message);
                reasons.push((text::severity(warning.severity), message));
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
        let version = plain(version);
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

/// Lists the daemons at levels whose runs used several versions of the daemon.
fn mixed_versions(comparison: &Comparison<'_>) -> Vec<(&'static str, String)> {
    let mut mixed = Vec::new();
    for repeated in comparison.all() {
        let versions = versions(repeated.runs.iter().copied());
        if versions.len() > 1 {
            let name = plain(comparison.daemons[repeated.daemon]);
            let (level, versions) = (repeated.level_name(), versions.join("; "));
            let warning = format!(
                "{name} at {level} has runs of several versions, which are not repetitions of each other: {versions}"
            );
            mixed.push(("versions", warning));
        }
    }
    mixed
}

fn subjects(comparison: &Comparison<'_>) -> Table {
    let head = ["daemon", "version", "description"].map(Head::text).into();
    let results = &comparison.suite.results;
    let row = |(place, name): (usize, &&str)| {
        let runs = || results.iter().filter(|run| run.daemon.name == **name);
        let first = |of: fn(&RunResult) -> Option<&String>| {
            runs()
                .find_map(of)
                .map_or(NONE.to_owned(), |text| plain(text))
        };
        let versions = versions(runs());
        let cells = [
            plain(name),
            if versions.is_empty() {
                NONE.to_owned()
            } else {
                versions.join("; ")
            },
            first(|run| run.daemon.about.as_ref()),
        ];
        Row::new(Some(place), cells)
    };
    let rows = comparison.daemons.iter().enumerate().map(row).collect();
    Table::new("The daemons", head, rows)
}
