//! The one comparison behind answer, tables and marks: daemons by each metric that decides, and what the runs prove.
//! They are compared with the best of them (Hsu), or each with a control that the user names.

use std::collections::BTreeMap;

use super::compare::{self, Fair, change};
use super::comparison::{Comparison, Repetitions};
use super::deciding::{self, Deciding};
use crate::change::{Change, ChangeScale, FEWEST_RUNS, Family, Finding, Word};
use crate::metrics::Better;
use crate::result::RunResult;
use crate::units;
use crate::warning::{Kind, Severity};

/// Runs that a comparison should have at least: fewer say little about the variation from run to run.
const ENOUGH: usize = 5;

/// The comparison of daemons at one level.
#[derive(Debug)]
pub(super) struct Contests<'a> {
    pub(super) level: &'a str,
    /// The groups that can be compared by all metrics.
    pub(super) fair: Vec<Repetitions<'a>>,
    /// The other daemons, with the reason.
    pub(super) excluded: Vec<(usize, String)>,
    /// The comparison by each metric that at least two daemons have, the primary one first. Failures are compared only if
    /// there are some, or if they are the primary metric.
    pub(super) all: Vec<Contest<'a>>,
}

/// The daemons that have a metric, ordered by it.
#[derive(Debug)]
pub(super) struct Contest<'a> {
    pub(super) metric: Deciding<'a>,
    /// The best first; or the controls, and then the others from the best on.
    pub(super) ranked: Vec<Entry>,
    /// True if the daemons are compared with controls, and not with the first.
    pub(super) has_controls: bool,
    /// Each of the daemons with its control, or with the first.
    pairs: Vec<Pair>,
    /// Daemons without the metric.
    pub(super) unknown: Vec<usize>,
    /// Daemons against which the driver had no CPU time left.
    pub(super) limited: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) daemon: usize,
    pub(super) mean: f64,
    /// Rank of its control, or of the best daemon; `None` for these.
    pub(super) base: Option<usize>,
}

/// A change of a metric and what the runs prove of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// Rank of the other daemon.
    rank: usize,
    /// From the other daemon to the best, or from the control to the other daemon.
    pub(super) change: Change,
    pub(super) finding: Finding,
    /// The probability with which the finding may be wrong.
    error_rate: f64,
}

impl Pair {
    fn new(rank: usize, change: Change, metric: &Deciding<'_>, error_rate: f64) -> Self {
        Self {
            rank,
            change,
            finding: change.finding(metric.is_lower_better(), error_rate),
            error_rate,
        }
    }

    /// Returns the number of runs that would show a change of the margin.
    pub(super) fn needed(&self) -> Option<usize> {
        self.change.needed(self.error_rate)
    }
}

impl<'a> Contests<'a> {
    /// Compares the daemons at a level. All words hold together.
    pub(super) fn new(comparison: &Comparison<'a>, level: &'a str) -> Self {
        let Fair {
            by_all: fair,
            by_failures,
            excluded,
        } = compare::fair(comparison, level);
        let metrics = deciding::metrics(comparison, &fair);
        let contests = metrics.into_iter().map(|metric| {
            let of_failures = metric.is_failures();
            let groups = if of_failures { &by_failures } else { &fair };
            Contest::new(metric, groups, comparison)
        });
        let mut all: Vec<Contest<'a>> = contests.filter(Contest::has_words).collect();
        let mut family = Family {
            secondary: all
                .iter()
                .filter(|contest| !contest.metric.is_primary)
                .count(),
            comparisons: 0,
            looks: comparison.suite.looks,
        };
        for contest in &mut all {
            family.comparisons = contest.pairs.len();
            contest.judge(&family);
        }
        Self {
            level,
            fair,
            excluded,
            all,
        }
    }

    /// Returns the comparison by the metric with this key.
    pub(super) fn by_key(&self, key: &str) -> Option<&Contest<'a>> {
        self.all.iter().find(|contest| contest.metric.key() == key)
    }

    /// Returns the daemons that lead by each metric, by its key.
    pub(super) fn leaders(&self) -> BTreeMap<&str, Vec<usize>> {
        let leaders = self.all.iter();
        leaders
            .map(|contest| (contest.metric.key(), contest.leaders()))
            .collect()
    }

    /// Returns the number of repetitions that may settle what is open, planned by the primary metric.
    pub(super) fn open(&self) -> Option<usize> {
        self.all.first()?.open()
    }
}

