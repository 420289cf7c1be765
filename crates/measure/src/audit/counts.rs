//! Counts that must agree: bytes and answers, connections and requests, operations and what became of them, ours and the
//! daemon's.

use super::{KEEP_ALIVE, Row, count};
use crate::result::{RunResult, Second};
use crate::units;
use crate::warning::Kind;

/// How far bytes per answer may lie from what is due.
const BYTES_SHARE: f64 = 0.01;
/// Answers that a connection must at least give before it is opened anew: servers that close after a hundred requests are
/// common, after fewer than ten there is nothing kept.
const ANSWERS_KEPT: u64 = 10;

/// Bytes of an answer against what its target had before the run; where that is not known, the figure alone.
pub(super) fn bytes(result: &RunResult) -> Option<Row> {
    let counted = |name| result.counts.get(name).copied();
    let answers = counted(count::ANSWERS).filter(|answers| *answers > 0)? as f64;
    let (bodies, all) = (counted(count::BODY_BYTES), counted(count::BYTES));
    let each = |bytes: u64| bytes as f64 / answers;
    let show = |bytes: f64| format!("{} B", units::count(bytes.round() as u64));
    let hint = "another file, an error page or half of an answer came with a status that counts as right: look at one";
    let expected = counted(count::EXPECTED_BODY_BYTES).map(each);
    // What failed may have brought a part of its body.
    let operations = &result.operations;
    let parts = 1.0 + (operations.failed + operations.unfinished) as f64 / answers;
    match (expected, bodies.map(each), all.map(each)) {
        (Some(expected), Some(found), _) => {
            let least = expected * (1.0 - BYTES_SHARE);
            let most = expected * (parts + BYTES_SHARE);
            let fits = (least..=most).contains(&found);
            Some(Row::new(
                "bytes per answer, body",
                format!("{} ({} to {})", show(expected), show(least), show(most)),
                show(found),
                fits,
                hint,
            ))
        }
        (Some(expected), None, Some(found)) => {
            let least = expected * (1.0 - BYTES_SHARE);
            let fits = found >= least;
            let least = format!("{} (at least {})", show(expected), show(least));
            Some(Row::new(
                "bytes per answer, head and body",
                least,
                show(found),
                fits,
                hint,
            ))
        }
        (None, bodies, all) => {
            let what = match bodies {
                Some(_) => "bytes per answer, body",
                None => "bytes per answer, head and body",
            };
            let found = show(bodies.or(all)?);
            Some(Row::new(what, "not known".to_owned(), found, true, hint))
        }
        (Some(_), None, None) => None,
    }
}

/// Bytes that nobody asked for, where the driver counts them.
pub(super) fn excess(result: &RunResult) -> Option<Row> {
    let excess = result.counts.get(count::EXCESS_BYTES).copied()?;
    Some(Row::new(
        "bytes after the end of an answer",
        "0 B".to_owned(),
        format!("{} B", units::count(excess)),
        excess == 0,
        "the server sends more than it was asked for, and a later request may have been given what was left of an earlier answer: look at one answer as it comes, and at its Content-Length",
    ))
}

/// Connections opened where the plan keeps them: one for each that is open at once, and few besides.
pub(super) fn connections(result: &RunResult) -> Option<Row> {
    let keeps = result.plan["driver"][KEEP_ALIVE].as_bool() == Some(true);
    let counted = |name| result.counts.get(name).copied();
    let opened = counted(count::OPENED).filter(|_| keeps)?;
    let answers = counted(count::ANSWERS)?;
    let operations = &result.operations;
    let users = result.facts.users.map_or(0, |users| users.ceil() as u64);
    // Those that were held open, and what was opened in the place of one that was lost.
    let lost = counted(count::LOST).unwrap_or(0);
    let kept = users
        .max(operations.peak_active)
        .max(most_held(result) + lost);
    // One that failed may have cost its connection.
    let most = [
        operations.failed,
        operations.unfinished,
        answers / ANSWERS_KEPT,
    ]
    .into_iter()
    .fold(kept, u64::saturating_add);
    let row = Row::new(
        "connections opened, to be kept",
        format!("at most {}", units::count(most)),
        units::count(opened),
        opened <= most,
        "client or server closes after each answer, and connecting is what was measured: read bodies to their end, allow the server more requests a connection",
    );
    Some(row)
}

/// The most connections that were held open in a second, each of which tells once.
fn most_held(result: &RunResult) -> u64 {
    let told = |row: &Second| row.counts.get(count::HELD).copied();
    result.seconds.iter().filter_map(told).max().unwrap_or(0)
}

/// Connections that were held against those that were to be.
pub(super) fn held(result: &RunResult) -> Option<Row> {
    let planned = result.facts.held?;
    let (held, lost) = (most_held(result), result.count(count::LOST));
    let lost_too = match lost {
        0 => String::new(),
        lost => format!(", {} lost", units::count(lost)),
    };
    Some(Row::new(
        "connections held, at the most",
        format!("{}, none lost", units::count(planned)),
        format!("{}{lost_too}", units::count(held)),
        held >= planned && lost == 0,
        "the figures are of fewer connections than were asked for: raise the server's limits of connections and of open files, and its keep-alive timeout",
    ))
}

/// Operations begun against what became of them.
pub(super) fn operations(result: &RunResult) -> Option<Row> {
    let operations = &result.operations;
    let ends = [operations.ok, operations.unfinished];
    let ended = result
        .errors
        .values()
        .copied()
        .chain(ends)
        .fold(0, u64::saturating_add);
    let row = Row::new(
        "operations ok + failed + unfinished",
        format!("{} started", units::count(operations.started)),
        units::count(ended),
        ended == operations.started && operations.add_up(),
        "the driver lost count: its figures are of other operations than those that it began",
    );
    (operations.started > 0 || ended > 0).then(|| row.told_by(Kind::CountsDisagree))
}

/// Our counts against the daemon's own.
pub(super) fn compared(result: &RunResult) -> Vec<Row> {
    let rows = result.facts.compared.iter().map(|compared| {
        let bound = match (compared.whole, compared.driver_short) {
            (true, false) => "",
            (false, false) => "at most ",
            (true, true) => "at least ",
            (false, true) => "about ",
        };
        let row = Row::new(
            format!("{} by the daemon's count", compared.name),
            format!("{bound}{}", units::count(compared.driver)),
            units::count(compared.daemon),
            compared.agrees(),
            "does another client use the daemon? else one of the two is wrong",
        );
        row.told_by(Kind::CountsDisagree)
    });
    rows.collect()
}
