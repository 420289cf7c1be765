//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use measure::spec::ErrorCause::{self, Exhausted, Failure};
use measure::spec::{ErrorSpec, OperationKind, Spec};

use crate::answer::Fault;
use crate::outcome::{self, count};
use crate::series;

/// The specification of the driver.
pub(crate) static SPEC: Spec = Spec {
    driver: Cow::Borrowed("http-load"),
    protocol: Cow::Borrowed("http"),
    operation: OperationKind::Request,
    single_process: false,
    open_gauge: Some(Cow::Borrowed("http_connections_open")),
    peak_gauge: None,
    series: Cow::Borrowed(series::SERIES),
    errors: Cow::Borrowed(ERRORS),
    counters: Cow::Borrowed(count::COUNTERS),
};

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
    ErrorSpec::new(Fault::StatusLine.kind(), Failure),
    ErrorSpec::new(Fault::Header.kind(), Failure),
    ErrorSpec::new(Fault::HeadTooLarge.kind(), Failure),
    ErrorSpec::new(Fault::Length.kind(), Failure),
    ErrorSpec::new(Fault::Chunk.kind(), Failure),
    ErrorSpec::new(Fault::Trailer.kind(), Failure),
    ErrorSpec::new(Fault::Coding.kind(), Failure),
    ErrorSpec::new(Fault::Upgrade.kind(), Failure),
    ErrorSpec::new(outcome::EARLY_CLOSE, ErrorCause::Fault),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::KINDS;

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
