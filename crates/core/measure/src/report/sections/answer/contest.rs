//! The comparison of all daemons by one metric, as a sentence with ratio, interval and conclusion.

use super::deciding::Deciding;
use crate::metrics::Better;
use crate::ratio::{Conclusion, RUNS_FOR_A_CONCLUSION, Ratio, holm_conclusions};
use crate::report::compare::ratio;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::facts::counted;
use crate::summary::SummaryStats;
use crate::units;
use crate::warning::{Kind, Severity};

/// Runs that a comparison should have at least: fewer say little about the variation from run to run.
const ENOUGH: usize = 5;
/// From this factor on, a change is a factor; below, it is a percentage.
const FACTOR: f64 = 2.0;
/// Words for the daemon that ranks last, and for the last one that has enough runs.
const LAST: &str = "last";
const LAST_COMPARED: &str = "last compared";
/// Maximum number of daemons that a sentence names as equal.
const NAMES: usize = 3;

/// The daemons that have a metric, ordered by it.
pub(super) struct Contest<'m, 'a> {
    pub(super) metric: &'m Deciding<'a>,
    /// The best first.
    pub(super) ranked: Vec<Entry>,
    /// Each daemon against each that ranks below it.
    pairs: Vec<Pair>,
    /// Daemons without the metric.
    unknown: Vec<usize>,
    /// Daemons against which the driver had no CPU time left.
    limited: Vec<usize>,
}

pub(super) struct Entry {
    pub(super) daemon: usize,
    pub(super) median: f64,
}

/// Two entries by rank, and the ratio of the better to the worse.
struct Pair {
    ranks: (usize, usize),
    ratio: Ratio,
    /// Medians of both, over the runs with the same number.
    medians: [f64; 2],
    /// Lowest and highest ratio of runs with the same number.
    range: (f64, f64),
    runs: usize,
    conclusion: Conclusion,
}

impl<'m, 'a> Contest<'m, 'a> {
    /// Compares the groups by each metric that at least two of them have. All conclusions hold together (Holm), over
    /// every pair of daemons: which pair a sentence is about follows from the figures.
    pub(super) fn all(metrics: &'m [Deciding<'a>], groups: &[Repetitions<'_>]) -> Vec<Self> {
        let contests = metrics.iter().map(|metric| Self::new(metric, groups));
        let mut contests: Vec<Self> = contests
            .filter(|contest| contest.ranked.len() > 1)
            .collect();
        let pairs = contests.iter().flat_map(|contest| {
            let is_lower_better = contest.metric.column.better == Better::Lower;
            let pairs = contest.pairs.iter();
            pairs.map(move |pair| (pair.ratio, is_lower_better))
        });
        let conclusions = holm_conclusions(&pairs.collect::<Vec<_>>());
        let pairs = contests.iter_mut().flat_map(|contest| &mut contest.pairs);
        for (pair, conclusion) in pairs.zip(conclusions) {
            pair.conclusion = conclusion;
        }
        contests
    }

