//! Comparison of groups of runs: whether it is fair, and the change of a figure.

use std::collections::BTreeSet;

use super::comparison::{Comparison, Repetitions};
use super::distinct;
use super::facts;
use super::plain;
use crate::change::{Change, Figure, MARGIN};
use crate::machine::Machine;
use crate::metrics;
use crate::result::{Answer, RunResult};

/// Returns the groups at a level that can be compared, and the other daemons with the reasons.
pub(super) fn fair<'a>(
    comparison: &Comparison<'a>,
    level: &str,
) -> (Vec<Repetitions<'a>>, Vec<(usize, String)>) {
    let mut fair: Vec<Repetitions<'a>> = Vec::new();
    let mut excluded = Vec::new();
    for repeated in comparison.at(level) {
        match unfair(comparison, &repeated, fair.first()) {
            Some(reason) => excluded.push((repeated.daemon, reason)),
            None => fair.push(repeated),
        }
    }
    (fair, excluded)
}

/// Returns the reason why a daemon cannot be compared with the first one that can. What it failed to do is no merit,
/// even if it used less memory meanwhile.
fn unfair(
    comparison: &Comparison<'_>,
    repeated: &Repetitions<'_>,
    first: Option<&Repetitions<'_>>,
) -> Option<String> {
    if repeated.has_failures() {
        return Some("clients failed".to_owned());
    }
    let counted = repeated.counted();
    if counted.is_empty() {
        let warnings = repeated.runs.first().map(|run| invalid(run));
        return Some(format!(
            "not measured validly ({})",
            warnings.unwrap_or_default()
        ));
    }
    if let Some(overload) = counted.iter().find_map(|run| run.overload()) {
        return Some(overload.to_owned());
    }
    let first = first?;
    let (different, name) = (different(first, repeated)?, comparison.daemon(first.daemon));
    let answers = different_answers(first, repeated).map(|(theirs, own)| {
        format!(
            ": it {}, but {name} {}; make both serve the same content, then run again",
            facts::answer(own),
            facts::answer(theirs)
        )
    });
    let answers = answers.unwrap_or_default();
    Some(format!("not comparable with {name} ({different}){answers}"))
}

/// Returns the first reason why a run is INVALID, without what follows from it. The warnings have the whole of it.
fn invalid(run: &RunResult) -> String {
    let mut warnings = run.warnings.clone();
    crate::warning::sort(&mut warnings);
    let first = warnings.first().map_or("", |warning| &warning.message);
    let reason = first
        .lines()
        .next()
        .and_then(|line| line.split("; ").next());
    plain(reason.unwrap_or_default())
}

/// Returns the reason why two groups of runs cannot be compared.
pub(super) fn incomparable(one: &Repetitions<'_>, other: &Repetitions<'_>) -> Option<&'static str> {
    if one.counted().is_empty() || other.counted().is_empty() {
        return Some("INVALID runs");
    }
    let has_failures = one.has_failures() || other.has_failures();
    different(one, other).or(has_failures.then_some("failures"))
}

/// Returns what differs between the conditions of two groups of runs, so that the daemon is not the only difference.
fn different(one: &Repetitions<'_>, other: &Repetitions<'_>) -> Option<&'static str> {
    let (runs, others) = (one.counted(), other.counted());
    let all = || runs.iter().chain(&others);
    let first = all().next()?;
    if all().any(|run| fingerprint(&run.machine) != fingerprint(&first.machine)) {
        return Some("different machines");
    }
    if all().any(|run| run.driver != first.driver) {
        return Some("different drivers");
    }
    if all().any(|run| run.isolation != first.isolation) {
        return Some("different CPUs or limits");
    }
    if all().any(|run| run.plan_sentence != first.plan_sentence) {
        return Some("different plans");
    }
    if [one, other].into_iter().any(has_several_builds) {
        return Some("a daemon was built anew between its runs");
    }
    different_answers(one, other).map(|_| "different answers")
}

/// Returns true if not all runs of a daemon were of one program.
fn has_several_builds(repeated: &Repetitions<'_>) -> bool {
    let runs = repeated.counted().into_iter();
    let programs = runs.filter_map(|run| run.daemon.program_sha256.as_ref());
    distinct(programs).len() > 1
}

/// Returns an answer of each group if they differ. If the content of both varies from run to run by itself, only the
/// status counts.
pub(super) fn different_answers<'a>(
    one: &Repetitions<'a>,
    other: &Repetitions<'a>,
) -> Option<(&'a Answer, &'a Answer)> {
    let answers = |repeated: &Repetitions<'a>| -> Vec<&'a Answer> {
        let runs = repeated.shown().into_iter();
        runs.filter_map(|run| run.answer.as_ref()).collect()
    };
    let contents = |answers: &[&'a Answer]| -> BTreeSet<&'a str> {
        answers.iter().map(|answer| &*answer.sha256).collect()
    };
    let (one, other) = (answers(one), answers(other));
    let varies = [&one, &other].iter().all(|own| contents(own).len() > 1);
    let differs = |one: &Answer, other: &Answer| {
        if varies {
            one.status != other.status
        } else {
            one != other
        }
    };
    let mut pairs = one
        .iter()
        .flat_map(|one| other.iter().map(move |other| (*one, *other)));
    pairs.find(|(one, other)| differs(one, other))
}

/// Returns the facts that identify a machine regardless of its name.
fn fingerprint(machine: &Machine) -> (&str, Option<&str>, u64, u64, &str) {
    let gib = machine.memory_bytes >> 30;
    (
        &machine.kernel,
        machine.cpu_model.as_deref(),
        machine.cpus,
        gib,
        &machine.build_profile,
    )
}

/// Returns an error if the driver's CPU time per operation differs between two blocks of runs: then the machine was not
/// the same, whatever its name. Without that figure there is nothing to tell by.
pub(super) fn same_machine(one: &Repetitions<'_>, other: &Repetitions<'_>) -> Result<(), String> {
    let figure = |run: &RunResult| {
        let value = metrics::value("driver.cpu.each", run)?;
        Some(Figure {
            value,
            quantum: metrics::quantum("driver.cpu.each", value, run),
        })
    };
    match change(figure, one, other, false).map(|change| change.ratio()) {
        Some(ratio) if ratio.ln().abs() > MARGIN.ln_1p() => Err(format!(
            "two blocks of runs, between which the driver's own CPU time per operation changed by {:.0} %: run both in one suite",
            (ratio - 1.0).abs() * 100.0
        )),
        _ => Ok(()),
    }
}

/// Returns the change of a figure from `base` to `repeated`, or `None` if no runs of both that count have it.
pub(super) fn change(
    read: impl Fn(&RunResult) -> Option<Figure>,
    base: &Repetitions<'_>,
    repeated: &Repetitions<'_>,
    paired: bool,
) -> Option<Change> {
    if paired {
        let pairs = base.pairs(repeated);
        return Change::paired(pairs.filter_map(|(base, run)| Some((read(base)?, read(run)?))));
    }
    let values =
        |runs: &[&RunResult]| -> Vec<Figure> { runs.iter().filter_map(|run| read(run)).collect() };
    Change::unpaired(&values(&base.counted()), &values(&repeated.counted()))
}
