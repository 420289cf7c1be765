//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use measure::spec::ErrorCause::{Exhausted, Expected, Failure, Fault};
use measure::spec::SeriesRole::{self, Headline, Main};
use measure::spec::{ErrorSpec, OperationKind, SeriesSpec, Spec};

use crate::outcome::{self, count};

/// The specification of the driver.
pub(crate) static SPEC: Spec = Spec {
    driver: Cow::Borrowed("fdpass-gen"),
    protocol: Cow::Borrowed("fdpass"),
    operation: OperationKind::Connection,
    single_process: false,
    open_gauge: Some(Cow::Borrowed("daemon_active_connections")),
    peak_gauge: Some(Cow::Borrowed("daemon_peak_streams")),
    series: Cow::Borrowed(SERIES),
    errors: Cow::Borrowed(ERRORS),
    counters: Cow::Borrowed(count::COUNTERS),
};

measure::series! {
    /// Time of `socket` and `connect` to the daemon, until its accept queue holds the connection.
    CONNECT = SeriesSpec::new("connect", SeriesRole::Detail);
    /// Time of `sendmsg` and the close of our copy of the client's socket. The reference's handoff also includes the close
    /// of the handoff connection, which here stays open for `take`.
    HANDOFF = SeriesSpec::new("handoff", Main);
    /// Time from `sendmsg` to the daemon closing the handoff connection: its accept and receive.
    TAKE = SeriesSpec::new("take", Main);
    /// Time from the end of the handoff to the first byte: the reference's `ttfb`.
    FIRST_BYTE = SeriesSpec::with_note(
        "first_byte",
        "TTFB",
        Headline,
        "TTFB is the series first_byte: from the end of the handoff to the first byte of the answer.",
    );
    /// Time from the intended start to the first record: the response time, including retried connects and all delays of
    /// the driver.
    FIRST_EVENT = SeriesSpec::new("first_event", Main);
    /// Time between two records. Records that arrive in one read are 1 ns apart.
    GAP = SeriesSpec::new("gap", SeriesRole::Detail);
    /// Time from the end of the handoff to the end of the stream.
    STREAM = SeriesSpec::new("stream", SeriesRole::Detail);
    /// Time by which a stream exceeds its nominal duration.
    DRIFT = SeriesSpec::new("drift", SeriesRole::Detail);
}

/// All kinds of failures. Faults of the protocol are named by [`fdpass_client::sse::Fault`].
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
    ErrorSpec::new("event_error", Failure),
    ErrorSpec::new(outcome::SEND, Failure),
    ErrorSpec::new(outcome::EPOLL, Failure),
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

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;
    use fdpass_client::sse;
    use fdpass_client::transcript::Difference;

    #[test]
    fn every_kind_that_is_counted_is_specified() {
        let errnos = (1..=133).map(|errno| outcome::connect_error(Errno::from_raw(errno)));
        let difference = Difference::between(b"a", b"b").unwrap();
        let faults = [
            sse::Fault::ContentType,
            sse::Fault::Sse,
            sse::Fault::Json,
            sse::Fault::Order,
            sse::Fault::Trailing,
            sse::Fault::ErrorEvent,
            sse::Fault::Content(Box::new(difference)),
        ];
        for kind in errnos.chain(faults.iter().map(sse::Fault::kind)) {
            assert!(SPEC.errors.iter().any(|error| error.name == kind), "{kind}");
        }
    }
}