    fn new(metric: &'m Deciding<'a>, groups: &[Repetitions<'_>]) -> Self {
        let mut known: Vec<(&Repetitions<'_>, f64)> = Vec::new();
        let mut unknown = Vec::new();
        for repeated in groups {
            match metric.median(&repeated.counted()) {
                Some(median) => known.push((repeated, median)),
                None => unknown.push(repeated.daemon),
            }
        }
        known.sort_by(|(_, one), (_, other)| match metric.column.better {
            Better::Lower => one.total_cmp(other),
            _ => other.total_cmp(one),
        });
        let mut pairs = Vec::new();
        for (rank, (better, _)) in known.iter().enumerate() {
            for (offset, (worse, _)) in known[rank + 1..].iter().enumerate() {
                let ranks = (rank, rank + 1 + offset);
                pairs.extend(Pair::new(metric, ranks, better, worse));
            }
        }
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
            metric,
            limited: limited.map(|(repeated, _)| repeated.daemon).collect(),
            ranked: known
                .iter()
                .map(|(repeated, median)| Entry {
                    daemon: repeated.daemon,
                    median: *median,
                })
                .collect(),
            pairs,
            unknown,
        }
    }

    /// Returns the pair of the best daemon and the one with a rank.
    fn against(&self, rank: usize) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.ranks == (0, rank))
    }

    /// Returns the ranks of the daemons that the best one cannot be told from, and of the others.
    fn ranks(&self) -> (Vec<usize>, Vec<usize>) {
        let is_close = |rank: &usize| {
            self.against(*rank)
                .is_none_or(|pair| pair.conclusion != Conclusion::Better)
        };
        (1..self.ranked.len()).partition(is_close)
    }

    /// Returns true if a daemon has too few runs for a conclusion, unlike another one.
    fn is_short(&self, rank: usize) -> bool {
        let is_few = |pair: &Pair| pair.runs < RUNS_FOR_A_CONCLUSION;
        let mut pairs = (1..self.ranked.len()).filter_map(|other| self.against(other));
        pairs.any(|pair| !is_few(pair)) && self.against(rank).is_none_or(is_few)
    }

    /// Returns the best daemon and those that cannot be told from it. There are none if that is every daemon, or if the
    /// driver limited a figure.
    pub(super) fn leaders(&self) -> Vec<usize> {
        let (close, worse) = self.ranks();
        if worse.is_empty() || !self.limited.is_empty() {
            return Vec::new();
        }
        let close = close.into_iter().filter(|rank| !self.is_short(*rank));
        let ranks = [0].into_iter().chain(close);
        ranks.map(|rank| self.ranked[rank].daemon).collect()
    }

    /// Returns the number of repetitions that may settle the comparison, if it is open.
    pub(super) fn open(&self) -> Option<usize> {
        if !self.limited.is_empty() {
            return None;
        }
        let (close, _) = self.ranks();
        let pairs = close.into_iter().filter_map(|rank| self.against(rank));
        let open = pairs.filter(|pair| !pair.ratio.is_irrelevant());
        open.map(|pair| ENOUGH.max(2 * pair.runs)).max()
    }

    /// Says which daemon is better, by how much and how sure, or that there is no evidence and what to do.
    pub(super) fn sentence(&self, comparison: &Comparison<'_>) -> String {
        let name = |rank: &usize| comparison.daemon(self.ranked[*rank].daemon);
        let mut sentence = if !self.limited.is_empty() {
            let limited = self.limited.iter().map(|daemon| comparison.daemon(*daemon));
            let limited = listed(&limited.collect::<Vec<_>>());
            let noun = &self.metric.column.head;
            format!(
                "{noun} not comparable: the driver had no CPU time left against {limited}: run again with more --threads"
            )
        } else {
            let (close, worse) = self.ranks();
            let (few, close): (Vec<usize>, Vec<usize>) =
                close.into_iter().partition(|rank| self.is_short(*rank));
            let last = if few.is_empty() { LAST } else { LAST_COMPARED };
            let mut sentence = if close.is_empty() {
                self.best(&worse, last, &name)
            } else {
                self.undecided(&close, &worse, last, &name)
            };
            if !few.is_empty() {
                let names = listed(&few.iter().map(name).collect::<Vec<_>>());
                let repeat = self
                    .open()
                    .map(|repeat| format!(": run again with --repeat {repeat}"));
                let repeat = repeat.filter(|_| !sentence.contains("--repeat"));
                sentence.push_str(&format!(
                    "; too few valid runs of {names}{}",
                    repeat.unwrap_or_default()
                ));
            }
            sentence
        };
        if !self.unknown.is_empty() {
            let unknown = self.unknown.iter().map(|daemon| comparison.daemon(*daemon));
            let unknown = listed(&unknown.collect::<Vec<_>>());
            sentence.push_str(&format!("; not measured of {unknown}"));
        }
        sentence
    }

    /// Describes the best daemon against the next and the last one.
    fn best(&self, worse: &[usize], position: &str, name: &dyn Fn(&usize) -> String) -> String {
        let value = self.metric.described(self.ranked[0].median);
        let against = |rank: usize, position: &str| {
            let pair = self.against(rank)?;
            let (change, interval) = self.change(pair);
            let (word, name) = (self.metric.word(), name(&rank));
            let certainty = match position {
                "" => format!("{interval}, {}", runs(pair.runs)),
                position => format!("{position}; {interval}"),
            };
            Some(format!("{change} {word} than {name} ({certainty})"))
        };
        let (&next, last) = match worse {
            [only] => {
                let against = against(*only, "").unwrap_or_default();
                return format!("{} is better: {value}, {against}", name(&0));
            }
            [next, .., last] => (next, *last),
            [] => return String::new(),
        };
        let parts: Vec<String> = [against(next, "next"), against(last, position)]
            .into_iter()
            .flatten()
            .collect();
        let compared = [next, last].map(|rank| self.against(rank).map_or(0, |pair| pair.runs));
        let fewest = compared.into_iter().min().unwrap_or(0);
        format!(
            "{} is best: {value}, {}; {}",
            name(&0),
            parts.join(", "),
            runs(fewest)
        )
    }

    /// Describes the daemons that cannot be told from the best one, and the distance of the last one.
    fn undecided(
        &self,
        close: &[usize],
        worse: &[usize],
        position: &str,
        name: &dyn Fn(&usize) -> String,
    ) -> String {
        let mut names: Vec<String> = [0].iter().chain(close).map(name).collect();
        if names.len() > NAMES {
            let more = names.len() + 1 - NAMES;
            names.truncate(NAMES - 1);
            names.push(format!("{more} others"));
        }
        let noun = &self.metric.column.head;
        let joined = |medians: [f64; 2]| {
            let values = medians.map(|value| self.metric.number(value));
            values.join(if names.len() > 2 { " to " } else { " and " })
        };
        let pair = close.iter().rev().find_map(|rank| self.against(*rank));
        let Some(pair) = pair else {
            let last = close[close.len() - 1];
            let values = joined([0, last].map(|rank| self.ranked[rank].median));
            let names = listed(&names);
            return format!("{names}: too little {noun} to compare ({values})");
        };
        // Ratio and values are of the same runs.
        let values = joined(pair.medians);
        let [low, high] = self.factors(pair);
        let range = match pair.runs {
            1 => String::new(),
            _ => format!(", {}–{}", times(low), times(high)),
        };
        let ratio = times(self.as_factor(pair.ratio.ratio));
        let count = match pair.runs {
            1 => "; 1 run is too few".to_owned(),
            few if few < RUNS_FOR_A_CONCLUSION => format!("; {few} runs are too few"),
            enough => format!(", {}", runs(enough)),
        };
        let figures = format!("{values}: {ratio} ×{range}{count}");
        let evidence = match self.open() {
            None => {
                format!("no evidence of a difference in {noun}, and less than 3 % ({figures})")
            }
            Some(repeat) => format!(
                "no evidence of a difference in {noun} ({figures}): run again with --repeat {repeat}"
            ),
        };
        let others = worse.last().and_then(|rank| {
            let (change, interval) = self.change(self.against(*rank)?);
            let word = self.metric.word();
            Some(format!(
                "; {} has {change} {word} than {} ({position}; {interval})",
                name(&0),
                name(rank)
            ))
        });
        format!(
            "{}: {evidence}{}",
            listed(&names),
            others.unwrap_or_default()
        )
    }

    /// Formats the change from a worse daemon to the best and its interval: `12.1 ×` and `12.0–12.3 ×`, `20 %` and
    /// `19–21 %`.
    fn change(&self, pair: &Pair) -> (String, String) {
        let factor = self.as_factor(pair.ratio.ratio);
        let ends = self.factors(pair);
        if factor >= FACTOR {
            let [low, high] = ends.map(times);
            return (format!("{} ×", times(factor)), format!("{low}–{high} ×"));
        }
        let share = |factor: f64| match self.metric.column.better {
            Better::Lower => percent(1.0 - 1.0 / factor),
            _ => percent(factor - 1.0),
        };
        let [low, high] = ends.map(share);
        (format!("{} %", share(factor)), format!("{low}–{high} %"))
    }

    /// Returns the ends of the interval as factors, or the lowest and highest ratio if there is none.
    fn factors(&self, pair: &Pair) -> [f64; 2] {
        let (low, high) = pair.ratio.interval.unwrap_or(pair.range);
        let mut ends = [low, high].map(|ratio| self.as_factor(ratio));
        ends.sort_by(f64::total_cmp);
        ends
    }

    /// Returns a ratio of the better daemon to the worse as the factor by which it is better.
    fn as_factor(&self, ratio: f64) -> f64 {
        match self.metric.column.better {
            Better::Lower => 1.0 / ratio,
            _ => ratio,
        }
    }
}

