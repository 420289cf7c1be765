//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use load::recorder::WARMUP;
use measure::spec::CounterRole::{BytesReceived, Detail, Retries, Warmup};
use measure::spec::ErrorCause::{Exhausted, Expected, Failure, Fault};
use measure::spec::SeriesRole::{self, Headline, Main};
use measure::spec::{CounterSpec, ErrorSpec, OperationKind, SeriesSpec, Spec};

use crate::outcome::{self, count};

/// The specification of the driver.
pub static SPEC: Spec = Spec {
    driver: Cow::Borrowed("fdpass-gen"),
    protocol: Cow::Borrowed("fdpass"),
    operation: OperationKind::Connection,
    single_process: false,
    open_gauge: Some(Cow::Borrowed("daemon_active_connections")),
    peak_gauge: Some(Cow::Borrowed("daemon_peak_streams")),
    series: Cow::Borrowed(SERIES),
    errors: Cow::Borrowed(ERRORS),
    counters: Cow::Borrowed(COUNTERS),
};

/// The series, at the indices of [`crate::series`].
const SERIES: &[SeriesSpec] = &[
    SeriesSpec::new("connect", SeriesRole::Detail),
    SeriesSpec::new("handoff", Main),
    SeriesSpec::new("take", Main),
    SeriesSpec::with_note(
        "first_byte",
        "TTFB",
        Headline,
        "TTFB is the series first_byte: from the end of the handoff to the first byte of the answer.",
    ),
    SeriesSpec::new("first_event", Main),
    SeriesSpec::new("gap", SeriesRole::Detail),
    SeriesSpec::new("stream", SeriesRole::Detail),
    SeriesSpec::new("drift", SeriesRole::Detail),
];

/// All kinds of failures. Those of the protocol are named by [`crate::sse::Fault`].
const ERRORS: &[ErrorSpec] = &[
    ErrorSpec::new(outcome::REJECTED, Failure),
    // Streams that end with their daemon, and connects while no daemon listens, follow from a fault.
    ErrorSpec::loss(outcome::LOST, Fault),
    ErrorSpec::new(outcome::INCOMPLETE, Failure),
    ErrorSpec::new(outcome::TIMEOUT_FIRST_BYTE, Failure),
    ErrorSpec::new(outcome::TIMEOUT_IDLE, Failure),
    ErrorSpec::new(outcome::TIMEOUT_TOTAL, Failure),
    ErrorSpec::new(outcome::RESET, Failure),
    ErrorSpec::new("protocol_head", Failure),
    ErrorSpec::new("protocol_sse", Failure),
    ErrorSpec::new("protocol_json", Failure),
    ErrorSpec::new("protocol_order", Failure),
    ErrorSpec::new("protocol_trailing", Failure),
    ErrorSpec::new("protocol_content", Failure),
    ErrorSpec::new(outcome::SEND, Failure),
    ErrorSpec::new("connect_EAGAIN", Fault),
    ErrorSpec::new("connect_EMFILE", Exhausted),
    ErrorSpec::new("connect_ENFILE", Exhausted),
    ErrorSpec::new("connect_ENOENT", Fault),
    ErrorSpec::new("connect_ECONNREFUSED", Fault),
    ErrorSpec::new("connect_EPROTOTYPE", Failure),
    ErrorSpec::new("connect_EACCES", Failure),
    ErrorSpec::new("connect_EADDRNOTAVAIL", Exhausted),
    ErrorSpec::new("connect_other", Failure),
    ErrorSpec::new(outcome::ABORTED, Expected),
    ErrorSpec::new(outcome::UNREAD, Expected),
];

const COUNTERS: &[CounterSpec] = &[
    CounterSpec::new(WARMUP, "warm-up", Warmup),
    CounterSpec::with_metrics(
        count::HANDOFFS,
        "handoffs",
        Detail,
        &[Cow::Borrowed("daemon_handoffs_total")],
    ),
    CounterSpec::new(count::BYTES, "read", BytesReceived),
    CounterSpec::new(count::RETRIES, "retries", Retries),
];

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;
    use crate::{series, sse};

    #[test]
    fn every_kind_that_is_counted_is_specified() {
        let errnos = (1..=133).map(|errno| outcome::connect_error(Errno::from_raw(errno)));
        let faults = [
            sse::Fault::Head,
            sse::Fault::Sse,
            sse::Fault::Json,
            sse::Fault::Order,
            sse::Fault::Trailing,
            sse::Fault::Content,
        ];
        for kind in errnos.chain(faults.map(sse::Fault::kind)) {
            assert!(SPEC.errors.iter().any(|error| error.name == kind), "{kind}");
        }
    }

    #[test]
    fn the_indices_are_those_of_the_specification() {
        for (series, name) in [
            (series::CONNECT, "connect"),
            (series::FIRST_BYTE, "first_byte"),
            (series::FIRST_EVENT, "first_event"),
            (series::DRIFT, "drift"),
        ] {
            assert_eq!(SPEC.series[series.0].name, name);
        }
    }
}
