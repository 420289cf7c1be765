//! The scope of the answer: the level that it is about, the order at other levels, and what was run of the plan.

use super::sentence::listed;
use crate::change::error_rate_of_look;
use crate::report::comparison::{Comparison, Repetitions, is_counted, level_name, size};
use crate::report::contest::Contests;
use crate::report::deciding::{self, Deciding};
use crate::report::distinct;
use crate::report::plain;
use crate::result::RunResult;
use crate::suite::Suite;
use crate::warning::Verdict;

/// Letters of a commit, and of the hash of a program, that are shown.
const HASH: usize = 8;
/// Letters of a time to the minute: `2026-01-31T12:40`.
const MINUTE: usize = 16;

/// Says what the words of the answer are worth.
pub(super) fn words(contests: &Contests<'_>, looks: u64) -> Option<(&'static str, String)> {
    let primary = contests.all.first()?;
    let others = contests.all.len() - 1;
    let noun = &primary.metric.column.head;
    let share = 100.0 - 100.0 * error_rate_of_look(looks);
    let mut text = format!("{noun} decides, by {share} % intervals");
    if others > 0 {
        text.push_str(&format!(
            "; the other metrics have wider ones, so that all of them hold in {share} of 100 suites"
        ));
    }
    if looks > 0 {
        text.push_str("; they are wider than 95 % because further repetitions were added to runs that had been compared before");
    }
    Some(("intervals", text))
}

/// Says when each daemon was measured, of which version of the sources, and which program it is, if daemons are compared
/// with controls, and whether they are one program.
pub(super) fn versions(
    comparison: &Comparison<'_>,
    contests: &Contests<'_>,
) -> Option<(&'static str, String)> {
    if !comparison.has_controls() {
        return None;
    }
    let groups = comparison.at(contests.level);
    let runs = groups.iter().filter_map(|group| {
        let run = *group.shown().first()?;
        Some((comparison.daemon(group.daemon), run))
    });
    let runs: Vec<(String, &RunResult)> = runs.collect();
    let begin = |text: &str| plain(&text.chars().take(HASH).collect::<String>());
    let versions = runs.iter().map(|(name, run)| {
        let changes = match run.machine.git_dirty {
            Some(true) => " with uncommitted changes",
            _ => "",
        };
        let commit = run.machine.git_commit.as_ref();
        let program = run.daemon.program_sha256.as_ref();
        let facts = [
            run.started_at
                .get(..MINUTE)
                .map(|time| plain(&time.replace('T', " "))),
            commit.map(|commit| format!("commit {}{changes}", begin(commit))),
            program.map(|program| format!("program {}", begin(program))),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        format!("{name}: {}", facts.join(", "))
    });
    let mut text: Vec<String> = versions.collect();
    let programs = distinct(runs.iter().map(|(_, run)| &run.daemon.program_sha256));
    let is_one = matches!(programs[..], [Some(_)]) && runs.len() > 1;
    text.extend(is_one.then(|| "all run one program".to_owned()));
    Some(("versions", text.join("; ")))
}

/// Names the level and compares the order of the daemons with that at the other levels.
pub(super) fn level(
    comparison: &Comparison<'_>,
    contests: &Contests<'_>,
) -> Option<(&'static str, String)> {
    let level = contests.level;
    if level.is_empty() {
        return None;
    }
    let highest = match size(level) {
        Some(_) if comparison.levels.len() > 1 => "the highest that every daemon reached",
        Some(_) => "the only level",
        None => "which every daemon ran",
    };
    let mut text = format!("the comparison is at {}, {highest}", level_name(level));
    let others = comparison.levels.iter().filter(|other| **other != level);
    let (mut same, mut different) = (Vec::new(), Vec::new());
    for other in others {
        match order_at(comparison, other, contests) {
            None => {}
            Some(turned) if turned.is_empty() => same.push(level_name(other)),
            Some(turned) => {
                let leaders = distinct(turned.iter().map(|(_, leader)| *leader));
                let metrics = distinct(turned.into_iter().map(|(metric, _)| metric));
                let (other, metrics) = (level_name(other), listed(&metrics));
                let differs = match leaders[..] {
                    [leader] if comparison.measured().count() == 2 => {
                        format!("{} leads in {metrics}", comparison.daemon(leader))
                    }
                    _ => format!("the order differs in {metrics}"),
                };
                different.push(format!("; at {other} {differs}"));
            }
        }
    }
    if !same.is_empty() {
        text.push_str(&format!("; the order is the same at {}", listed(&same)));
    }
    text.extend(different);
    Some(("level", text))
}

/// Returns the metrics by which two daemons swap places at another level, each with the one that is better there, or
/// `None` if nothing can be compared there.
fn order_at(
    comparison: &Comparison<'_>,
    level: &str,
    contests: &Contests<'_>,
) -> Option<Vec<(String, usize)>> {
    let at = comparison.at(level);
    let usable =
        |repeated: &&Repetitions<'_>| !repeated.counted().is_empty() && !repeated.has_failures();
    let at: Vec<&Repetitions<'_>> = at.iter().filter(usable).collect();
    let mean = |metric: &Deciding<'_>, daemon: usize| {
        let repeated = at.iter().find(|repeated| repeated.daemon == daemon)?;
        metric.mean(&repeated.counted())
    };
    let mut compared = false;
    let mut turned = Vec::new();
    for contest in &contests.all {
        for (rank, one_here) in contest.ranked.iter().enumerate() {
            for other_here in &contest.ranked[rank + 1..] {
                if contest.has_controls && other_here.base != Some(rank) {
                    continue;
                }
                let [one, other] =
                    [one_here, other_here].map(|entry| mean(&contest.metric, entry.daemon));
                let (Some(one), Some(other)) = (one, other) else {
                    continue;
                };
                compared = true;
                let scale = contest.metric.column.scale;
                let here = scale.distance(other_here.mean, one_here.mean);
                let there = scale.distance(other, one);
                if there.abs() >= scale.margin() && here * there < 0.0 {
                    let is_one_ahead = (there < 0.0) == contest.metric.is_lower_better();
                    let leader = if is_one_ahead { one_here } else { other_here };
                    turned.push((contest.metric.label.to_owned(), leader.daemon));
                }
            }
        }
    }
    compared.then_some(turned)
}