impl Pair {
    fn new(
        metric: &Deciding<'_>,
        ranks: (usize, usize),
        better: &Repetitions<'_>,
        worse: &Repetitions<'_>,
    ) -> Option<Self> {
        let ratio = ratio(|run| metric.column.value(run), worse, better, true)?;
        let pairs = worse.pairs(better).filter_map(|(worse, better)| {
            let (worse, better) = (metric.column.value(worse)?, metric.column.value(better)?);
            (worse > 0.0 && better > 0.0).then_some((better, worse))
        });
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let betters = SummaryStats::from_values(pairs.iter().map(|(better, _)| *better))?;
        let worses = SummaryStats::from_values(pairs.iter().map(|(_, worse)| *worse))?;
        let ratios = pairs.iter().map(|(better, worse)| better / worse);
        let stats = SummaryStats::from_values(ratios)?;
        Some(Self {
            ranks,
            ratio,
            medians: [betters.median, worses.median],
            range: (stats.min, stats.max),
            runs: stats.runs,
            conclusion: Conclusion::NoEvidence,
        })
    }
}

/// Joins names: `a, b and c`.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn runs(count: usize) -> String {
    counted(count as u64, "run", "runs")
}

/// Formats a factor: `1.05`, `4.2`, `56`.
fn times(factor: f64) -> String {
    match factor {
        factor if factor < FACTOR => format!("{factor:.2}"),
        factor if factor < 9.95 => units::tenths(factor),
        factor => units::whole(factor),
    }
}

/// Formats a share as percent, without the sign: `4.2`, `20`.
fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent < 9.95 => units::tenths(percent),
        percent => units::whole(percent),
    }
}
