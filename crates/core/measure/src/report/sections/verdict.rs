//! The verdict of the runs with its reasons, the question, the machine and the dates. It opens the report.

use crate::report::comparison::{Comparison, Repetitions, is_counted, level_name, numbered};
use crate::report::distinct;
use crate::report::document::{Part, Section};
use crate::report::facts;
use crate::report::plain;
use crate::report::sections::answer::Facts;
use crate::report::table::{Head, Row, Table};
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::units::NONE;
use crate::warning::{self, Severity, Verdict};

const VERDICTS: [Verdict; 3] = [Verdict::Valid, Verdict::Suspect, Verdict::Invalid];

/// Builds the head of the report. What several runs have in common with a single one follows the answer.
pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let question = question(comparison);
    let facts = match comparison.suite.results.as_slice() {
        [] => vec![question],
        [run] => vec![
            overloads(comparison),
            reasons(comparison),
            [
                question,
                facts::run(run),
                imported(std::slice::from_ref(run)).into_iter().collect(),
            ]
            .concat(),
        ],
        results => {
            let verdicts = VERDICTS.map(|verdict| count_verdict(results, verdict));
            vec![[question, vec![("verdicts", verdicts.join(", "))]].concat()]
        }
    };
    let facts = facts.into_iter().filter(|facts| !facts.is_empty());
    let parts = facts.map(Part::Facts).collect();
    vec![Section::new("verdict", &title(comparison), parts)]
}

/// Builds the verdicts of several runs by daemon and level, with the reasons, the machines and the daemons.
pub(super) fn runs(comparison: &Comparison<'_>) -> Vec<Section> {
    let mut parts = vec![Part::Table(verdicts(comparison))];
    for facts in [
        overloads(comparison),
        reasons(comparison),
        facts_of_several(comparison),
    ] {
        parts.extend((!facts.is_empty()).then_some(Part::Facts(facts)));
    }
    parts.push(Part::Table(subjects(comparison)));
    vec![Section::new("runs", "Runs", parts)]
}

/// Returns the title: the most severe verdict, and what was measured.
pub(in crate::report) fn title(comparison: &Comparison<'_>) -> String {
    let results = &comparison.suite.results;
    let name = plain(&comparison.suite.name);
    match results.iter().map(|result| result.verdict).max() {
        None => format!("{name}: nothing was measured"),
        Some(verdict) if comparison.only_run().is_some() => {
            format!("{verdict}: {}", measured(comparison))
        }
        Some(worst) => format!("{worst}: {name}, {}", measured(comparison)),
    }
}

/// Says what was measured: driver and daemon of a single run, otherwise the size of the suite.
pub(in crate::report) fn measured(comparison: &Comparison<'_>) -> String {
    if let Some(run) = comparison.only_run() {
        return format!("{} against {}", run.driver, plain(&run.daemon.name));
    }
    let results = &comparison.suite.results;
    if results.is_empty() {
        return "nothing was measured".to_owned();
    }
    let [runs, daemons, levels] = [
        (results.len(), "run", "runs"),
        (comparison.measured().count(), "daemon", "daemons"),
        (comparison.levels.len(), "level", "levels"),
    ]
    .map(|(count, one, several)| facts::counted(count as u64, one, several));
    format!("{runs} of {daemons} at {levels}")
}

fn question(comparison: &Comparison<'_>) -> Facts {
    let question = comparison.suite.question.iter();
    question
        .map(|question| ("question", plain(question)))
        .collect()
}

fn facts_of_several(comparison: &Comparison<'_>) -> Facts {
    let results = &comparison.suite.results;
    let mut facts: Facts = left_out(comparison).into_iter().collect();
    facts.extend(made_again(comparison));
    facts.push(("dates", dates(results)));
    let machines = distinct(results.iter().map(|run| facts::machine(&run.machine)));
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
    let drivers = distinct(results.iter().map(facts::driver)).into_iter();
    facts.extend(drivers.map(|driver| ("driver", driver)));
    let isolation = distinct(results.iter().filter_map(facts::isolation)).into_iter();
    facts.extend(isolation.map(|text| ("isolation", text)));
    let calibrations = distinct(results.iter().filter_map(facts::calibration)).into_iter();
    facts.extend(calibrations.map(|text| (facts::CALIBRATION, text)));
    // Of the runs of a suite it is the suite's.
    let commands = results.iter().filter_map(|run| run.commands.first());
    let commands = distinct(commands.map(|command| plain(command))).into_iter();
    facts.extend(commands.map(|command| (facts::COMMAND, command)));
    facts
}

/// Says how many runs are left out because they are INVALID, and which rows have no others.
fn left_out(comparison: &Comparison<'_>) -> Option<(&'static str, String)> {
    let results = &comparison.suite.results;
    let invalid = results.iter().filter(|run| !is_counted(run)).count();
    let text = format!(
        "{invalid} of {} runs: INVALID runs are in no mean, interval, mark or answer; a row marked INVALID has no others",
        results.len()
    );
    (invalid > 0).then_some(("left out", text))
}

/// Says how many INVALID attempts are not among the runs, because they were made again.
fn made_again(comparison: &Comparison<'_>) -> Option<(&'static str, String)> {
    let text = match comparison.suite.made_again {
        0 => return None,
        1 => "1 INVALID run was made again; its first attempt is not in this report".to_owned(),
        again => format!(
            "{again} INVALID runs were made again; the earlier attempts are not in this report"
        ),
    };
    Some(("made again", text))
}

/// Counts the runs with a verdict: `4 VALID`.
fn count_verdict<'a>(runs: impl IntoIterator<Item = &'a RunResult>, verdict: Verdict) -> String {
    let with_verdict = runs.into_iter().filter(|run| run.verdict == verdict);
    format!("{} {verdict}", with_verdict.count())
}

