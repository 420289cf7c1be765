//! The comparison of all daemons by one metric as a sentence: a word, values, ratio, interval, and what would decide.

use crate::change::{ChangeScale, FEWEST_RUNS, MARGIN, Size, Word};
use crate::metrics::Better;
use crate::report::comparison::Comparison;
use crate::report::contest::{Contest, Pair, described};
use crate::report::distinct;
use crate::report::facts::counted;
use crate::units;

/// From this factor on, a change is a factor; below, it is a percentage.
const FACTOR: f64 = 2.0;
/// Words for the daemon that ranks last, and for the last one that has enough runs.
const LAST: &str = "last";
const LAST_COMPARED: &str = "last compared";
/// Maximum number of daemons that a sentence names as equal.
const NAMES: usize = 3;

/// Says which daemon is better, by how much and how sure, or that the runs do not decide and what would.
pub(super) fn sentence(contest: &Contest<'_>, comparison: &Comparison<'_>) -> String {
    let writer = Writer {
        contest,
        comparison,
    };
    let mut sentence = writer.compared();
    if !contest.unknown.is_empty() {
        let unknown = writer.daemons(&contest.unknown);
        sentence.push_str(&format!("; not measured of {unknown}"));
    }
    sentence
}

struct Writer<'s, 'a> {
    contest: &'s Contest<'a>,
    comparison: &'s Comparison<'a>,
}

impl Writer<'_, '_> {
    fn name(&self, rank: usize) -> String {
        self.comparison.daemon(self.contest.ranked[rank].daemon)
    }

    fn daemons(&self, daemons: &[usize]) -> String {
        let names = daemons.iter().map(|daemon| self.comparison.daemon(*daemon));
        listed(&names.collect::<Vec<_>>())
    }

    fn compared(&self) -> String {
        if !self.contest.limited.is_empty() {
            return format!(
                "{} not comparable: the driver had no CPU time left against {}: run again with more --threads",
                self.contest.metric.column.head,
                self.daemons(&self.contest.limited)
            );
        }
        if self.contest.has_controls {
            return self.controlled();
        }
        let (close, worse) = self.contest.ranks();
        let (few, close): (Vec<usize>, Vec<usize>) = close
            .into_iter()
            .partition(|rank| self.contest.is_short(*rank));
        let last = if few.is_empty() { LAST } else { LAST_COMPARED };
        let mut sentence = if close.is_empty() {
            self.best(&worse, last)
        } else {
            self.close(&close, &worse, last)
        };
        if !few.is_empty() {
            let names = few.iter().map(|rank| self.name(*rank));
            let names = listed(&names.collect::<Vec<_>>());
            sentence.push_str(&format!("; too few valid runs of {names}"));
        }
        sentence
    }

    /// Describes each daemon against its control; the control is named once for those that share it.
    fn controlled(&self) -> String {
        let ranked = || self.contest.ranked.iter().enumerate();
        let controls = distinct(ranked().filter_map(|(_, entry)| entry.base));
        let against = controls.into_iter().map(|control| {
            let others = ranked().filter(|(_, entry)| entry.base == Some(control));
            let others: Vec<String> = others.map(|(rank, _)| self.to_other(rank)).collect();
            format!("{}, against {}", others.join("; "), self.name(control))
        });
        against.collect::<Vec<_>>().join("; ")
    }

    /// Describes a daemon against its control.
    fn to_other(&self, rank: usize) -> String {
        let (name, noun) = (self.name(rank), &self.contest.metric.column.head);
        let Some(pair) = self.contest.against(rank) else {
            return format!("{name}: too little {noun} to compare");
        };
        let change = described(pair.change.value(), &pair.finding);
        let means = pair
            .change
            .means
            .map(|mean| self.contest.metric.number(mean));
        let verb = match pair.finding.word {
            Word::TooFewRuns => "has",
            _ => "is",
        };
        let needed = match (pair.finding.word, pair.needed()) {
            (Word::Undecided, Some(needed)) if needed > pair.change.runs => {
                format!("; {} needs about {needed} runs", margin(pair))
            }
            _ => String::new(),
        };
        format!(
            "{noun} of {name} {verb} {change} ({}, {}){needed}",
            means.join(" → "),
            runs(pair.change.runs)
        )
    }

