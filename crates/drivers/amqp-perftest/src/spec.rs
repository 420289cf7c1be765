//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use measure::spec::ErrorCause::{Exhausted, Expected, Failure, Fault};
use measure::spec::SeriesRole::{Headline, Main};
use measure::spec::{ErrorSpec, OperationKind, SeriesSpec, Spec};
use measure::tally::Series;

use crate::outcome::{self, count};

/// The specification of the driver.
pub(crate) static SPEC: Spec = Spec {
    driver: Cow::Borrowed("amqp-perftest"),
    protocol: Cow::Borrowed("amqp"),
    operation: OperationKind::Message,
    single_process: false,
    open_gauge: Some(Cow::Borrowed("broker_queue_messages")),
    peak_gauge: None,
    series: Cow::Borrowed(SERIES),
    errors: Cow::Borrowed(ERRORS),
    counters: Cow::Borrowed(count::COUNTERS),
};

/// Time from the intended start to the write of the message. Measured only without confirms and consumers.
pub(crate) const PUBLISH: Series = Series(0);
/// Time from the intended start to the broker's `basic.ack`.
pub(crate) const CONFIRM: Series = Series(1);
/// Time from the intended start to the consumer's read of the message. A message counts once, at its first arrival,
/// even if the broker marks it as redelivered; a failed message does not count.
pub(crate) const END_TO_END: Series = Series(2);
/// Churn: time from the intended start to the answer to the second of the two requests, such as `queue.delete-ok`.
pub(crate) const CHURN: Series = Series(3);
/// Churn: time from sending the first request (the SYN, for a connection) to its answer, such as `queue.declare-ok`.
pub(crate) const OPEN: Series = Series(4);

const SERIES: &[SeriesSpec] = &[
    SeriesSpec::new("publish", Main),
    SeriesSpec::new("confirm", Main),
    SeriesSpec::new("end_to_end", Headline),
    SeriesSpec::new("churn", Main),
    SeriesSpec::new("open", Main),
];

const ERRORS: &[ErrorSpec] = &[
    ErrorSpec::new(outcome::NACKED, Fault),
    ErrorSpec::new(outcome::RETURNED, Failure),
    ErrorSpec::new(outcome::CONNECTION_LOST, Fault),
    ErrorSpec::new(outcome::CHANNEL_CLOSED, Fault),
    ErrorSpec::new(outcome::CONFIRM_TIMEOUT, Fault),
    ErrorSpec::loss(outcome::LOST, Failure),
    ErrorSpec::new(outcome::DROPPED, Expected),
    ErrorSpec::new(outcome::DAMAGED, Failure),
    ErrorSpec::new(outcome::REFUSED, Failure),
    ErrorSpec::new(outcome::DESCRIPTORS, Exhausted),
    ErrorSpec::new(outcome::PORTS, Exhausted),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indices_are_those_of_the_specification() {
        for (series, name) in [
            (PUBLISH, "publish"),
            (CONFIRM, "confirm"),
            (END_TO_END, "end_to_end"),
            (CHURN, "churn"),
            (OPEN, "open"),
        ] {
            assert_eq!(SPEC.series[series.0].name, name);
        }
    }
}
