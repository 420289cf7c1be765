//! The runs of a suite grouped by daemon and level.

use serde_json::Value;

use super::columns;
use super::distinct;
use super::plain;
use super::roles;
use crate::result::{RunResult, ThresholdResult};
use crate::suite::Suite;
use crate::units;
use crate::warning::{Kind, Verdict};

/// Largest share of failed operations with which a daemon is compared by other metrics, percent. Percentiles are over the
/// operations that succeeded, up to p99: where more than 1 % failed, a p99 leaves out what it is about.
pub(super) const MOST_FAILED_PCT: f64 = 1.0;
/// The ways in which a daemon breaks down, in words.
pub(super) const BREAKDOWNS: [(Kind, &str); 2] = [
    (Kind::DaemonDied, "it exited"),
    (Kind::NothingSucceeded, "no operation succeeded"),
];

/// A suite with its daemons and levels in order.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    pub(super) suite: &'a Suite,
    /// Daemons in the order of first appearance, but controls first.
    pub(super) daemons: Vec<&'a str>,
    /// For each daemon the one that it is compared with, if it has one; empty if they are compared with the best.
    pub(super) controls: Vec<Option<usize>>,
    /// Numeric levels by size, then the others in the order of first appearance.
    pub(super) levels: Vec<&'a str>,
}

