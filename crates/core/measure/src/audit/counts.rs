//! Audits of counts: bytes and answers, connections and requests, operations and their outcomes, the driver's counts
//! and the daemon's.

use super::AuditRow;
use crate::objective::Objective;
use crate::result::RunResult;
use crate::spec::CounterRole;
use crate::tally::{GOODPUT, HIGHEST_NS};
use crate::units;
use crate::warning::Kind;

/// Tolerance of the bytes per answer, as a share of the expected value.
const BYTES_TOLERANCE: f64 = 0.01;
/// Minimum answers per connection before a reconnect counts as normal. Servers commonly close after a hundred requests;
/// with fewer than ten, keep-alive has no effect.
const MIN_ANSWERS_PER_CONNECTION: u64 = 10;

/// Compares the bytes per answer with the target's length before the run. If that length is not known, the row only
/// shows the figure.
pub(super) fn bytes(result: &RunResult) -> Option<AuditRow> {
    let answers = result
        .counted(CounterRole::Answers)
        .filter(|answers| *answers > 0)? as f64;
    let each = |role| Some(result.counted(role)? as f64 / answers);
    let expected = each(CounterRole::ExpectedBodyBytes);
    let body = each(CounterRole::BodyBytes);
    let found = body.or(each(CounterRole::BytesReceived))?;
    let show = |bytes: f64| format!("{} B", units::count(bytes.round() as u64));
    // Failed operations may have received a part of a body.
    let operations = &result.operations;
    let parts = 1.0 + (operations.failed + operations.unfinished) as f64 / answers;
    let bounds = expected.map(|expected| {
        let least = expected * (1.0 - BYTES_TOLERANCE);
        let most = body.map(|_| expected * (parts + BYTES_TOLERANCE));
        (expected, least, most)
    });
    let expected = match bounds {
        Some((expected, least, Some(most))) => {
            format!("{} ({} to {})", show(expected), show(least), show(most))
        }
        Some((expected, least, None)) => {
            format!("{} (at least {})", show(expected), show(least))
        }
        None => "not known".to_owned(),
    };
    let fits = bounds
        .is_none_or(|(_, least, most)| found >= least && most.is_none_or(|most| found <= most));
    let name = match body {
        Some(_) => "bytes per answer, body",
        None => "bytes per answer, head and body",
    };
    Some(AuditRow::new(
        name,
        expected,
        show(found),
        fits,
        "the server returned a wrong file, an error page or a truncated body with a success status; inspect one response",
    ))
}

/// Checks that no bytes arrived without a request, if the driver counts them.
pub(super) fn excess(result: &RunResult) -> Option<AuditRow> {
    let excess = result.counted(CounterRole::ExcessBytes)?;
    Some(AuditRow::new(
        "bytes after the end of an answer",
        "0 B".to_owned(),
        format!("{} B", units::count(excess)),
        excess == 0,
        "the server sends more than was requested, and a later request may have received the rest of an earlier answer; inspect one raw response and its Content-Length",
    ))
}

/// Checks that a plan with keep-alive opened about one connection for each one open at once.
pub(super) fn connections(result: &RunResult) -> Option<AuditRow> {
    let inputs = &result.audit_inputs;
    let opened = result.counted(CounterRole::Opened);
    let opened = opened.filter(|_| inputs.reuses_connections)?;
    let answers = result.counted(CounterRole::Answers)?;
    let operations = &result.operations;
    let users = inputs.users.map_or(0, |users| users.ceil() as u64);
    // The connections that were held open, and one replacement for each that was lost or that the server closed.
    let lost = result.total(CounterRole::Lost);
    let held = most_held(result) + lost;
    let planned = inputs.connections.unwrap_or(0);
    let kept = users.max(planned).max(operations.peak_active).max(held);
    let kept = kept + result.total(CounterRole::Closed);
    // A failed operation may have cost its connection.
    let most = [
        operations.failed,
        operations.unfinished,
        answers / MIN_ANSWERS_PER_CONNECTION,
    ]
    .into_iter()
    .fold(kept, u64::saturating_add);
    Some(AuditRow::new(
        "connections opened, with keep-alive",
        format!("at most {}", units::count(most)),
        units::count(opened),
        opened <= most,
        "client or server closes the connection after each answer, so connecting was measured; consume response bodies fully, or raise the server's requests-per-connection limit",
    ))
}

