//! Failures of the daemons: they come first in the answer, before any praise.

use super::Facts;
use super::sentence::listed;
use crate::exit;
use crate::report::comparison::{BREAKDOWNS, Comparison, Repetitions};
use crate::report::distinct;
use crate::report::facts::counted;
use crate::report::plain;
use crate::result::RunResult;
use crate::spec::{CounterRole, ErrorCause};
use crate::units;

/// Maximum number of daemons that are named.
const DAEMONS: usize = 4;
/// Maximum number of kinds of failures that are named.
const KINDS: usize = 3;

/// Returns a line for each daemon that failed clients, exited, or lost messages or connections.
pub(super) fn facts(comparison: &Comparison<'_>) -> Facts {
    let failing = comparison.measured().filter_map(|daemon| {
        let groups = comparison.of_daemon(daemon);
        let failing: Vec<&Repetitions<'_>> = groups.iter().filter(|group| fails(group)).collect();
        let levels = failing.iter().map(|repeated| repeated.level_name());
        let levels = listed(&levels.collect::<Vec<_>>());
        let at = match comparison.levels.len() {
            0 | 1 => String::new(),
            _ => format!(" at {levels}"),
        };
        let name = comparison.daemon(daemon);
        let all: Vec<&RunResult> = failing
            .iter()
            .flat_map(|group| &group.runs)
            .copied()
            .collect();
        let what = described(&all, &counted_of(&failing));
        (!what.is_empty()).then(|| ("failures", format!("{name}{at}: {what}")))
    });
    let mut failing: Facts = failing.collect();
    let more = failing.len().saturating_sub(DAEMONS);
    failing.truncate(DAEMONS);
    if more > 0 {
        let more = counted(more as u64, "more daemon", "more daemons");
        failing.push(("failures", format!("and of {more}, see below")));
    }
    failing
}

/// Says that nothing failed, if that is so.
pub(super) fn none(comparison: &Comparison<'_>) -> Option<(&'static str, String)> {
    let all = comparison.all();
    let is_clean = !all.iter().any(fails);
    let runs = all.iter().flat_map(|repeated| &repeated.runs);
    let has_failed = runs.copied().any(|run| run.unserved() > 0);
    let text = if has_failed {
        "none, except in INVALID runs"
    } else {
        "none: every operation succeeded"
    };
    is_clean.then(|| ("failures", text.to_owned()))
}

fn counted_of<'a>(groups: &[&Repetitions<'a>]) -> Vec<&'a RunResult> {
    groups.iter().flat_map(|group| group.counted()).collect()
}

fn fails(repeated: &Repetitions<'_>) -> bool {
    let is_wrong = |run: &&RunResult| run.unserved() > 0 || !wrong(run).is_empty();
    repeated.has_failures() || repeated.counted().iter().any(is_wrong)
}

/// Returns what was delivered wrongly or lost, with its number.
fn wrong(run: &RunResult) -> Vec<(String, u64)> {
    let roles = [
        CounterRole::DeliveryError,
        CounterRole::Lost,
        CounterRole::OperationsFailingChecks,
    ];
    let counters = roles
        .into_iter()
        .flat_map(|role| run.spec.counters_with(role));
    let counts = counters.map(|counter| {
        let name = match counter.role {
            CounterRole::Lost => "connections lost".to_owned(),
            _ => plain(&counter.label),
        };
        (name, run.count(&counter.name))
    });
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Describes the failures of all runs that count, and the runs in which the daemon broke down.
fn described(all: &[&RunResult], counting: &[&RunResult]) -> String {
    let mut parts = Vec::new();
    for (kind, what) in BREAKDOWNS {
        let broken = all.iter().filter(|run| run.has_warning(kind)).count();
        let of = counted(all.len() as u64, "run", "runs");
        parts.extend((broken > 0).then(|| format!("{what} in {broken} of {of}")));
    }
    let sum = |count: fn(&RunResult) -> u64| counting.iter().map(|run| count(run)).sum::<u64>();
    let (unserved, started) = (sum(RunResult::unserved), sum(|run| run.operations.started));
    if unserved > 0 {
        let (count, started) = (units::count(unserved), units::count(started));
        let explained: u64 = counting.iter().map(|run| exit::explained(run)).sum();
        let of = match explained {
            0 => String::new(),
            all if all == unserved => ", all in injected faults".to_owned(),
            some => format!(", {} in injected faults", units::count(some)),
        };
        parts.push(format!(
            "{count} of {started} operations failed{}{of}",
            kinds(counting)
        ));
    }
    let names = distinct(
        counting
            .iter()
            .flat_map(|run| wrong(run))
            .map(|(name, _)| name),
    );
    parts.extend(names.into_iter().map(|name| {
        let counts = counting.iter().flat_map(|run| wrong(run));
        let count = counts.filter(|(other, _)| *other == name);
        let count: u64 = count.map(|(_, count)| count).sum();
        format!("{} {name}", units::count(count))
    }));
    parts.join(", ")
}

/// Lists the most frequent kinds of failures in brackets.
fn kinds(runs: &[&RunResult]) -> String {
    let errors = runs.iter().flat_map(|run| run.errors.keys());
    let is_failure = |name: &&String| {
        runs.iter()
            .any(|run| run.spec.cause(name) != ErrorCause::Expected)
    };
    let count = |name: &String| -> u64 {
        runs.iter()
            .filter_map(|run| run.errors.get(name))
            .sum::<u64>()
    };
    let mut kinds: Vec<(String, u64)> = distinct(errors)
        .into_iter()
        .filter(is_failure)
        .map(|name| (plain(name), count(name)))
        .collect();
    let unfinished = runs.iter().map(|run| run.operations.unfinished).sum();
    kinds.push(("unfinished".to_owned(), unfinished));
    units::kinds(kinds, KINDS)
}
