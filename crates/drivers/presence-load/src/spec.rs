//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use measure::spec::CounterRole::{
    BytesReceived, BytesSent, Closed, DeliveryError, DeliveryEvent, DependentRate, Detail, Held,
    Lost, Opened, Reconnects, Retries, Warmup,
};
use measure::spec::ErrorCause::{Exhausted, Expected, Failure, Fault};
use measure::spec::SeriesRole::{Detail as DetailSeries, Headline, Main};
use measure::spec::{CounterSpec, ErrorSpec, OperationKind, SeriesSpec, Spec};
use measure::tally::Series;

use crate::outcome::{self, count};
use crate::protocol::ProtocolError;

/// The specification of the driver.
pub(crate) static SPEC: Spec = Spec {
    driver: Cow::Borrowed("presence-load"),
    protocol: Cow::Borrowed("presence"),
    operation: OperationKind::Request,
    single_process: false,
    open_gauge: Some(Cow::Borrowed("presence_connections_open")),
    peak_gauge: None,
    series: Cow::Borrowed(SERIES),
    errors: Cow::Borrowed(ERRORS),
    counters: Cow::Borrowed(COUNTERS),
};

/// Time from the intended start of a heartbeat to its acknowledgement.
pub(crate) const HEARTBEAT: Series = Series(0);
/// Time from sending a heartbeat to its acknowledgement.
pub(crate) const SERVICE: Series = Series(1);
/// Time from the intended start of a heartbeat to the receipt of its event by another member of the room.
pub(crate) const PROPAGATION: Series = Series(2);
/// Time from the first packet of TCP to the connected namespace.
pub(crate) const CONNECT: Series = Series(3);
/// Time from sending a join to its acknowledgement.
pub(crate) const JOIN: Series = Series(4);
/// Time from sending a leave to its acknowledgement.
pub(crate) const LEAVE: Series = Series(5);
/// Time from the loss of a connection to the acknowledgement of the next join of its user.
pub(crate) const RECONNECT: Series = Series(6);

/// The series, at the indices above.
const SERIES: &[SeriesSpec] = &[
    SeriesSpec::with_note(
        "heartbeat",
        "heartbeat",
        Headline,
        "The time of a heartbeat is measured from the instant at which it was due to its acknowledgement; the service time from sending; propagation from the instant at which it was due to the receipt of the event by each other member of the room.",
    ),
    SeriesSpec::new("service", Main),
    SeriesSpec::new("propagation", Main),
    SeriesSpec::new("connect", Main),
    SeriesSpec::new("join", Main),
    SeriesSpec::new("leave", DetailSeries),
    SeriesSpec::new("reconnect", DetailSeries),
];

/// The kinds of failures. A daemon that was stopped or started again causes the faults among them.
const ERRORS: &[ErrorSpec] = &[
    ErrorSpec::new(outcome::REFUSED, Fault),
    ErrorSpec::new(outcome::CONNECT_TIMEOUT, Fault),
    ErrorSpec::new(outcome::CONNECT, Fault),
    ErrorSpec::new(outcome::NAMESPACE, Failure),
    ErrorSpec::new(outcome::STATUS, Fault),
    ErrorSpec::new(outcome::DESCRIPTORS, Exhausted),
    ErrorSpec::new(outcome::PORTS, Exhausted),
    ErrorSpec::new(outcome::JOIN_TIMEOUT, Fault),
    ErrorSpec::new(outcome::JOIN_REJECTED, Failure),
    ErrorSpec::new(outcome::HEARTBEAT_TIMEOUT, Fault),
    ErrorSpec::new(outcome::HEARTBEAT_REJECTED, Failure),
    ErrorSpec::new(outcome::HEARTBEAT_EXPIRED, Fault),
    ErrorSpec::new(outcome::HEARTBEAT_NOT_JOINED, Fault),
    ErrorSpec::new(outcome::HEARTBEAT_STALE, Failure),
    ErrorSpec::new(outcome::HEARTBEAT_WITHOUT_EFFECT, Failure),
    ErrorSpec::new(outcome::LEAVE_TIMEOUT, Fault),
    ErrorSpec::new(outcome::LEAVE_REJECTED, Failure),
    ErrorSpec::loss(outcome::CONNECTION_LOST, Fault),
    ErrorSpec::new(outcome::NOT_JOINED, Fault),
    ErrorSpec::new(outcome::CUT, Expected),
    ErrorSpec::new(ProtocolError::Head.kind(), Failure),
    ErrorSpec::new(ProtocolError::Body.kind(), Failure),
    ErrorSpec::new(ProtocolError::Unrequested.kind(), Failure),
    ErrorSpec::new(ProtocolError::Handshake.kind(), Failure),
    ErrorSpec::new(ProtocolError::Accept.kind(), Failure),
    ErrorSpec::new(ProtocolError::ReservedBits.kind(), Failure),
    ErrorSpec::new(ProtocolError::Opcode.kind(), Failure),
    ErrorSpec::new(ProtocolError::Masked.kind(), Failure),
    ErrorSpec::new(ProtocolError::Control.kind(), Failure),
    ErrorSpec::new(ProtocolError::Length.kind(), Failure),
    ErrorSpec::new(ProtocolError::Continuation.kind(), Failure),
    ErrorSpec::new(ProtocolError::Utf8.kind(), Failure),
    ErrorSpec::new(ProtocolError::CloseCode.kind(), Failure),
    ErrorSpec::new(ProtocolError::TooLarge.kind(), Failure),
    ErrorSpec::new(ProtocolError::EnginePacket.kind(), Failure),
    ErrorSpec::new(ProtocolError::Open.kind(), Failure),
    ErrorSpec::new(ProtocolError::Probe.kind(), Failure),
    ErrorSpec::new(ProtocolError::SocketPacket.kind(), Failure),
    ErrorSpec::new(ProtocolError::Json.kind(), Failure),
];

