//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use measure::spec::CounterRole::{
    DeliveryError, DeliveryEvent, DependentRate, Detail, Rate, Reconnects, Warmup,
};
use measure::spec::ErrorCause::{Exhausted, Expected, Failure, Fault};
use measure::spec::SeriesRole::{Headline, Main};
use measure::spec::{CounterSpec, ErrorSpec, OperationKind, SeriesSpec, Spec};
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
    counters: Cow::Borrowed(COUNTERS),
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

/// The counters. Metrics are named as by this project's broker, and by RabbitMQ's plugin `rabbitmq_prometheus`.
const COUNTERS: &[CounterSpec] = &[
    CounterSpec::new(count::WARMUP, "warm-up", Warmup),
    CounterSpec::new(count::PUBLISHED, "published", Rate),
    CounterSpec::new(count::CONFIRMED, "confirmed", DependentRate),
    CounterSpec::new(count::CONSUMED, "consumed", Rate),
    CounterSpec::new(count::CHURNED, "churned", Rate),
    CounterSpec::with_metrics(
        count::WRITTEN,
        "written",
        Detail,
        &[
            Cow::Borrowed("broker_messages_published_total"),
            Cow::Borrowed("rabbitmq_global_messages_received_total"),
        ],
    ),
    CounterSpec::with_metrics(
        count::DELIVERED,
        "delivered",
        Detail,
        &[
            Cow::Borrowed("broker_messages_delivered_total"),
            Cow::Borrowed("rabbitmq_global_messages_delivered_total"),
        ],
    ),
    CounterSpec::new(count::LOST, "lost", DeliveryError),
    CounterSpec::new(count::DUPLICATED, "duplicated", DeliveryError),
    CounterSpec::new(count::OUT_OF_ORDER, "out of order", DeliveryError),
    CounterSpec::new(count::DROPPED, "dropped", DeliveryEvent),
    CounterSpec::new(count::REDELIVERED, "redelivered", DeliveryEvent),
    CounterSpec::new(count::NACKED, "nacked", DeliveryEvent),
    CounterSpec::new(count::RETURNED, "returned", DeliveryEvent),
    CounterSpec::new(count::UNCONFIRMED, "unconfirmed", DeliveryEvent),
    CounterSpec::new(count::ARRIVED_LATE, "arrived late", DeliveryEvent),
    CounterSpec::new(count::GIVEN_BACK, "given back", DeliveryEvent),
    CounterSpec::new(count::FOREIGN, "foreign", DeliveryEvent),
    CounterSpec::new(count::CANCELLED, "cancelled", DeliveryEvent),
    CounterSpec::new(count::BLOCKED, "blocked", DeliveryEvent),
    CounterSpec::in_milliseconds(count::BLOCKED_MS, "blocked ms", DeliveryEvent),
    CounterSpec::new(count::DISCONNECTS, "disconnects", DeliveryEvent),
    CounterSpec::new(count::RECONNECTS, "reconnects", Reconnects),
    CounterSpec::in_milliseconds(count::GAP_MS, "gap ms", DeliveryEvent),
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
