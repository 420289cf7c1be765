//! The changes below the figures of the table, in words.

use crate::report::columns::Column;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::contest::{Contests, described};
use crate::report::sections::common_level;

/// Row and column of a figure.
pub(super) type Position = (usize, usize);

/// Returns the change of each figure at the level of the answer, by row and column: against the best daemon by that
/// metric, or against its control.
pub(super) fn changes(
    comparison: &Comparison<'_>,
    rows: &[Repetitions<'_>],
    compared: &[Column<'_>],
) -> Vec<(Position, String)> {
    let level = common_level(comparison).filter(|_| comparison.measured().count() > 1);
    let Some(level) = level else {
        return Vec::new();
    };
    let contests = Contests::new(comparison, level);
    let rows = rows.iter().enumerate();
    let mut texts = Vec::new();
    for (row, repeated) in rows.filter(|(_, row)| row.level == level) {
        let mut excluded = contests.excluded.iter();
        if let Some((_, reason)) = excluded.find(|(daemon, _)| *daemon == repeated.daemon) {
            let text = match reason.strip_prefix("not comparable ") {
                Some(_) => reason.clone(),
                None => format!("not comparable: {reason}"),
            };
            texts.push(((row, 1), text));
        }
        for (index, column) in compared.iter().enumerate() {
            let contest = column.key.as_deref().and_then(|key| contests.by_key(key));
            let change = contest.and_then(|contest| contest.to_daemon(repeated.daemon));
            texts.extend(
                change
                    .map(|(change, finding)| ((row, index), marked(&described(change, &finding)))),
            );
        }
    }
    texts
}

/// Marks the word of a change.
fn marked(change: &str) -> String {
    let change = change.replacen("better", "**better**", 1);
    change.replacen("worse", "**worse**", 1)
}
