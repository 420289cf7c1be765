//! The changes below the figures of the table, in words.

use crate::report::columns::Column;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::contest::{Contests, Since, described};
use crate::report::sections::common_level;

/// Row and column of a figure.
pub(super) type Position = (usize, usize);

/// The baseline of the figures.
#[derive(Debug, Clone, Copy)]
pub(super) enum Against<'b, 'a> {
    /// The best daemon of this suite by each metric, or the control.
    First,
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
        Against::First if comparison.measured().count() > 1 => {
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
                    let change = contest.and_then(|contest| contest.to_daemon(repeated.daemon));
                    texts.extend(change.map(|(ratio, finding)| {
                        ((row, column), marked(&described(ratio, &finding)))
                    }));
                }
            }
        }
        Against::First => {}
        Against::Earlier(before) => {
            let since = Since::new(before, comparison, level);
            for (row, repeated) in at {
                match since.daemons.get(&repeated.daemon) {
                    None => {}
                    Some(Err(reason)) => texts.push(((row, 1), refused(reason))),
                    Some(Ok(changes)) => texts.extend(columns().filter_map(|(column, key)| {
                        let (_, pair) = changes.iter().find(|(metric, _)| metric == key)?;
                        let ratio = pair.change.ratio();
                        Some(((row, column), marked(&described(ratio, &pair.finding))))
                    })),
                }
            }
        }
    }
    texts
}

/// Marks the word of a change.
fn marked(change: &str) -> String {
    let change = change.replacen("better", "**better**", 1);
    change.replacen("worse", "**worse**", 1)
}
