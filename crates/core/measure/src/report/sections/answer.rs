//! The answer: sentences that say which daemon is better by each metric that decides, and what would settle the rest.

use super::overview::common_level;
use crate::report::comparison::Comparison;
use crate::report::contest::Contests;
use crate::report::document::{Charts, Part, Section};
use crate::report::plain;
use sentence::sentence;

mod failures;
mod scope;
mod sentence;

/// Label of the command that would settle what is open.
pub(in crate::report) const COMMAND: &str = "to settle";

/// Labelled sentences.
pub(super) type Facts = Vec<(&'static str, String)>;

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let facts = facts(comparison);
    let parts = (!facts.is_empty()).then(|| vec![Part::Facts(facts), Part::Charts(Charts::Ratios)]);
    Section::non_empty("answer", "Answer", parts.unwrap_or_default())
}

/// Builds the answer: what went wrong first, then a line for each metric that decides, then what was run.
pub(in crate::report) fn facts(comparison: &Comparison<'_>) -> Facts {
    let suite = comparison.suite;
    let capacities = suite.capacities.iter();
    let mut facts: Facts = capacities
        .map(|sentence| ("capacity", plain(sentence)))
        .collect();
    facts.extend(failures::facts(comparison));
    let repeat = match comparison.measured().count() {
        0 => return facts,
        1 => {
            facts.extend(scope::growth(comparison));
            None
        }
        _ => compare(comparison, &mut facts),
    };
    facts.extend(scope::ran(comparison));
    let command = repeat.and_then(|repeat| scope::command(suite, repeat));
    facts.extend(command.map(|command| (COMMAND, command)));
    facts
}

/// Adds the comparison of several daemons. Returns the number of repetitions that may settle what is open.
fn compare(comparison: &Comparison<'_>, facts: &mut Facts) -> Option<usize> {
    let Some(level) = common_level(comparison) else {
        let text = "no level was run by every daemon: run all daemons at one level".to_owned();
        facts.push(("open", text));
        return None;
    };
    let contests = Contests::new(comparison, level);
    let excluded = contests.excluded.iter();
    let excluded =
        excluded.map(|(daemon, reason)| format!("{}: {reason}", comparison.daemon(*daemon)));
    let excluded: Vec<String> = excluded.collect();
    if !excluded.is_empty() {
        facts.push(("excluded", excluded.join("; ")));
    }
    if contests.all.is_empty() {
        let text = match contests.fair.first() {
            Some(only) => {
                let name = comparison.daemon(only.daemon);
                format!("not comparable: there is nothing to compare {name} with")
            }
            None => {
                let at = comparison.at(level);
                let is_invalid = at.iter().all(|repeated| repeated.counted().is_empty());
                let remedy = if is_invalid && comparison.suite.command.is_some() {
                    ": remove the causes, then repeat the command, which makes INVALID runs again"
                } else {
                    ""
                };
                format!("not comparable: no daemon has figures that can be compared{remedy}")
            }
        };
        facts.push(("answer", text));
        return None;
    }
    let sentences = contests.all.iter();
    facts.extend(sentences.map(|contest| (contest.metric.label, sentence(contest, comparison))));
    facts.extend(scope::versions(comparison, &contests));
    facts.extend(scope::words(&contests, comparison.suite.looks));
    facts.extend(failures::none(comparison));
    facts.extend(scope::level(comparison, &contests));
    contests.open()
}
