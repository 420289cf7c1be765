//! The verdict on daemons that were compared with a control, for programs that act on it.

use super::comparison::{Comparison, Repetitions};
use super::contest::{Contests, described};
use super::sections::common_level;
use crate::change::Word;
use crate::suite::Suite;

/// Returns the statement that a daemon is worse than the control of its suite at the level of the answer, if it is: by the
/// metric with a key such as `response.p99`, or by the primary one. Whatever it failed to do is worse, if the control did
/// not fail.
///
/// # Errors
/// No two daemons have a figure of the metric, with the metrics that they have.
pub fn worse_than_control(suite: &Suite, metric: Option<&str>) -> Result<Option<String>, String> {
    let comparison = Comparison::new(suite);
    let level = common_level(&comparison).filter(|_| comparison.has_controls());
    let Some(level) = level else {
        return Ok(None);
    };
    let groups = comparison.at(level);
    let pairs = groups.iter().filter_map(|group| {
        let control = comparison.controls[group.daemon]?;
        let mut all = groups.iter();
        Some((group, all.find(|other| other.daemon == control)?))
    });
    for (group, control) in pairs {
        if let (Some(reason), None) = (breaks(group), breaks(control)) {
            let [name, control] = [group, control].map(|group| comparison.daemon(group.daemon));
            return Ok(Some(format!("{name}: {reason}, unlike {control}")));
        }
    }
    let contests = Contests::new(&comparison, level);
    let mut all = contests.all.iter();
    let chosen = match metric {
        None => all.next(),
        Some(key) => all.find(|contest| contest.metric.key() == key),
    };
    let Some(contest) = chosen else {
        let keys: Vec<&str> = contests
            .all
            .iter()
            .map(|contest| contest.metric.key())
            .collect();
        return match metric {
            Some(metric) if !keys.is_empty() => Err(format!(
                "no metric `{metric}` is compared: use one of {}",
                keys.join(", ")
            )),
            _ => Ok(None),
        };
    };
    let mut worse = contest.ranked.iter().filter_map(|entry| {
        let control = comparison.daemon(contest.ranked[entry.base?].daemon);
        let (ratio, finding) = contest.to_daemon(entry.daemon)?;
        let name = comparison.daemon(entry.daemon);
        let (noun, change) = (&contest.metric.column.head, described(ratio, &finding));
        let is_worse = matches!(finding.word, Word::Worse(_)) && contest.limited.is_empty();
        is_worse.then(|| format!("{noun} of {name} is {change}, against {control}"))
    });
    Ok(worse.next())
}

/// Returns why the figures of a daemon count for nothing, if that is its own doing.
fn breaks(group: &Repetitions<'_>) -> Option<String> {
    let overload = || {
        group
            .counted()
            .into_iter()
            .find_map(|run| Some(run.overload()?.to_owned()))
    };
    let failed = group.has_failures().then(|| "clients failed".to_owned());
    failed.or_else(overload)
}