/// The counters. Metrics are named as by this project's daemons.
const COUNTERS: &[CounterSpec] = &[
    CounterSpec::new(load::recorder::WARMUP, "warm-up", Warmup),
    CounterSpec::with_metrics(
        count::EVENTS,
        "events",
        DependentRate,
        &[Cow::Borrowed("presence_deliveries_total")],
    ),
    CounterSpec::with_metrics(
        count::HEARTBEATS,
        "heartbeats",
        Detail,
        &[Cow::Borrowed("presence_heartbeats_total")],
    ),
    CounterSpec::with_metrics(
        count::JOINS,
        "joins",
        Detail,
        &[Cow::Borrowed("presence_joins_total")],
    ),
    CounterSpec::with_metrics(
        count::LEAVES,
        "leaves",
        Detail,
        &[Cow::Borrowed("presence_leaves_total")],
    ),
    CounterSpec::new(count::BYTES, "read", BytesReceived),
    CounterSpec::new(count::BYTES_SENT, "sent", BytesSent),
    CounterSpec::new(count::CONNECTED, "opened", Opened),
    CounterSpec::new(count::CLOSED, "closed", Closed),
    CounterSpec::new(count::HELD, "held", Held),
    CounterSpec::new(count::CONNECTIONS_LOST, "lost connections", Lost),
    CounterSpec::new(count::LOST, "lost", DeliveryError),
    CounterSpec::new(count::LOST_JOINS, "lost joins", DeliveryError),
    CounterSpec::new(count::LOST_LEAVES, "lost leaves", DeliveryError),
    CounterSpec::new(count::DUPLICATED, "duplicated", DeliveryError),
    CounterSpec::new(count::REORDERED, "reordered", DeliveryError),
    CounterSpec::new(count::WRONG_ROOM, "wrong room", DeliveryError),
    CounterSpec::new(count::WRONG_STATE, "wrong state", DeliveryError),
    CounterSpec::new(count::WRONG_EPOCH, "wrong epoch", DeliveryError),
    CounterSpec::new(count::WRONG_TIME, "wrong time", DeliveryError),
    CounterSpec::new(count::WRONG_TYPE, "wrong type", DeliveryError),
    CounterSpec::new(count::FALSE_LEAVES, "false leaves", DeliveryError),
    CounterSpec::new(count::DUPLICATE_ACKS, "duplicate acks", DeliveryError),
    CounterSpec::new(count::UNKNOWN_ACKS, "unknown acks", DeliveryError),
    CounterSpec::new(count::SNAPSHOT_ERRORS, "wrong in snapshots", DeliveryError),
    CounterSpec::new(count::LINGERING, "lingering", DeliveryError),
    CounterSpec::new(count::SEQUENCE_GAPS, "gaps of sequence", DeliveryError),
    CounterSpec::new(count::LOST_WITH_SENDER, "lost with sender", DeliveryEvent),
    CounterSpec::new(count::FOREIGN, "foreign", DeliveryEvent),
    CounterSpec::new(count::LATE_ACKS, "late acks", DeliveryEvent),
    CounterSpec::new(count::EXPIRED, "expired", DeliveryEvent),
    CounterSpec::new(count::DROPPED, "dropped", DeliveryEvent),
    CounterSpec::new(count::UNREAD, "unread", DeliveryEvent),
    CounterSpec::new(count::LEFT, "left", DeliveryEvent),
    CounterSpec::new(count::CUT, "cut", DeliveryEvent),
    CounterSpec::new(count::NOT_BACK, "not back", DeliveryEvent),
    CounterSpec::new(count::RECONNECTS, "reconnects", Reconnects),
    CounterSpec::new(count::RETRIES, "retries", Retries),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_protocol_is_specified() {
        for error in ProtocolError::ALL {
            let kind = error.kind();
            assert!(SPEC.errors.iter().any(|error| error.name == kind), "{kind}");
        }
    }

    #[test]
    fn the_indices_are_those_of_the_specification() {
        for (series, name) in [
            (HEARTBEAT, "heartbeat"),
            (SERVICE, "service"),
            (PROPAGATION, "propagation"),
            (CONNECT, "connect"),
            (JOIN, "join"),
            (LEAVE, "leave"),
            (RECONNECT, "reconnect"),
        ] {
            assert_eq!(SPEC.series[series.0].name, name);
        }
    }
}
