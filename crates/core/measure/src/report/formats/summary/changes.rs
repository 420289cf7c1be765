//! The changes below the figures of the table, in words.

use crate::change::{Finding, Word};
use crate::report::columns::Column;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::contest::{Contests, Pair, Since};
use crate::report::sections::common_level;
use crate::units;

/// Row and column of a figure.
pub(super) type Position = (usize, usize);

/// The baseline of the figures.
#[derive(Debug, Clone, Copy)]
pub(super) enum Against<'b, 'a> {
    /// The best daemon of this suite by each metric.
    Best,
    /// The same daemon in an earlier suite.
    Earlier(&'b Comparison<'a>),
}

/// Returns the change of each figure at the level of the answer, by row and column.
pub(super) fn changes(
    comparison: &Comparison<'_>,
    rows: &[Repetitions<'_>],
    compared: &[Column<'_>],
    against: Against<'_, '_>,
) -> Vec<(Position, String)> {
    let Some(level) = common_level(comparison) else {
        return Vec::new();
    };
    let at = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.level == level);
    let columns = || {
        let columns = compared.iter().enumerate();
        columns.filter_map(|(index, column)| Some((index, column.key.as_deref()?)))
    };
    let refused = |reason: &str| match reason.strip_prefix("not comparable ") {
        Some(_) => reason.to_owned(),
        None => format!("not comparable: {reason}"),
    };
    let mut texts = Vec::new();
    match against {
        Against::Best if comparison.measured().count() > 1 => {
            let contests = Contests::new(comparison, level);
            for (row, repeated) in at {
                let mut excluded = contests.excluded.iter();
                if let Some((_, reason)) = excluded.find(|(daemon, _)| *daemon == repeated.daemon) {
                    texts.push(((row, 1), refused(reason)));
                    continue;
                }
                for (column, key) in columns() {
                    let contest = contests
                        .all
                        .iter()
                        .find(|contest| contest.metric.key() == key);
                    let pair = contest.and_then(|contest| contest.against_daemon(repeated.daemon));
                    texts.extend(pair.map(|pair| ((row, column), from_best(pair))));
                }
            }
        }
        Against::Best => {}
        Against::Earlier(before) => {
            let since = Since::new(before, comparison, level);
            for (row, repeated) in at {
                match since.daemons.get(&repeated.daemon) {
                    None => {}
                    Some(Err(reason)) => texts.push(((row, 1), refused(reason))),
                    Some(Ok(changes)) => texts.extend(columns().filter_map(|(column, key)| {
                        let (_, pair) = changes.iter().find(|(metric, _)| metric == key)?;
                        let ratio = pair.change.ratio();
                        Some(((row, column), described(ratio, &pair.finding)))
                    })),
                }
            }
        }
    }
    texts
}

/// Describes the change from the best daemon to another one, which is the reverse of the pair's.
fn from_best(pair: &Pair) -> String {
    let reverse = |(low, high): (f64, f64)| (1.0 / high, 1.0 / low);
    let finding = Finding {
        word: match pair.finding.word {
            Word::Better(size) => Word::Worse(size),
            Word::Worse(size) => Word::Better(size),
            other => other,
        },
        interval: pair.finding.interval.map(reverse),
        ..pair.finding
    };
    described(1.0 / pair.change.ratio(), &finding)
}

/// Formats a change: `**better** by at least 3 %: −12.1 % [−14.0, −10.1]`; from a factor of two on as a factor.
fn described(ratio: f64, finding: &Finding) -> String {
    let is_factor = ratio.ln().abs() >= 2.0_f64.ln();
    let show: fn(f64) -> String = if is_factor {
        |value| format!("× {}", units::significant(value))
    } else {
        percent
    };
    let interval = finding.interval.map_or(String::new(), |(low, high)| {
        let number = |value: f64| show(value).replace(" %", "").replace("× ", "");
        format!(" [{}, {}]", number(low), number(high))
    });
    let word = match finding.word {
        Word::Better(size) => format!("**better**{}", size.words()),
        Word::Worse(size) => format!("**worse**{}", size.words()),
        Word::Same => "the same within 3 %".to_owned(),
        Word::Undecided => "undecided".to_owned(),
        Word::TooFewRuns => "too few runs".to_owned(),
    };
    let smallest = match finding {
        Finding {
            word: Word::Undecided,
            smallest: Some(smallest),
            ..
        } => format!(", {} would show", percent(1.0 + smallest)),
        _ => String::new(),
    };
    format!("{word}: {}{interval}{smallest}", show(ratio))
}

fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    let size = format!("{:.1}", change.abs());
    let sign = match change {
        _ if size == "0.0" => "±",
        change if change < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{size} %")
}
