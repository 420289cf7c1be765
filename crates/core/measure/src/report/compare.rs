//! Comparison of groups of runs: whether it is fair, and the change of a figure.

use std::collections::BTreeSet;

use super::comparison::{Comparison, MOST_FAILED_PCT, Repetitions};
use super::distinct;
use super::facts;
use super::plain;
use crate::change::{Change, ChangeScale, Figure, MARGIN};
use crate::machine::Machine;
use crate::metrics;
use crate::result::{Answer, RunResult};
use crate::suite::Reference;
use crate::units;

/// The groups at a level by what they can be compared by.
#[derive(Debug)]
pub(super) struct Fair<'a> {
    /// The groups that can be compared by all metrics.
    pub(super) by_all: Vec<Repetitions<'a>>,
    /// The groups that can be compared by their failures: these and others.
    pub(super) by_failures: Vec<Repetitions<'a>>,
    /// The daemons that cannot be compared by all metrics, with the reasons.
    pub(super) excluded: Vec<(usize, String)>,
}

/// Returns the groups at a level by what they can be compared by. What a daemon failed to do is no merit, even if it used less
/// memory meanwhile.
pub(super) fn fair<'a>(comparison: &Comparison<'a>, level: &str) -> Fair<'a> {
    let (by_failures, mut excluded) = comparable(comparison, level);
    let mut by_all: Vec<Repetitions<'a>> = Vec::new();
    for group in &by_failures {
        let control = comparison.controls.get(group.daemon).copied().flatten();
        let is_fair = |daemon: &usize| by_all.iter().any(|base| base.daemon == *daemon);
        let reason = match control.filter(|control| !is_fair(control)) {
            _ if group.has_failures() => format!(
                "{} of its operations failed, more than {MOST_FAILED_PCT} %: only the failures are compared",
                units::percent(group.failed_pct())
            ),
            Some(control) => format!(
                "only the failures are compared, because {} failed too often",
                comparison.daemon(control)
            ),
            None => {
                by_all.push(group.clone());
                continue;
            }
        };
        excluded.push((group.daemon, reason));
    }
    excluded.sort_by_key(|(daemon, _)| *daemon);
    Fair {
        by_all,
        by_failures,
        excluded,
    }
}

/// Returns the groups that can be compared by their failures, and the other daemons with the reasons.
fn comparable<'a>(
    comparison: &Comparison<'a>,
    level: &str,
) -> (Vec<Repetitions<'a>>, Vec<(usize, String)>) {
    let mut fair: Vec<Repetitions<'a>> = Vec::new();
    let mut excluded = Vec::new();
    for repeated in comparison.at(level) {
        let reason = match comparison.controls.get(repeated.daemon) {
            Some(Some(control)) => match fair.iter().find(|base| base.daemon == *control) {
                Some(base) => unfair(comparison, &repeated, Some(base)),
                None => Some(format!(
                    "not comparable with {}, which has no figures that can be compared",
                    comparison.daemon(*control)
                )),
            },
            Some(None) if !comparison.is_control(repeated.daemon) => {
                Some("there is no such daemon in the suite that is compared with".to_owned())
            }
            Some(None) => unfair(comparison, &repeated, None),
            None => unfair(comparison, &repeated, fair.first()),
        };
        match reason {
            Some(reason) => excluded.push((repeated.daemon, reason)),
            None => fair.push(repeated),
        }
    }
    (fair, excluded)
}

