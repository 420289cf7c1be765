//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use load::net::http1::ResponseError;

use measure::spec::ErrorCause::{self, Exhausted, Failure};
use measure::spec::SeriesRole::{Detail, Headline, Main};
use measure::spec::{ErrorSpec, OperationKind, SeriesSpec, Spec};

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
    counters: Cow::Borrowed(count::COUNTERS),
};

// If redirects are followed, `sending`, `waiting` and `receiving` apply to each hop, as in k6, and the other series to
// the whole chain. Those three then have more values than the response time.
measure::series! {
    /// Response time: from the intended start to the last byte of the response.
    RESPONSE = SeriesSpec::with_note(
        "response",
        "response",
        Headline,
        "The response time is measured from the instant a request was due, so it includes every delay by the driver and by earlier requests; the service time is measured from sending.",
    );
    /// Service time: from the first byte sent to the last byte of the response.
    SERVICE = SeriesSpec::new("service", Main);
    /// Time from the intended start to the first byte sent: until a connection was free or opened.
    BLOCKED = SeriesSpec::new("blocked", Detail);
    /// Duration of the TCP handshake, for each connection that was opened.
    CONNECTING = SeriesSpec::new("connecting", Detail);
    /// Duration of the TLS handshake, for each connection that was opened.
    TLS = SeriesSpec::new("tls", Detail);
    /// Time to hand the request to the kernel. Not measured with HTTP/2, where requests share a connection.
    SENDING = SeriesSpec::new("sending", Detail);
    /// Time from the end of sending to the first byte of the response. With pipelining it starts at the end of the last
    /// request sent.
    WAITING = SeriesSpec::new("waiting", Detail);
    /// Time from the first byte of the response to its last. A response in one piece has both at once: 1 ns, the smallest
    /// value of a histogram, shown as 0 in k6's format.
    RECEIVING = SeriesSpec::new("receiving", Detail);
    /// Time from the intended start to the first record of an event stream (`--events`).
    FIRST_EVENT = SeriesSpec::new("first_event", Main).brief();
    /// Time from the intended start to the first record with text, which is what tools for language models call the time to
    /// the first token. Records with a role only do not have any.
    FIRST_CONTENT = SeriesSpec::new("first_content", Main).brief();
    /// Time between two records of an event stream. Records that arrive in one read are 1 ns apart.
    GAP = SeriesSpec::new("gap", Detail).brief();
}

/// All kinds of failures. A stopped or stalled daemon causes the faults among them.
const ERRORS: &[ErrorSpec] = &[
    ErrorSpec::new(outcome::REFUSED, ErrorCause::Fault),
    ErrorSpec::new(outcome::CONNECT_TIMEOUT, ErrorCause::Fault),
    ErrorSpec::new(outcome::CONNECT, ErrorCause::Fault),
    ErrorSpec::new(outcome::DESCRIPTORS, Exhausted),
    ErrorSpec::new(outcome::PORTS, Exhausted),
    ErrorSpec::new(outcome::TIMEOUT, ErrorCause::Fault),
    ErrorSpec::new(outcome::TIMEOUT_IDLE, ErrorCause::Fault),
    ErrorSpec::new(outcome::RESET, ErrorCause::Fault),
    ErrorSpec::new(outcome::STATUS, Failure),
    ErrorSpec::new(outcome::LENGTH, Failure),
    ErrorSpec::new(outcome::BODY, Failure),
    ErrorSpec::new(outcome::CONTENT_TYPE, Failure),
    ErrorSpec::new(outcome::EVENT_ERROR, Failure),
    ErrorSpec::new(outcome::NO_EVENT, Failure),
    ErrorSpec::new(outcome::INCOMPLETE, Failure),
    ErrorSpec::new(outcome::TRAILING, Failure),
    ErrorSpec::new(outcome::SSE, Failure),
    ErrorSpec::new(outcome::CAPTURE, Failure),
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
}
