//! Generates the report of a suite from its files alone.

use std::path::{Path, PathBuf};

use harness::command_line::quoted;
use harness::output;
use harness::page::{self, PAGE};
use harness::store::{self, RESULT};
use measure::report::html::{self, Files};
use measure::report::{Format, Options, markdown, summary};
use measure::suite::{Suite, Unreached};
use measure::units;

use crate::folder::RESULTS;
use crate::record::{CapacityResult, Record, RunId};
use crate::search::TRIES;

/// Returns the suite in a folder: its results in the order of its runs, and the missing ones.
///
/// # Errors
/// The record can't be read. An unreadable result is listed with the unreached runs.
pub(crate) fn read_folder(folder: &Path) -> anyhow::Result<Suite> {
    let record = Record::read(folder)?;
    let mut results = Vec::new();
    let mut missing: Vec<Unreached> = record.unreached.iter().map(unreached).collect();
    for run in &record.runs {
        let id = &run.id;
        match store::read_result(&id.folder(folder).join(RESULT)) {
            Ok(result) => results.push(result),
            Err(error) => missing.push(Unreached {
                daemon: id.daemon.clone(),
                level: id.level.clone(),
                reason: format!("run {}: {error:#}", id.run),
            }),
        }
    }
    Ok(Suite {
        name: record.suite.name.clone(),
        question: record.question.clone(),
        command: Some(command(&record, folder)),
        planned: record.planned,
        control: record
            .suite
            .against
            .as_ref()
            .map(|against| against.name.clone()),
        looks: record.looks.len() as u64,
        capacities: record.found.iter().map(describe_capacity).collect(),
        results,
        made_again: record.set_aside.len() as u64,
        unreached: missing,
        ..Suite::default()
    })
}

fn unreached(missed: &crate::record::Unreached) -> Unreached {
    let of_one = missed.run.map(|run| format!("run {run}: "));
    Unreached {
        daemon: missed.daemon.clone(),
        level: missed.level.clone(),
        reason: format!("{}{}", of_one.unwrap_or_default(), missed.reason),
    }
}

/// Returns the command line that repeats the suite in `folder`: its plan, and the changes to it.
fn command(record: &Record, folder: &Path) -> String {
    let suite = &record.suite;
    let plan = record.plan.as_deref().map(quoted);
    let plan = plan.unwrap_or_else(|| format!("configs/{}/{}.toml", suite.protocol, suite.name));
    let call = match &suite.placement {
        Some(placement) => format!("cluster ssh {}", placement.words().join(" ")),
        None => "run".to_owned(),
    };
    let mut command = format!(
        "drover {call} {plan} --daemon {} --repeat {}",
        match suite.against {
            Some(_) => suite.daemons[1..].join(","),
            None => suite.daemons.join(","),
        },
        suite.repeat
    );
    if let Some(against) = &suite.against {
        command.push_str(&format!(" --against {}", quoted(&against.what)));
    }
    let planned = record.planned.map(|planned| planned.levels);
    if suite.capacity.is_none() && planned != Some(suite.levels.len() as u64) {
        let levels: Vec<&str> = suite.levels.iter().map(|level| &*level.name).collect();
        command.push_str(&format!(" --level {}", levels.join(",")));
    }
    for set in &suite.set {
        command.push_str(&format!(" --set {}", quoted(set)));
    }
    for word in suite.driver_options() {
        command.push_str(&format!(" {word}"));
    }
    let whole = |path: &Path| path.canonicalize().ok();
    let folder = whole(folder);
    let out = folder
        .as_deref()
        .and_then(|folder| folder.parent()?.parent());
    if let Some(out) = out.filter(|out| whole(Path::new(RESULTS)).as_deref() != Some(*out)) {
        command.push_str(&format!(" --out {}", quoted(&out.to_string_lossy())));
    }
    command
}

/// Describes the result of a search in a sentence.
pub(crate) fn describe_capacity(found: &CapacityResult) -> String {
    let held = match (found.held, &found.unjudged) {
        (Some(held), _) => format!("{} held", units::count(held)),
        (None, None) => "no load held".to_owned(),
        (None, Some(_)) => "no load held for certain".to_owned(),
    };
    let missed = match (found.missed, &found.unjudged) {
        (Some(missed), _) => format!(", {} did not", units::count(missed)),
        (None, None) => ", the highest load of the search".to_owned(),
        (None, Some(_)) => String::new(),
    };
    let reason = found
        .reason
        .as_ref()
        .map_or(String::new(), |reason| format!(" ({reason})"));
    let unjudged = found.unjudged.as_ref().map_or(String::new(), |unjudged| {
        format!(
            "; {}: {TRIES} inconclusive runs, limited by driver or machine, not the daemon: {}; then rerun with --fresh",
            units::count(unjudged.level),
            unjudged.reason
        )
    });
    format!("{}: {held}{missed}{reason}{unjudged}.", found.daemon)
}

/// Writes `report.md`, `summary.md` and `report.html` into a folder; returns their paths. The page links to the files
/// of the suite and of its runs.
///
/// # Errors
/// A result can't be shown, or the folder can't be written.
pub(crate) fn write(folder: &Path, suite: &Suite) -> anyhow::Result<[PathBuf; 3]> {
    let write = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
        let path = folder.join(name);
        store::write_whole(&path, text.as_bytes())?;
        Ok(path)
    };
    // The page links to the others, so they come first.
    let report = write("report.md", &markdown::render(suite))?;
    let summary = write("summary.md", &summary::render(suite))?;
    let page = write(PAGE, &html::page(suite, &files(folder, suite))?)?;
    Ok([report, summary, page])
}

/// Lists the files that the page of a suite links to.
fn files(folder: &Path, suite: &Suite) -> Files {
    let own = ["plan.toml", "suite.json", "report.md"];
    let own = own.into_iter().filter_map(|name| page::file(folder, name));
    let Ok(record) = Record::read(folder) else {
        return Files::default();
    };
    // Results are in the order of the runs; one that cannot be read is listed with its reason instead.
    let is_unreadable = |id: &RunId| {
        let reason = format!("run {}: ", id.run);
        let mut missing = suite.unreached.iter();
        missing.any(|one| {
            one.daemon == id.daemon && one.level == id.level && one.reason.starts_with(&reason)
        })
    };
    let ids = record.runs.iter().map(|run| &run.id);
    let places = ids
        .filter(|id| !is_unreadable(id))
        .map(|id| id.folder(Path::new("")));
    let mut runs: Vec<Vec<html::File>> = places.map(|place| files_of_run(folder, &place)).collect();
    if runs.len() != suite.results.len() {
        runs.clear();
    }
    Files {
        own: own.collect(),
        runs,
        page_path: page::page_path(folder),
    }
}

fn files_of_run(folder: &Path, run: &Path) -> Vec<html::File> {
    let files = page::files(&folder.join(run)).into_iter();
    let from_page = |file: html::File| html::File {
        path: format!(
            "{}/{}",
            page::percent_encoded(&run.to_string_lossy()),
            file.path
        ),
        ..file
    };
    files.map(from_page).collect()
}

/// Renders a report in a format.
///
/// # Errors
/// A result can't be shown.
pub(crate) fn render(suite: &Suite, format: Format) -> anyhow::Result<String> {
    let options = Options {
        width: output::columns(),
        ..Options::default()
    };
    Ok(format.render_suite(suite, &options)?)
}
