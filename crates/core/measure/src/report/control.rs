//! The verdict on daemons that were compared with a control, for programs that act on it.

use super::comparison::{Comparison, MOST_FAILED_PCT, Repetitions};
use super::contest::{Contest, Contests, described};
use super::distinct;
use super::sections::common_level;
use crate::change::{ChangeScale, Word};
use crate::metrics::FAILURES;
use crate::suite::Suite;
use crate::units;

/// A judgement of the daemons of a suite against its control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// One is worse, with the statement about it.
    Worse(String),
    /// The runs do not prove that one is worse.
    Unproven,
    /// Nothing can be compared by the metric.
    NotCompared,
}

/// Judges the daemons against the control of their suite at the level of the answer: by the metric with a key such as
/// `response.p99`, or by the primary one. A daemon that cannot be compared by it because of what it failed to do is worse, if
/// the control did not fail.
///
/// # Errors
/// No two daemons have a figure of the metric, with the metrics that they have.
pub fn against_control(suite: &Suite, metric: Option<&str>) -> Result<Judgement, String> {
    let comparison = Comparison::new(suite);
    let level = common_level(&comparison).filter(|_| comparison.has_controls());
    let Some(level) = level else {
        return Ok(Judgement::NotCompared);
    };
    let groups = comparison.at(level);
    let pairs = groups.iter().filter_map(|group| {
        let control = comparison.controls[group.daemon]?;
        let mut all = groups.iter();
        Some((group, all.find(|other| other.daemon == control)?))
    });
    for (group, control) in pairs {
        let reason = breaks(group, MOST_FAILED_PCT);
        if let (Some(reason), None) = (reason, breaks(control, ChangeScale::Difference.margin())) {
            let [name, control] = [group, control].map(|group| comparison.daemon(group.daemon));
            let statement = format!("{name}: {reason}, unlike {control}");
            return Ok(Judgement::Worse(statement));
        }
    }
    let contests = Contests::new(&comparison, level);
    let chosen = match metric {
        None => contests.all.first(),
        Some(key) => contests.by_key(key),
    };
    let keys = contests.all.iter().map(|contest| contest.metric.key());
    let known = distinct(keys.chain([FAILURES]));
    // If nothing but failures is compared, other metrics may exist.
    if let (None, Some(key)) = (chosen, metric)
        && known.len() > 1
        && !known.contains(&key)
    {
        let known = known.join(", ");
        return Err(format!("no metric `{key}` is compared: use one of {known}"));
    }
    // Of a daemon that failed too much for other metrics, the failures decide.
    let is_open = |daemon: usize| !contests.fair.iter().any(|group| group.daemon == daemon);
    let by_failures = contests.by_key(FAILURES);
    let of_open = by_failures.and_then(|contest| statement(&comparison, contest, is_open));
    let of_all = || statement(&comparison, chosen?, |_| true);
    Ok(match of_open.or_else(of_all) {
        Some(statement) => Judgement::Worse(statement),
        None if chosen.is_some_and(is_compared) => Judgement::Unproven,
        // Without a failure there is nothing to show.
        None if metric == Some(FAILURES) && by_failures.is_none() => Judgement::Unproven,
        None => Judgement::NotCompared,
    })
}

/// Returns true if a daemon is compared with its control by a metric.
fn is_compared(contest: &Contest<'_>) -> bool {
    let mut entries = contest.ranked.iter();
    let is_compared =
        entries.any(|one| one.base.is_some() && contest.to_daemon(one.daemon).is_some());
    is_compared && contest.limited.is_empty()
}

/// Returns the statement that one of some daemons is worse by a metric, if one is.
fn statement(
    comparison: &Comparison<'_>,
    contest: &Contest<'_>,
    is_asked: impl Fn(usize) -> bool,
) -> Option<String> {
    let asked = contest.ranked.iter().filter(|one| is_asked(one.daemon));
    let mut worse = asked.filter_map(|entry| {
        let control = comparison.daemon(contest.ranked[entry.base?].daemon);
        let (change, finding) = contest.to_daemon(entry.daemon)?;
        let name = comparison.daemon(entry.daemon);
        let (noun, change) = (&contest.metric.column.head, described(change, &finding));
        let is_worse = matches!(finding.word, Word::Worse(_)) && contest.limited.is_empty();
        is_worse.then(|| format!("{noun} of {name} is {change}, against {control}"))
    });
    worse.next()
}

/// Returns why the figures of a daemon count for nothing, if that is its own doing: it broke down, failed more than this share
/// of its operations, in percent, or was overloaded.
fn breaks(group: &Repetitions<'_>, most_failed_pct: f64) -> Option<String> {
    let failed_pct = group.failed_pct();
    let overload = || {
        group
            .counted()
            .into_iter()
            .find_map(|run| Some(run.overload()?.to_owned()))
    };
    let failed = || {
        let pct = units::percent(failed_pct);
        (failed_pct > most_failed_pct).then(|| format!("{pct} of its operations failed"))
    };
    let broken = group.breakdown().map(str::to_owned);
    broken.or_else(failed).or_else(overload)
}
