//! Findings in the totals of a run: responses that differ, and connections that the server closed.

use load::driver::Findings;
use measure::tally::Tally;
use measure::units;
use measure::warning::{Kind, Severity, Warning};

use crate::outcome::{self, count};

/// The remedy if the length of a response varies.
pub(crate) const ANY_LENGTH: &str = "accept responses of any length with --any-content";

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
        warnings: [differs, varies, closes, spreads]
            .into_iter()
            .flatten()
            .collect(),
        ..Findings::default()
    }
}
