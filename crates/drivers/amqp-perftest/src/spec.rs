//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use measure::spec::ErrorCause::{Exhausted, Expected, Failure, Fault};
use measure::spec::SeriesRole::{Headline, Main};
use measure::spec::{ErrorSpec, OperationKind, SeriesSpec, Spec};

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

measure::series! {
    /// Time from the intended start to the write of the message. Measured only without confirms and consumers.
    PUBLISH = SeriesSpec::new("publish", Main);
    /// Time from the intended start to the broker's `basic.ack`.
    CONFIRM = SeriesSpec::new("confirm", Main);
    /// Time from the intended start to the consumer's read of the message. A message counts once, at its first arrival,
    /// even if the broker marks it as redelivered; a failed message does not count.
    END_TO_END = SeriesSpec::new("end_to_end", Headline);
    /// Churn: time from the intended start to the answer to the second of the two requests, such as `queue.delete-ok`.
    CHURN = SeriesSpec::new("churn", Main);
    /// Churn: time from sending the first request (the SYN, for a connection) to its answer, such as `queue.declare-ok`.
    OPEN = SeriesSpec::new("open", Main);
}

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