/// The runs of one daemon at one level, which are repetitions of each other.
#[derive(Debug, Clone)]
pub(super) struct Repetitions<'a> {
    /// Index of the daemon.
    pub(super) daemon: usize,
    /// The level's name.
    pub(super) level: &'a str,
    /// At least one run.
    pub(super) runs: Vec<&'a RunResult>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(suite: &'a Suite) -> Self {
        let measured = suite.results.iter().map(|run| run.daemon.name.as_str());
        let unreached = suite.unreached.iter().map(|level| level.daemon.as_str());
        let mut levels = distinct(suite.results.iter().map(|run| run.level.as_str()));
        levels.sort_by_key(|level| sort_key(level));
        let mut daemons = distinct(measured.chain(unreached));
        let control_of = |name: &str| match suite.side(name) {
            Some(side) => side.control.as_deref(),
            None => suite.control.as_deref().filter(|control| *control != name),
        };
        let names = daemons.clone();
        let is_control = |name: &&str| {
            let mut controls = names.iter().filter_map(|other| control_of(other));
            controls.any(|control| control == *name)
        };
        daemons.sort_by_key(|name| !is_control(name));
        let index_of = |control| daemons.iter().position(|name| *name == control);
        let controls = daemons.iter().map(|name| index_of(control_of(name)?));
        let mut controls: Vec<Option<usize>> = controls.collect();
        if controls.iter().all(Option::is_none) {
            controls.clear();
        }
        Self {
            suite,
            daemons,
            controls,
            levels,
        }
    }

    /// Returns true if daemons are compared with controls, and not with the best.
    pub(super) fn has_controls(&self) -> bool {
        !self.controls.is_empty()
    }

    /// Returns true if another daemon is compared with this one.
    pub(super) fn is_control(&self, daemon: usize) -> bool {
        self.controls.contains(&Some(daemon))
    }

    /// Returns the daemon that all others are compared with, if there is one.
    pub(super) fn only_control(&self) -> Option<usize> {
        let controls = distinct(self.controls.iter().flatten());
        match controls[..] {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Returns true if the runs of two daemons were made in turn, so that the runs of one number are a pair.
    pub(super) fn is_in_turn(&self, one: usize, other: usize) -> bool {
        let block = |daemon: usize| {
            let side = self.suite.side(self.daemons[daemon]);
            side.map(|side| side.block)
        };
        block(one) == block(other)
    }

    /// Returns the groups with runs, level by level, the daemons of a level next to each other.
    pub(super) fn all(&self) -> Vec<Repetitions<'a>> {
        self.levels
            .iter()
            .flat_map(|level| self.at(level))
            .collect()
    }

    pub(super) fn at(&self, level: &str) -> Vec<Repetitions<'a>> {
        (0..self.daemons.len())
            .filter_map(|daemon| self.repetitions(daemon, level))
            .collect()
    }

    pub(super) fn of_daemon(&self, daemon: usize) -> Vec<Repetitions<'a>> {
        self.levels
            .iter()
            .filter_map(|level| self.repetitions(daemon, level))
            .collect()
    }

    fn repetitions(&self, daemon: usize, level: &str) -> Option<Repetitions<'a>> {
        let name = self.daemons[daemon];
        let is_of = |run: &&RunResult| run.daemon.name == name && run.level == level;
        let runs: Vec<&RunResult> = self.suite.results.iter().filter(is_of).collect();
        Some(Repetitions {
            daemon,
            level: &runs.first()?.level,
            runs,
        })
    }

    /// Returns the indices of the daemons with runs.
    pub(super) fn measured(&self) -> impl Iterator<Item = usize> {
        (0..self.daemons.len()).filter(|daemon| !self.of_daemon(*daemon).is_empty())
    }

    /// Returns the name of a daemon for a table.
    pub(super) fn daemon(&self, daemon: usize) -> String {
        plain(self.daemons[daemon])
    }

    /// Names repetitions: `go-streaming at 1,000`.
    pub(super) fn group_name(&self, repeated: &Repetitions<'_>) -> String {
        let name = self.daemon(repeated.daemon);
        match repeated.level {
            "" => name,
            _ => format!("{name} at {}", repeated.level_name()),
        }
    }

    /// Names a run: `go-streaming at 1,000, run 2`; the only run of a group has no number.
    pub(super) fn run_name(&self, repeated: &Repetitions<'_>, index: usize) -> String {
        let run = match repeated.runs.len() {
            1 => String::new(),
            _ => format!(", run {}", index + 1),
        };
        format!("{}{run}", self.group_name(repeated))
    }

    /// Returns the daemons' names without an ending that all of them share: `go` for `go-streaming` next to
    /// `php-streaming`.
    pub(super) fn short_names(&self) -> Vec<String> {
        let ending = |name: &'a str| name.rfind('-').map(|dash| &name[dash..]);
        let first = self.daemons.first().and_then(|name| ending(name));
        let shared = first.filter(|first| {
            let mut names = self.daemons.iter();
            names.len() > 1 && names.all(|name| ending(name) == Some(first) && name != first)
        });
        let short = |name: &&str| plain(&name[..name.len() - shared.map_or(0, str::len)]);
        self.daemons.iter().map(short).collect()
    }

    pub(super) fn only_run(&self) -> Option<&'a RunResult> {
        match self.suite.results.as_slice() {
            [run] => Some(run),
            _ => None,
        }
    }

    /// Puts the name of a run before a text about it, unless it is the only run.
    pub(super) fn about(&self, repeated: &Repetitions<'_>, index: usize, text: &str) -> String {
        match self.only_run() {
            Some(_) => text.to_owned(),
            None => format!("{}: {text}", self.run_name(repeated, index)),
        }
    }

    /// Returns the series shown in the tables.
    pub(super) fn main_series(&self) -> Vec<&'a str> {
        roles::main_series(self.suite, self.series())
    }

    pub(super) fn series_label(&self, series: &str) -> String {
        roles::series_label(self.suite, series)
    }

    /// Returns every series of any run, in the driver's order.
    pub(super) fn series(&self) -> Vec<&'a str> {
        let results = self.suite.results.iter();
        distinct(results.flat_map(RunResult::series_names))
    }

    /// Returns the metric that decides by the plan of the runs, if all name the same.
    pub(super) fn primary(&self) -> Option<&'a str> {
        let results = self.suite.results.iter();
        let named = distinct(results.map(|run| run.plan.get("primary").and_then(Value::as_str)));
        match named[..] {
            [only] => only,
            _ => None,
        }
    }

    /// Returns the series to show if only one is shown: the headline of a driver, or the first main series.
    pub(super) fn headline(&self) -> Option<&'a str> {
        let main = self.main_series();
        let results = &self.suite.results;
        // Imported runs may lack the usual headline; a series that all runs have is preferred then.
        let imported = results.iter().any(|run| run.imported.is_some());
        let of_all = |name: &&&str| results.iter().all(|run| run.summary(name).is_some());
        let is_headline = |name: &&&str| roles::is_headline(self.suite, name);
        let mut names = main.iter();
        let shared = names.find(|name| imported && of_all(name));
        shared
            .or_else(|| main.iter().find(is_headline))
            .or(main.first())
            .copied()
    }
}

