//! Findings in the totals of a run: responses that differ, connections that the server closed, and too few of them.

use load::driver::Findings;
use measure::tally::{STARTED, Tally};
use measure::units;
use measure::warning::{Kind, Severity, Warning};

use crate::outcome::{self, count};

/// The remedy if the length of a response varies.
pub(crate) const ANY_LENGTH: &str = "accept responses of any length with --any-content";

/// Share of the requests that may wait for a connection without a note, and a number of them that always may.
const MAX_WAITED: f64 = 0.01;
const FEW_WAITED: u64 = 10;

pub(crate) fn findings(total: &Tally) -> Findings {
    let failed = |kind| total.errors.get(kind).copied().unwrap_or(0);
    let (differing, of_length) = (failed(outcome::BODY), failed(outcome::LENGTH));
    let compared = total.counted(count::COMPARED);
    let differs = (differing > 0).then(|| {
        let text = format!(
            "{differing} of the {compared} compared response bodies differ from the body before the run, or from --expect-body"
        );
        let hint = "responses with the right status and length but another body are counted as body: inspect one; if bodies may change, use --any-content";
        Warning::content_differs(&text, hint)
    });
    let varies = (of_length > 0).then(|| {
        let text = format!(
            "{of_length} responses have another length than the first one, or than --expect-length"
        );
        Warning::content_differs(&text, &format!("if the length may vary, {ANY_LENGTH}"))
    });
    let closed = total.counted(count::CLOSED);
    let closes = (closed > 0).then(|| Warning {
        kind: Kind::Audit,
        severity: Severity::Note,
        message: format!(
            "the server closed {} of the {} opened connections, which were to be kept",
            units::count(closed),
            units::count(total.counted(count::OPENED))
        ),
        hint: "opening connections is a part of what was measured: raise the server's limit of requests per connection, or plan for it with --no-keep-alive".to_owned(),
    });
    let (waited, started) = (total.counted(count::WAITED), total.counted(STARTED));
    let is_short = waited > FEW_WAITED && waited as f64 > MAX_WAITED * started as f64;
    let waits = is_short.then(|| Warning {
        kind: Kind::Audit,
        severity: Severity::Note,
        message: format!(
            "{} of {} requests were due while all connections were busy",
            units::count(waited),
            units::count(started)
        ),
        hint: "they waited for one, which is a part of their response time: with more --connections they are sent at once, and the server decides who waits".to_owned(),
    });
    let count = |counter| total.counted(counter);
    let unmarked = count(count::ENDED_BODY) + count(count::ENDED_CLOSE);
    let marked = count(count::ENDED_DONE);
    let ends = (marked > 0 && unmarked > 0).then(|| {
        let text = format!(
            "{} successful event streams ended without [DONE], and {} with it",
            units::count(unmarked),
            units::count(marked)
        );
        let hint = "a stream without the end marker that others have may have been cut: look for the reason in the server's log";
        Warning::content_differs(&text, hint)
    });
    let addresses = total.counted(count::ADDRESSES);
    let spreads = (addresses > 0).then(|| Warning {
        kind: Kind::Audit,
        severity: Severity::Note,
        message: format!(
            "connections went to {addresses} addresses in turn, as the name has several"
        ),
        hint: "to load one of them, write it in the URL, or name it with --connect-to".to_owned(),
    });
    Findings {
        warnings: [differs, varies, closes, spreads, waits, ends]
            .into_iter()
            .flatten()
            .collect(),
        ..Findings::default()
    }
}