/// Returns the most connections held open in any second. Each connection is reported once a second.
fn most_held(result: &RunResult) -> u64 {
    let seconds = result.seconds.iter();
    let held = seconds.filter_map(|second| result.spec.sum(CounterRole::Held, &second.counts));
    held.max().unwrap_or(0)
}

/// Compares the connections held open with those planned.
pub(super) fn held(result: &RunResult) -> Option<AuditRow> {
    let planned = result.audit_inputs.held?;
    let (held, lost) = (most_held(result), result.total(CounterRole::Lost));
    let lost_too = match lost {
        0 => String::new(),
        lost => format!(", {} lost", units::count(lost)),
    };
    Some(AuditRow::new(
        "connections held, peak",
        format!("{}, none lost", units::count(planned)),
        format!("{}{lost_too}", units::count(held)),
        held >= planned && lost == 0,
        "the figures describe fewer connections than planned: raise the server's limits for connections and open files, and its keep-alive timeout",
    ))
}

/// Compares the operations started with their outcomes.
pub(super) fn operations(result: &RunResult) -> Option<AuditRow> {
    let operations = &result.operations;
    let errors = result.errors.values().copied();
    let ended = errors
        .chain([operations.ok, operations.unfinished])
        .fold(0, u64::saturating_add);
    let row = AuditRow::new(
        "operations ok + failed + unfinished",
        format!("{} started", units::count(operations.started)),
        units::count(ended),
        ended == operations.started && operations.add_up(),
        "the driver's counters are inconsistent: its figures do not cover exactly the operations that it started",
    );
    (operations.started > 0 || ended > 0).then(|| row.reported_as(Kind::CountsDisagree))
}

/// Compares the operations that met the objectives with those that succeeded, and with the recorded times above the
/// limits, which do not tell the operations apart.
pub(super) fn goodput(result: &RunResult) -> Option<AuditRow> {
    let objectives: Vec<&str> = result.objectives().collect();
    let ok = result.operations.ok;
    let (mut least, mut most) = (ok, ok);
    for text in &objectives {
        let values = Objective::parse(text, &result.spec).ok().and_then(|own| {
            let name = &result.spec.series.get(own.series.0)?.name;
            let values = result.series(name)?.distribution().ok()?;
            Some((own.limit_ns, values))
        });
        // Without a time of every operation, the times say nothing about the rest.
        let Some((limit, values)) = values.filter(|(_, values)| values.len() >= ok) else {
            least = 0;
            continue;
        };
        let histogram = values.histogram();
        // The values in the bucket of the limit lie on both sides of it.
        let above = histogram.count_between(limit, HIGHEST_NS);
        let surely_above =
            histogram.count_between(histogram.next_non_equivalent(limit), HIGHEST_NS);
        least = least.saturating_sub(above);
        if values.len() == ok {
            most = most.min(ok - surely_above);
        }
    }
    let found = result.count(GOODPUT);
    let expected = match least {
        least if least < most => format!("{} to {}", units::count(least), units::count(most)),
        _ => units::count(most),
    };
    let row = AuditRow::new(
        "operations that met the objectives",
        expected,
        units::count(found),
        (least..=most).contains(&found),
        "the driver did not compare every operation with the objectives: its goodput does not count",
    );
    (!objectives.is_empty()).then_some(row)
}

/// Compares the driver's counts with the daemon's.
pub(super) fn compared(result: &RunResult) -> Vec<AuditRow> {
    let rows = result.audit_inputs.compared.iter().map(|compared| {
        let bound = match (compared.whole, compared.driver_short) {
            (true, false) => "",
            (false, false) => "at most ",
            (true, true) => "at least ",
            (false, true) => "about ",
        };
        let row = AuditRow::new(
            format!("{} by the daemon's count", compared.name),
            format!("{bound}{}", units::count(compared.driver)),
            units::count(compared.daemon),
            compared.agrees(),
            "check whether another client uses the daemon; otherwise one of the two counts is wrong",
        );
        row.reported_as(Kind::CountsDisagree)
    });
    rows.collect()
}
