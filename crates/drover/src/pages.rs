//! The report of a suite, made from its files alone.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use harness::store::{self, RESULT};
use measure::report::{Error, suite as form};
use measure::suite::{Suite, Unreached};
use measure::units;

use crate::record::{Found, Record};
use crate::search::TRIES;

/// The suite of a folder: its results in the order of its runs, and what is missing.
///
/// # Errors
/// A record that can't be read. A result that can't is listed with what was not reached.
pub(crate) fn of_folder(folder: &Path) -> anyhow::Result<Suite> {
    let record = Record::read(folder)?;
    let path = |daemon: &str, level: &str, run: u32| {
        folder
            .join(daemon)
            .join(level)
            .join(run.to_string())
            .join(RESULT)
    };
    let mut results = Vec::new();
    let mut missing: Vec<Unreached> = record.unreached.iter().map(unreached).collect();
    for run in &record.runs {
        match store::read_result(&path(&run.daemon, &run.level, run.run)) {
            Ok(result) => results.push(result),
            Err(error) => missing.push(Unreached {
                daemon: run.daemon.clone(),
                level: run.level.clone(),
                reason: format!("run {}: {error:#}", run.run),
            }),
        }
    }
    Ok(Suite {
        name: record.suite.name.clone(),
        question: asked_and_answered(&record),
        command: Some(command(&record)),
        results,
        unreached: missing,
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

/// What was typed to run it: the plan by its name, and what was changed of it.
fn command(record: &Record) -> String {
    let suite = &record.suite;
    let mut command = format!(
        "drover run configs/{}/{}.toml --daemon {} --repeat {}",
        suite.protocol,
        suite.name,
        suite.daemons.join(","),
        suite.repeat
    );
    if suite.capacity.is_none() {
        let levels: Vec<&str> = suite.levels.iter().map(|level| &*level.name).collect();
        command.push_str(&format!(" --level {}", levels.join(",")));
    }
    for set in &suite.set {
        command.push_str(&format!(" --set '{set}'"));
    }
    command
}

/// The question, and where a search has found the answer, that too.
fn asked_and_answered(record: &Record) -> Option<String> {
    let answers = record.found.iter().map(answer);
    let parts: Vec<String> = record.question.iter().cloned().chain(answers).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// What a search has found, as a sentence.
pub(crate) fn answer(found: &Found) -> String {
    let held = match (found.held, &found.unjudged) {
        (Some(held), _) => format!("{} held", units::count(held)),
        (None, None) => "no load held".to_owned(),
        (None, Some(_)) => "no load held for certain".to_owned(),
    };
    let missed = match (found.missed, &found.unjudged) {
        (Some(missed), _) => format!(", {} did not", units::count(missed)),
        (None, None) => ", the most that was asked for".to_owned(),
        (None, Some(_)) => String::new(),
    };
    let reason = found
        .reason
        .as_ref()
        .map_or(String::new(), |reason| format!(" ({reason})"));
    let unjudged = found.unjudged.as_ref().map_or(String::new(), |unjudged| {
        format!(
            "; {} was not judged in {TRIES} runs, since the driver or the machine was the limit, not the daemon: {}, then search anew with --fresh",
            units::count(unjudged.level),
            unjudged.reason
        )
    });
    format!("{}: {held}{missed}{reason}{unjudged}.", found.daemon)
}

/// Writes `report.md`, `summary.md` and `report.html` into a folder; returns where.
///
/// # Errors
/// A result that can't be shown, or a folder that can't be written.
pub(crate) fn write(folder: &Path, suite: &Suite) -> anyhow::Result<[PathBuf; 3]> {
    let pages = [
        ("report.md", form::markdown(suite)?),
        ("summary.md", form::summary(suite, None)),
        ("report.html", form::html(suite)?),
    ];
    for (name, text) in &pages {
        store::write_whole(&folder.join(name), text.as_bytes())?;
    }
    Ok(pages.map(|(name, _)| folder.join(name)))
}

/// A report by the name of its format: those of a suite, and those that drivers have for plain results.
///
/// # Errors
/// A format that nobody has, or a result that can't be shown.
pub(crate) fn render(suite: &Suite, base: Option<&Suite>, format: &str) -> anyhow::Result<String> {
    ensure!(
        base.is_none() || format == "summary",
        "--base: only --format summary holds a suite against an earlier one"
    );
    let text = match format {
        "summary" => form::summary(suite, base),
        "markdown" => form::markdown(suite)?,
        "html" => form::html(suite)?,
        "terminal" => form::terminal(suite)?,
        other => other
            .parse::<measure::report::Format>()
            .context("--format: summary, or")?
            .render(&suite.results)?,
    };
    Ok(text)
}

/// The short summary for a terminal.
///
/// # Errors
/// A result that can't be shown.
pub(crate) fn terminal(suite: &Suite) -> Result<String, Error> {
    form::terminal(suite)
}