impl<'a> Repetitions<'a> {
    /// Returns the runs whose figures count in means, intervals and words: all but the INVALID ones.
    pub(super) fn counted(&self) -> Vec<&'a RunResult> {
        let runs = self.runs.iter().copied();
        runs.filter(|run| is_counted(run)).collect()
    }

    /// Returns the runs whose figures are shown: those that count, or the INVALID ones if there are no others.
    pub(super) fn shown(&self) -> Vec<&'a RunResult> {
        match self.counted() {
            none if none.is_empty() => self.runs.clone(),
            counted => counted,
        }
    }

    /// Returns the number of runs that are not shown, because they are INVALID and others are not.
    pub(super) fn left_out(&self) -> usize {
        self.runs.len() - self.shown().len()
    }

    /// Returns the runs that count with the runs of the same number of `other` that count.
    pub(super) fn pairs(
        &self,
        other: &Self,
    ) -> impl Iterator<Item = (&'a RunResult, &'a RunResult)> {
        let pairs = self.runs.iter().copied().zip(other.runs.iter().copied());
        pairs.filter(|(run, other)| is_counted(run) && is_counted(other))
    }

    /// Returns how the daemon broke down in a run, if it did. A daemon that exited, or served no client, also makes its run
    /// INVALID.
    pub(super) fn breakdown(&self) -> Option<&'static str> {
        let has = |kind| self.runs.iter().any(|run| run.has_warning(kind));
        let broken = BREAKDOWNS.into_iter().find(|(kind, _)| has(*kind));
        let mut counted = self.counted().into_iter();
        let is_idle = counted.any(|run| run.operations.started == 0);
        broken
            .map(|(_, what)| what)
            .or(is_idle.then_some("no operation began"))
    }

    /// Returns the mean share of failed operations in the runs that count, in percent.
    pub(super) fn failed_pct(&self) -> f64 {
        let counted = self.counted();
        columns::failed()
            .stats(&counted)
            .map_or(0.0, |stats| stats.mean)
    }

    /// Returns true if the daemon broke down, or failed too many operations to be compared by another metric.
    pub(super) fn has_failures(&self) -> bool {
        self.breakdown().is_some() || self.failed_pct() > MOST_FAILED_PCT
    }

    /// Returns the level's name for a table.
    pub(super) fn level_name(&self) -> String {
        level_name(self.level)
    }

    /// Groups the listed thresholds of the runs by their text.
    pub(super) fn thresholds(
        &self,
        is_listed: fn(&ThresholdResult) -> bool,
    ) -> Vec<(&'a str, Vec<&'a ThresholdResult>)> {
        let all = self.runs.iter().flat_map(|run| &run.thresholds);
        let listed: Vec<&ThresholdResult> = all.filter(|one| is_listed(one)).collect();
        let texts = distinct(listed.iter().map(|one| one.text.as_str())).into_iter();
        let grouped = texts.map(|text| {
            let same = listed.iter().filter(|one| one.text == text);
            (text, same.copied().collect())
        });
        grouped.collect()
    }
}

/// Returns true if the figures of a run count: the verdict of a run that does not is INVALID.
pub(super) fn is_counted(run: &RunResult) -> bool {
    run.verdict != Verdict::Invalid
}

/// Returns every run with its index among its repetitions.
pub(super) fn numbered<'r, 'a>(
    groups: &'r [Repetitions<'a>],
) -> impl Iterator<Item = (&'r Repetitions<'a>, usize, &'a RunResult)> {
    groups.iter().flat_map(|repeated| {
        let runs = repeated.runs.iter().enumerate();
        runs.map(move |(index, run)| (repeated, index, *run))
    })
}

pub(super) fn measured_values(thresholds: &[&ThresholdResult]) -> String {
    let values = thresholds.iter().map(|one| one.measured.as_deref());
    let values: Vec<&str> = values.map(|value| value.unwrap_or(units::NONE)).collect();
    plain(&values.join(", "))
}

/// Formats a level: `10,000`, `500-per-s`; results of older versions have none.
pub(super) fn level_name(level: &str) -> String {
    match level.parse::<u64>() {
        Ok(number) => units::count(number),
        Err(_) if level.is_empty() => units::NONE.to_owned(),
        Err(_) => plain(level),
    }
}

/// Returns the element ID of a level's section. Letters and digits are kept and all other characters are encoded by
/// their number, so no two IDs collide.
pub(super) fn level_id(level: &str) -> String {
    let letters = level.chars().map(|letter| match letter {
        '-' | '0'..='9' | 'a'..='z' | 'A'..='Z' => letter.to_string(),
        other => format!("_{:x}_", u32::from(other)),
    });
    format!("level-{}", letters.collect::<String>())
}

/// Returns the size of a level whose name is a number. Other levels have no order.
pub(super) fn size(level: &str) -> Option<f64> {
    let number = level.parse::<f64>().ok();
    number.filter(|number| number.is_finite() && *number >= 0.0)
}

/// Returns a sort key that puts numbers first, by size, and keeps the order of the rest.
fn sort_key(level: &str) -> (bool, u64) {
    // The bits of non-negative floats sort like the floats.
    size(level).map_or((true, 0), |number| (false, number.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_sort_as_numbers_and_the_others_stay_as_they_came() {
        let mut levels = ["10000", "burst", "900", "1000.5", "a-few"];
        levels.sort_by_key(|level| sort_key(level));
        assert_eq!(levels, ["900", "1000.5", "10000", "burst", "a-few"]);
    }
}