    /// Describes the best daemon against the next and the last one.
    fn best(&self, worse: &[usize], position: &str) -> String {
        let value = self.contest.metric.described(self.contest.ranked[0].mean);
        let name = self.name(0);
        if let [only] = worse {
            let Some(pair) = self.contest.against(*only) else {
                return String::new();
            };
            let (change, interval) = self.change(pair);
            let size = match pair.finding.word {
                Word::Better(size) if !is_factor(pair) || size == Size::BelowMargin => {
                    size.words(pair.change.scale)
                }
                _ => String::new(),
            };
            return format!(
                "{name} is better{size}: {value}, {change} {} than {} ({interval}, {})",
                self.contest.metric.word(),
                self.name(*only),
                runs(pair.change.runs)
            );
        }
        let [next, .., last] = *worse else {
            return String::new();
        };
        let against = |rank: usize, position: &str| {
            let (change, interval) = self.change(self.contest.against(rank)?);
            let (word, name) = (self.contest.metric.word(), self.name(rank));
            Some(format!(
                "{change} {word} than {name} ({position}; {interval})"
            ))
        };
        let parts = [against(next, "next"), against(last, position)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let compared = [next, last].map(|rank| self.contest.against(rank));
        let fewest = compared.iter().flatten().map(|pair| pair.change.runs).min();
        format!(
            "{name} is best: {value}, {}; {}",
            parts.join(", "),
            runs(fewest.unwrap_or(0))
        )
    }

    /// Describes the daemons that cannot be told from the best one, and the distance of the last one.
    fn close(&self, close: &[usize], worse: &[usize], position: &str) -> String {
        let mut names: Vec<String> = [0]
            .iter()
            .chain(close)
            .map(|rank| self.name(*rank))
            .collect();
        if names.len() > NAMES {
            let more = names.len() + 1 - NAMES;
            names.truncate(NAMES - 1);
            names.push(format!("{more} others"));
        }
        let metric = &self.contest.metric;
        let noun = &metric.column.head;
        let joined = |values: [f64; 2]| {
            let values = values.map(|value| metric.number(value));
            values.join(if names.len() > 2 { " to " } else { " and " })
        };
        let pairs = close
            .iter()
            .rev()
            .filter_map(|rank| self.contest.against(*rank));
        let pairs: Vec<&Pair> = pairs.collect();
        // The pair that the runs decide least.
        let widest = |pair: &&&Pair| pair.finding.smallest.map_or(u64::MAX, f64::to_bits);
        let Some(pair) = pairs.iter().max_by_key(widest) else {
            let last = close[close.len() - 1];
            let values = joined([0, last].map(|rank| self.contest.ranked[rank].mean));
            return format!(
                "{}: too little {noun} to compare ({values})",
                listed(&names)
            );
        };
        let change = &pair.change;
        let mut values = change.means;
        values.reverse();
        let (low, high) = self.advantages(pair);
        let (show, between, unit): (fn(f64) -> String, _, _) = match change.scale {
            ChangeScale::Ratio => (times, "–", " ×"),
            ChangeScale::Difference => (units::significant, " to ", " points"),
        };
        let range = match change.runs {
            1 => String::new(),
            _ => format!(", {}{between}{}", show(low), show(high)),
        };
        let size = show(self.advantage(change.value()));
        let count = match change.runs {
            1 => "; 1 run is too few".to_owned(),
            few if few < FEWEST_RUNS => format!("; {few} runs are too few"),
            enough => format!(", {}", runs(enough)),
        };
        let figures = format!("{}: {size}{unit}{range}{count}", joined(values));
        let is_same = pairs.iter().all(|pair| pair.finding.word == Word::Same);
        let word = if is_same {
            let margin = change.scale.margin_in_words();
            format!("the same within {margin} in {noun} ({figures})")
        } else {
            format!("undecided in {noun} ({figures}){}", shown_by(pair))
        };
        let others = worse.last().and_then(|rank| {
            let (change, interval) = self.change(self.contest.against(*rank)?);
            Some(format!(
                "; {} has {change} {} than {} ({position}; {interval})",
                self.name(0),
                metric.word(),
                self.name(*rank)
            ))
        });
        format!("{}: {word}{}", listed(&names), others.unwrap_or_default())
    }

    /// Formats the change from a worse daemon to the best and its interval: `12.1 ×` and `12.0–12.3 ×`, `20 %` and
    /// `19–21 %`, `1.20 points` and `1.00–1.40 points`.
    fn change(&self, pair: &Pair) -> (String, String) {
        let factor = self.advantage(pair.change.value());
        let (low, high) = self.advantages(pair);
        if pair.change.scale == ChangeScale::Difference {
            let [size, low, high] = [factor, low, high].map(units::significant);
            return (format!("{size} points"), format!("{low}–{high} points"));
        }
        if factor >= FACTOR {
            let [low, high] = [low, high].map(times);
            return (format!("{} ×", times(factor)), format!("{low}–{high} ×"));
        }
        let share = |factor: f64| match self.contest.metric.column.better {
            Better::Lower => percent(1.0 - 1.0 / factor),
            _ => percent(factor - 1.0),
        };
        let [low, high] = [low, high].map(share);
        (format!("{} %", share(factor)), format!("{low}–{high} %"))
    }

    /// Returns the ends of the interval as advantages, or the lowest and highest one of the runs if there is none.
    fn advantages(&self, pair: &Pair) -> (f64, f64) {
        let (low, high) = pair.finding.interval.unwrap_or(pair.change.range);
        let (low, high) = (self.advantage(low), self.advantage(high));
        (low.min(high), low.max(high))
    }

    /// Returns the change from the worse daemon to the better one as its advantage: the factor or the points by which it is
    /// better.
    fn advantage(&self, change: f64) -> f64 {
        let column = &self.contest.metric.column;
        match column.better {
            Better::Lower => column.scale.reversed(change),
            _ => change,
        }
    }
}

fn is_factor(pair: &Pair) -> bool {
    let change = &pair.change;
    change.scale == ChangeScale::Ratio && change.value().ln().abs() >= FACTOR.ln()
}

/// Formats the margin within which daemons are the same, with its unit.
fn margin(pair: &Pair) -> String {
    match pair.change.scale {
        ChangeScale::Ratio => format!("{} %", percent(MARGIN)),
        scale => scale.margin_in_words().to_owned(),
    }
}

/// Says which change the runs would have shown, and how many runs would show one of the margin.
fn shown_by(pair: &Pair) -> String {
    let Some(smallest) = pair.finding.smallest else {
        return String::new();
    };
    let needed = match pair.needed() {
        Some(needed) if needed <= pair.change.runs => return String::new(),
        Some(needed) => format!("about {needed} runs"),
        None => "more runs than are worth planning".to_owned(),
    };
    let smallest = match pair.change.scale {
        ChangeScale::Ratio => format!("{} %", percent(smallest)),
        ChangeScale::Difference => format!("{} points", units::significant(smallest)),
    };
    format!(
        "; {} could have shown {smallest} or more, and {} needs {needed}",
        runs(pair.change.runs),
        margin(pair)
    )
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