/// Returns the first and last start. Times in RFC 3339 and UTC sort as text.
fn dates(results: &[RunResult]) -> String {
    let known = results.iter().filter(|run| !run.started_at.is_empty());
    let mut starts: Vec<String> = known.map(facts::started).collect();
    starts.sort_unstable();
    match (starts.first(), starts.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(only), _) => only.clone(),
        (None, _) => "not known".to_owned(),
    }
}

/// Explains imported figures: they may be defined differently from other drivers' figures.
fn imported(results: &[RunResult]) -> Option<(&'static str, String)> {
    let foreign = results.iter().filter(|result| result.imported.is_some());
    let tools = distinct(foreign.map(|result| plain(&result.driver)));
    let drivers = distinct(results.iter().map(|result| plain(&result.driver)));
    let beside = match drivers.len() {
        0 | 1 => String::new(),
        _ => format!(
            "; {} define request start and completion differently, so their figures are not directly comparable",
            drivers.join(", ")
        ),
    };
    (!tools.is_empty()).then(|| {
        let tools = tools.join(", ");
        let imported = format!(
            "figures reported by {tools}, without histograms; the machine is not known{beside}"
        );
        ("imported", imported)
    })
}

/// Describes other load on the machine.
fn noise(results: &[RunResult]) -> Option<String> {
    let stats = |read: fn(&RunResult) -> Option<f64>| {
        SummaryStats::from_values(results.iter().filter_map(read))
    };
    let loads = stats(|run| run.machine.load1).map(|loads| {
        let SummaryStats { min, max, .. } = loads;
        format!("load average before the runs {min:.2} to {max:.2}")
    });
    let stolen = stats(|run| run.machine.steal_pct)
        .map(|stolen| format!("up to {:.1} % of the CPU time stolen", stolen.max));
    let facts: Vec<String> = loads.into_iter().chain(stolen).collect();
    (!facts.is_empty()).then(|| facts.join(", "))
}

/// Builds a table of daemons by level with the verdicts of the runs.
fn verdicts(comparison: &Comparison<'_>) -> Table {
    let mut head = vec![Head::text("daemon")];
    head.extend(comparison.levels.iter().map(|level| match *level {
        "" => Head::text("runs"),
        level => Head::text(&format!("at {}", level_name(level))),
    }));
    let row = |daemon: usize| {
        let of_daemon = comparison.of_daemon(daemon);
        let mut cells = vec![comparison.daemon(daemon)];
        cells.extend(comparison.levels.iter().map(|level| {
            let repeated = of_daemon.iter().find(|repeated| repeated.level == *level);
            repeated.map_or("not run".to_owned(), verdicts_of)
        }));
        Row::new(Some(daemon), cells)
    };
    let rows = (0..comparison.daemons.len()).map(row).collect();
    Table::new("Verdicts of all runs by level", head, rows)
}

/// Counts the verdicts of repetitions: `4 VALID, 1 SUSPECT`.
fn verdicts_of(repeated: &Repetitions<'_>) -> String {
    let runs = || repeated.runs.iter().copied();
    let found = VERDICTS
        .into_iter()
        .filter(|verdict| runs().any(|run| run.verdict == *verdict));
    let counts: Vec<String> = found
        .map(|verdict| count_verdict(runs(), verdict))
        .collect();
    counts.join(", ")
}

/// Lists the runs whose daemon did not serve the offered load.
fn overloads(comparison: &Comparison<'_>) -> Facts {
    let all = comparison.all();
    let overloads = numbered(&all).filter_map(|(repeated, index, run)| {
        let text = comparison.about(repeated, index, run.overload()?);
        Some(("overload", text))
    });
    overloads.collect()
}

/// Returns the first line of each warning above a note, with its run: causes first, then by severity.
fn reasons(comparison: &Comparison<'_>) -> Facts {
    let mut reasons = Vec::new();
    for (repeated, index, run) in numbered(&comparison.all()) {
        let mut warnings = run.warnings.clone();
        warning::sort(&mut warnings);
        warnings.retain(|warning| warning.severity > Severity::Note);
        for warning in warnings {
            let message = plain(warning.message.lines().next().unwrap_or_default());
            let message = comparison.about(repeated, index, &message);
            reasons.push((warning.severity.name(), message));
        }
    }
    reasons
}

/// Returns the distinct versions of the daemon in these runs, in order of appearance.
fn versions<'a>(runs: impl IntoIterator<Item = &'a RunResult>) -> Vec<String> {
    let runs = runs.into_iter();
    distinct(runs.filter_map(|run| run.daemon.version.as_deref().map(plain)))
}

/// Lists the daemons at levels whose runs used several versions of the daemon.
fn mixed_versions(comparison: &Comparison<'_>) -> Facts {
    let mut mixed = Vec::new();
    for repeated in comparison.all() {
        let versions = versions(repeated.runs.iter().copied());
        if versions.len() > 1 {
            let name = comparison.daemon(repeated.daemon);
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
    let row = |(daemon, name): (usize, &&str)| {
        let results = comparison.suite.results.iter();
        let runs: Vec<&RunResult> = results.filter(|run| run.daemon.name == **name).collect();
        let versions = versions(runs.iter().copied()).join("; ");
        let about = runs.iter().find_map(|run| run.daemon.about.as_deref());
        let version = if versions.is_empty() {
            NONE.to_owned()
        } else {
            versions
        };
        let about = about.map_or(NONE.to_owned(), plain);
        Row::new(Some(daemon), [plain(name), version, about])
    };
    let rows = comparison.daemons.iter().enumerate().map(row).collect();
    Table::new("The daemons", head, rows)
}