/// Says how the main figures of a single daemon change from its lowest to its highest level.
pub(super) fn growth(comparison: &Comparison<'_>) -> Option<(&'static str, String)> {
    let daemon = comparison.measured().next()?;
    let groups = comparison.of_daemon(daemon);
    let sized = groups
        .iter()
        .filter(|repeated| size(repeated.level).is_some() && !repeated.counted().is_empty());
    let sized: Vec<&Repetitions<'_>> = sized.collect();
    let [first, .., last] = sized.as_slice() else {
        return None;
    };
    let metrics = deciding::metrics(comparison, std::slice::from_ref(*last));
    // Failures have lines of their own.
    let metrics = metrics.iter().filter(|metric| !metric.is_failures());
    let changes = metrics.filter_map(|metric| {
        let low = metric.mean(&first.counted())?;
        let high = metric.mean(&last.counted())?;
        let (noun, low) = (&metric.column.head, metric.number(low));
        Some(format!("{noun} {low} → {}", metric.number(high)))
    });
    let changes: Vec<String> = changes.collect();
    let [low, high] = [first, last].map(|repeated| repeated.level_name());
    let text = format!("from {low} to {high}: {}", changes.join(", "));
    (!changes.is_empty()).then_some(("levels", text))
}

/// Says which part of the plan was run, and which runs do not count or are doubtful.
pub(super) fn ran(comparison: &Comparison<'_>) -> Option<(&'static str, String)> {
    let suite = comparison.suite;
    let groups = comparison.all();
    let runs = groups.iter().map(|repeated| repeated.runs.len());
    let (fewest, most) = (runs.clone().min()?, runs.max()?);
    let levels = distinct(groups.iter().map(|repeated| repeated.level)).len();
    let planned = suite.planned;
    let of = |planned: Option<u64>, ran: usize, noun: &str| {
        let several = |count: u64| {
            if count == 1 {
                noun.to_owned()
            } else {
                format!("{noun}s")
            }
        };
        let repetitions = match (noun, fewest == most) {
            ("repetition", false) => format!("{fewest} to {most}"),
            _ => ran.to_string(),
        };
        match planned {
            Some(planned) if planned > ran as u64 || repetitions.contains(' ') => {
                format!("{repetitions} of {planned} {}", several(planned))
            }
            _ => format!("{repetitions} {}", several(ran as u64)),
        }
    };
    let mut parts = vec![
        of(planned.map(|planned| planned.levels), levels, "level"),
        of(
            planned.map(|planned| planned.repetitions),
            most,
            "repetition",
        ),
    ];
    let all = suite.results.len();
    let count =
        |holds: fn(&RunResult) -> bool| suite.results.iter().filter(|run| holds(run)).count();
    let invalid = count(|run| !is_counted(run));
    parts.extend((invalid > 0).then(|| format!("{invalid} of {all} runs INVALID and left out")));
    let suspect = count(|run| run.verdict == Verdict::Suspect);
    parts.extend(
        (suspect > 0)
            .then(|| format!("{suspect} of {all} runs SUSPECT, so the figures may be distorted")),
    );
    Some(("ran", parts.join(", ")))
}

/// Returns the command of the suite with another number of repetitions.
pub(super) fn command(suite: &Suite, repeat: usize) -> Option<String> {
    let command = suite.command.as_ref()?;
    let option = " --repeat ";
    let Some(at) = command.find(option) else {
        return Some(format!("{command}{option}{repeat}"));
    };
    let value = at + option.len();
    let rest = command[value..].trim_start_matches(|letter: char| letter.is_ascii_digit());
    Some(format!("{}{repeat}{rest}", &command[..value]))
}