impl<'a> Contest<'a> {
    fn new(metric: Deciding<'a>, groups: &[Repetitions<'_>], comparison: &Comparison<'_>) -> Self {
        let has_controls = comparison.has_controls();
        let mut known: Vec<(&Repetitions<'_>, f64)> = Vec::new();
        let mut unknown = Vec::new();
        for repeated in groups {
            match metric.mean(&repeated.counted()) {
                Some(mean) => known.push((repeated, mean)),
                None => unknown.push(repeated.daemon),
            }
        }
        known.sort_by(|(_, one), (_, other)| match metric.column.better {
            Better::Lower => one.total_cmp(other),
            _ => other.total_cmp(one),
        });
        known.sort_by_key(|(group, _)| has_controls && !comparison.is_control(group.daemon));
        let base = |rank: usize| match comparison.controls.get(known[rank].0.daemon) {
            None => (rank > 0).then_some(0),
            Some(control) => known
                .iter()
                .position(|(group, _)| Some(group.daemon) == *control),
        };
        let pairs = (0..known.len()).filter_map(|rank| {
            let (first, other) = (known[base(rank)?].0, known[rank].0);
            let figure = |run: &RunResult| metric.figure(run);
            let scale = metric.column.scale;
            let change = if has_controls {
                let is_in_turn = comparison.is_in_turn(first.daemon, other.daemon);
                change(scale, figure, first, other, is_in_turn)
            } else {
                change(scale, figure, other, first, true)
            }?;
            Some(Pair::new(rank, change, &metric, 1.0))
        });
        let pairs = pairs.collect();
        let limited = known.iter().filter(|(repeated, _)| {
            metric.follows_driver()
                && repeated.counted().iter().any(|run| {
                    let mut warnings = run.warnings.iter();
                    warnings.any(|warning| {
                        warning.kind == Kind::GeneratorCpuBound && warning.severity > Severity::Note
                    })
                })
        });
        Self {
            limited: limited.map(|(repeated, _)| repeated.daemon).collect(),
            ranked: (0..known.len())
                .map(|rank| Entry {
                    daemon: known[rank].0.daemon,
                    mean: known[rank].1,
                    base: base(rank),
                })
                .collect(),
            has_controls,
            pairs,
            unknown,
            metric,
        }
    }

    /// Returns true if a word can be said about a daemon: there are two of them, and failures to compare.
    fn has_words(&self) -> bool {
        let has_any = self.metric.is_primary || self.ranked.iter().any(|entry| entry.mean > 0.0);
        let has_two = self.ranked.iter().any(|entry| entry.base.is_some());
        has_two && (has_any || !self.metric.is_failures())
    }

    fn judge(&mut self, family: &Family) {
        let error_rate = family.error_rate(self.metric.is_primary);
        for pair in &mut self.pairs {
            *pair = Pair::new(pair.rank, pair.change, &self.metric, error_rate);
        }
    }