/// Returns the reason why a daemon cannot be compared with `first`: the first one that can, or its control.
fn unfair(
    comparison: &Comparison<'_>,
    repeated: &Repetitions<'_>,
    first: Option<&Repetitions<'_>>,
) -> Option<String> {
    if let Some(reason) = repeated.breakdown() {
        return Some(reason.to_owned());
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
    let (first, name) = (first?, comparison.daemon(first?.daemon));
    let Some(different) = different(first, repeated) else {
        let is_in_turn = comparison.is_in_turn(first.daemon, repeated.daemon);
        let change = (!is_in_turn).then(|| same_machine(comparison, first, repeated));
        return change?
            .err()
            .map(|change| format!("not comparable with {name}: two blocks of runs, {change}: use drover run --against, which makes them in turn"));
    };
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

/// Returns what differs between the conditions of two groups of runs, so that the daemon is not the only difference.
fn different(one: &Repetitions<'_>, other: &Repetitions<'_>) -> Option<String> {
    let (runs, others) = (one.counted(), other.counted());
    let all = || runs.iter().chain(&others);
    let first = all().next()?;
    for run in all() {
        let facts = fingerprint(&first.machine).into_iter();
        let mut facts = facts.zip(fingerprint(&run.machine));
        if let Some(((fact, one), (_, other))) = facts.find(|(one, other)| one != other) {
            return Some(format!("different machines: {fact} {one} and {other}"));
        }
    }
    if let Some(run) = all().find(|run| run.driver != first.driver) {
        let (one, other) = (plain(&first.driver), plain(&run.driver));
        return Some(format!("different drivers: {one} and {other}"));
    }
    if all().any(|run| run.isolation != first.isolation) {
        return Some("different CPUs or limits".to_owned());
    }
    if all().any(|run| run.cpu_samples.keys().ne(first.cpu_samples.keys())) {
        return Some("CPU samples were not taken in all runs alike".to_owned());
    }
    if all().any(|run| run.plan_sentence != first.plan_sentence) {
        return Some("different plans".to_owned());
    }
    if [one, other].into_iter().any(has_several_builds) {
        return Some("a daemon was rebuilt between its runs".to_owned());
    }
    different_answers(one, other).map(|_| "different answers".to_owned())
}

/// Returns true if not all runs of a daemon were of one program.
fn has_several_builds(repeated: &Repetitions<'_>) -> bool {
    let known = programs(repeated).into_iter().flatten();
    distinct(known).len() > 1
}

/// Returns the program of each run that counts, if it is known.
pub(super) fn programs<'a>(repeated: &Repetitions<'a>) -> Vec<Option<&'a String>> {
    let runs = repeated.counted().into_iter();
    runs.map(|run| run.daemon.program_sha256.as_ref()).collect()
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

/// Returns the facts that identify a machine regardless of its name, each with its own.
fn fingerprint(machine: &Machine) -> [(&'static str, String); 5] {
    let cpu = machine.cpu_model.as_deref();
    [
        ("kernel", plain(&machine.kernel)),
        ("CPU", plain(cpu.unwrap_or("unknown"))),
        ("CPUs", machine.cpus.to_string()),
        ("memory", format!("{} GiB", machine.memory_bytes >> 30)),
        ("build", plain(&machine.build_profile)),
    ]
}

/// Returns an error if nothing shows that the machine was the same in two blocks of runs, whatever its name: neither a
/// daemon that both measured and that did not change, nor else the driver's CPU time per operation.
fn same_machine(
    comparison: &Comparison<'_>,
    one: &Repetitions<'_>,
    other: &Repetitions<'_>,
) -> Result<(), String> {
    let side = comparison.suite.side(comparison.daemons[other.daemon]);
    let figure = |run: &RunResult| {
        let value = metrics::value("driver.cpu.each", run)?;
        Some(Figure {
            value,
            quantum: metrics::quantum("driver.cpu.each", value, run),
        })
    };
    let (of, ratio) = match side.and_then(|side| side.reference.as_ref()) {
        Some(Reference {
            daemon,
            metric,
            ratio,
        }) => (
            format!("{metric} of {}, the same program in both,", plain(daemon)),
            *ratio,
        ),
        None => {
            let change = change(ChangeScale::Ratio, figure, one, other, false)
                .ok_or("of which nothing shows that the machine was the same")?;
            let of = "the driver's own CPU time per operation".to_owned();
            (of, change.value())
        }
    };
    if ratio.ln().abs() > MARGIN.ln_1p() {
        let percent = (ratio - 1.0).abs() * 100.0;
        return Err(format!("between which {of} changed by {percent:.0} %"));
    }
    Ok(())
}

/// Returns the change of a figure from `base` to `repeated`, or `None` if no runs of both that count have it.
pub(super) fn change(
    scale: ChangeScale,
    read: impl Fn(&RunResult) -> Option<Figure>,
    base: &Repetitions<'_>,
    repeated: &Repetitions<'_>,
    paired: bool,
) -> Option<Change> {
    if paired {
        let pairs = base.pairs(repeated);
        let pairs = pairs.filter_map(|(base, run)| Some((read(base)?, read(run)?)));
        return Change::paired(scale, pairs);
    }
    let values =
        |runs: &[&RunResult]| -> Vec<Figure> { runs.iter().filter_map(|run| read(run)).collect() };
    Change::unpaired(
        scale,
        &values(&base.counted()),
        &values(&repeated.counted()),
    )
}
