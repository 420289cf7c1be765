//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use load::net::http1::ResponseError;

use measure::spec::CounterRole::{
    Answers, BodyBytes, BytesReceived, BytesSent, ChecksFailed, ChecksPassed, Closed, Detail,
    ExcessBytes, ExpectedBodyBytes, Held, Lost, Opened, OperationsFailingChecks, Retries, Warmup,
};
use measure::spec::ErrorCause::{self, Exhausted, Failure};
use measure::spec::SeriesRole::{self, Headline, Main};
use measure::spec::{CounterSpec, ErrorSpec, OperationKind, SeriesSpec, Spec};
use measure::tally::Series;

use crate::outcome::{self, count};

/// The specification of the driver.
pub(crate) static SPEC: Spec = Spec {
    driver: Cow::Borrowed("http-load"),
    protocol: Cow::Borrowed("http"),
    operation: OperationKind::Request,
    single_process: false,
    open_gauge: Some(Cow::Borrowed("http_connections_open")),
    peak_gauge: None,
    series: Cow::Borrowed(SERIES),
    errors: Cow::Borrowed(ERRORS),
    counters: Cow::Borrowed(COUNTERS),
};

/// Response time: from the intended start to the last byte of the response.
pub(crate) const RESPONSE: Series = Series(0);
/// Service time: from the first byte sent to the last byte of the response.
pub(crate) const SERVICE: Series = Series(1);
/// Time from the intended start to the first byte sent: until a connection was free or opened.
pub(crate) const BLOCKED: Series = Series(2);
/// Duration of the TCP handshake, for each connection that was opened.
pub(crate) const CONNECTING: Series = Series(3);
/// Duration of the TLS handshake, for each connection that was opened.
pub(crate) const TLS: Series = Series(4);
/// Time to hand the request to the kernel. Not measured with HTTP/2, where requests share a connection.
pub(crate) const SENDING: Series = Series(5);
/// Time from the end of sending to the first byte of the response. With pipelining it starts at the end of the last
/// request sent.
pub(crate) const WAITING: Series = Series(6);
/// Time from the first byte of the response to its last. A response in one piece has both at once: 1 ns, the smallest
/// value of a histogram, shown as 0 in k6's format.
pub(crate) const RECEIVING: Series = Series(7);

/// The series, at the indices above. If redirects are followed, `sending`, `waiting` and `receiving` apply to each hop,
/// as in k6, and the other series to the whole chain. Those three then have more values than the response time.
const SERIES: &[SeriesSpec] = &[
    SeriesSpec::with_note(
        "response",
        "response",
        Headline,
        "The response time is measured from the instant a request was due, so it includes every delay by the driver and by earlier requests; the service time is measured from sending.",
    ),
    SeriesSpec::new("service", Main),
    SeriesSpec::new("blocked", SeriesRole::Detail),
    SeriesSpec::new("connecting", SeriesRole::Detail),
    SeriesSpec::new("tls", SeriesRole::Detail),
    SeriesSpec::new("sending", SeriesRole::Detail),
    SeriesSpec::new("waiting", SeriesRole::Detail),
    SeriesSpec::new("receiving", SeriesRole::Detail),
];

/// All kinds of failures. A stopped or stalled daemon causes the faults among them.
const ERRORS: &[ErrorSpec] = &[
    ErrorSpec::new(outcome::REFUSED, ErrorCause::Fault),
    ErrorSpec::new(outcome::CONNECT_TIMEOUT, ErrorCause::Fault),
    ErrorSpec::new(outcome::CONNECT, ErrorCause::Fault),
    ErrorSpec::new(outcome::DESCRIPTORS, Exhausted),
    ErrorSpec::new(outcome::PORTS, Exhausted),
    ErrorSpec::new(outcome::TIMEOUT, ErrorCause::Fault),
    ErrorSpec::new(outcome::RESET, ErrorCause::Fault),
    ErrorSpec::new(outcome::STATUS, Failure),
    ErrorSpec::new(outcome::LENGTH, Failure),
    ErrorSpec::new(outcome::BODY, Failure),
    ErrorSpec::new(outcome::REDIRECT_ELSEWHERE, Failure),
    ErrorSpec::new(outcome::TOO_MANY_REDIRECTS, Failure),
    ErrorSpec::new(outcome::REDIRECT_WITHOUT_LOCATION, Failure),
    ErrorSpec::new(outcome::TLS, Failure),
    ErrorSpec::new(outcome::HTTP2, Failure),
    ErrorSpec::new(ResponseError::StatusLine.kind(), Failure),
    ErrorSpec::new(ResponseError::Header.kind(), Failure),
    ErrorSpec::new(ResponseError::HeadTooLarge.kind(), Failure),
    ErrorSpec::new(ResponseError::Length.kind(), Failure),
    ErrorSpec::new(ResponseError::Chunk.kind(), Failure),
    ErrorSpec::new(ResponseError::Trailer.kind(), Failure),
    ErrorSpec::new(ResponseError::Coding.kind(), Failure),
    ErrorSpec::new(ResponseError::Upgrade.kind(), Failure),
    ErrorSpec::new(outcome::EARLY_CLOSE, ErrorCause::Fault),
];

const COUNTERS: &[CounterSpec] = &[
    CounterSpec::new(load::recorder::WARMUP, "warm-up", Warmup),
    CounterSpec::new(count::ANSWERS, "answers", Answers),
    CounterSpec::with_metrics(
        count::SERVED,
        "served",
        Detail,
        &[Cow::Borrowed("http_requests_total")],
    ),
    CounterSpec::new(count::BYTES, "read", BytesReceived),
    CounterSpec::new(count::BYTES_SENT, "sent", BytesSent),
    CounterSpec::new(count::BODY_BYTES, "body bytes", BodyBytes),
    CounterSpec::new(
        count::EXPECTED_BODY_BYTES,
        "expected body bytes",
        ExpectedBodyBytes,
    ),
    CounterSpec::new(count::EXCESS, "excess bytes", ExcessBytes),
    CounterSpec::new(count::OPENED, "opened", Opened),
    CounterSpec::new(count::CLOSED, "closed", Closed),
    CounterSpec::new(count::RETRIES, "retries", Retries),
    CounterSpec::new(count::HELD, "held", Held),
    CounterSpec::new(count::LOST, "lost", Lost),
    CounterSpec::new(count::CHECKS_PASSED, "checks passed", ChecksPassed),
    CounterSpec::new(count::CHECKS_FAILED, "checks failed", ChecksFailed),
    CounterSpec::new(
        count::FAILED_A_CHECK,
        "failed a check",
        OperationsFailingChecks,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use load::net::http1::KINDS;

    #[test]
    fn every_fault_of_a_response_is_specified() {
        for kind in KINDS {
            assert!(
                SPEC.errors.iter().any(|error| error.name == *kind),
                "{kind}"
            );
        }
    }

    #[test]
    fn the_indices_are_those_of_the_specification() {
        for (series, name) in [
            (RESPONSE, "response"),
            (SERVICE, "service"),
            (TLS, "tls"),
            (RECEIVING, "receiving"),
        ] {
            assert_eq!(SPEC.series[series.0].name, name);
        }
    }
}