    /// Returns the pair of the daemon with a rank and the best, or its control.
    pub(super) fn against(&self, rank: usize) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.rank == rank)
    }

    /// Returns the change from the first daemon, or from its control, to another one.
    pub(super) fn to_daemon(&self, daemon: usize) -> Option<(f64, Finding)> {
        let mut ranked = self.ranked.iter();
        let pair = self.against(ranked.position(|entry| entry.daemon == daemon)?)?;
        let (change, finding) = (pair.change.value(), pair.finding);
        Some(if self.has_controls {
            (change, finding)
        } else {
            (finding.scale.reversed(change), finding.reversed())
        })
    }

    /// Returns the ranks of the daemons that the best one cannot be told from, and of the others.
    pub(super) fn ranks(&self) -> (Vec<usize>, Vec<usize>) {
        let is_close = |rank: &usize| {
            let pair = self.against(*rank);
            pair.is_none_or(|pair| !matches!(pair.finding.word, Word::Better(_)))
        };
        (1..self.ranked.len()).partition(is_close)
    }

    /// Returns true if a daemon has too few runs for a word, unlike another one.
    pub(super) fn is_short(&self, rank: usize) -> bool {
        let is_few = |pair: &Pair| pair.change.runs < FEWEST_RUNS;
        let mut pairs = (1..self.ranked.len()).filter_map(|other| self.against(other));
        pairs.any(|pair| !is_few(pair)) && self.against(rank).is_none_or(is_few)
    }

    /// Returns the best daemon and those that cannot be told from it. There are none if that is every daemon, or if the
    /// driver limited a figure. With controls they are the daemons that are better, and the controls that are better than all of theirs.
    fn leaders(&self) -> Vec<usize> {
        if self.has_controls {
            let leads = |rank: &usize| {
                let is_of =
                    |pair: &&Pair| pair.rank == *rank || self.ranked[pair.rank].base == Some(*rank);
                let mut pairs = self.pairs.iter().filter(is_of).peekable();
                let is_ahead = |pair: &Pair| match pair.finding.word {
                    Word::Better(_) => pair.rank == *rank,
                    Word::Worse(_) => pair.rank != *rank,
                    _ => false,
                };
                pairs.peek().is_some() && pairs.all(is_ahead) && self.limited.is_empty()
            };
            let ranks = (0..self.ranked.len()).filter(leads);
            return ranks.map(|rank| self.ranked[rank].daemon).collect();
        }
        let (close, worse) = self.ranks();
        if worse.is_empty() || !self.limited.is_empty() {
            return Vec::new();
        }
        let close = close.into_iter().filter(|rank| !self.is_short(*rank));
        let ranks = [0].into_iter().chain(close);
        ranks.map(|rank| self.ranked[rank].daemon).collect()
    }

    /// Returns the number of repetitions that may settle the comparison, if it is open and they are worth planning. It
    /// follows from the variance of the runs, not from their difference.
    pub(super) fn open(&self) -> Option<usize> {
        if !self.limited.is_empty() {
            return None;
        }
        let needed = self
            .pairs
            .iter()
            .filter_map(|pair| match pair.finding.word {
                Word::TooFewRuns => Some(ENOUGH),
                Word::Undecided => pair.needed().filter(|runs| *runs > pair.change.runs),
                _ => None,
            });
        needed.max()
    }
}

/// Describes a change: `better by at least 3 %: −12.1 % [−14.0, −10.1]`; from a factor of two on as a factor, and a
/// difference of shares in points.
pub(super) fn described(change: f64, finding: &Finding) -> String {
    let scale = finding.scale;
    let is_factor = scale == ChangeScale::Ratio && change.ln().abs() >= 2.0_f64.ln();
    let show: fn(f64) -> String = match scale {
        ChangeScale::Ratio if is_factor => |value| format!("× {}", units::significant(value)),
        ChangeScale::Ratio => percent,
        ChangeScale::Difference => {
            |points| format!("{} points", signed(points, units::significant))
        }
    };
    let interval = finding.interval.map_or(String::new(), |(low, high)| {
        let number = |value: f64| {
            let units = ["× ", " %", " points"].into_iter();
            units.fold(show(value), |text, unit| text.replace(unit, ""))
        };
        format!(" [{}, {}]", number(low), number(high))
    });
    let word = match finding.word {
        Word::Better(size) => format!("better{}", size.words(scale)),
        Word::Worse(size) => format!("worse{}", size.words(scale)),
        Word::Same => format!("the same within {}", scale.margin_in_words()),
        Word::Undecided => "undecided".to_owned(),
        Word::TooFewRuns => "too few runs".to_owned(),
    };
    let smallest = finding.smallest.filter(|_| finding.word == Word::Undecided);
    let smallest = smallest.map_or(String::new(), |smallest| {
        let change = match scale {
            ChangeScale::Ratio => percent(1.0 + smallest),
            ChangeScale::Difference => show(smallest),
        };
        format!(", {change} would show")
    });
    format!("{word}: {}{interval}{smallest}", show(change))
}

fn percent(ratio: f64) -> String {
    format!("{} %", signed((ratio - 1.0) * 100.0, units::tenths))
}

/// Formats a change with its sign: `−12.1`, `±0.0`.
fn signed(change: f64, show: fn(f64) -> String) -> String {
    let size = show(change.abs());
    let sign = match change {
        _ if size.chars().all(|letter| "0.".contains(letter)) => "±",
        change if change < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{size}")
}
