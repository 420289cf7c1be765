//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use measure::spec::ErrorCause::{Exhausted, Expected, Failure, Fault};
use measure::spec::SeriesRole::{Detail, Headline, Main};
use measure::spec::{ErrorSpec, OperationKind, SeriesSpec, Spec};

use load::plan::Plan;

use crate::outcome::{self, count};
use crate::protocol::ProtocolError;
use crate::settings::{Protocol, Settings};

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
    counters: Cow::Borrowed(count::COUNTERS),
};

measure::series! {
    /// Time from the intended start of a heartbeat to its acknowledgement.
    HEARTBEAT = SeriesSpec::with_note(
        "heartbeat",
        "heartbeat",
        Headline,
        "The time of a heartbeat is measured from the instant at which it was due to its acknowledgement; the service time from sending; propagation from the instant at which it was due to the receipt of the event by each other member of the room.",
    );
    /// Time from sending a heartbeat to its acknowledgement.
    SERVICE = SeriesSpec::new("service", Main);
    /// Time from the intended start of a heartbeat to the receipt of its event by another member of the room.
    PROPAGATION = SeriesSpec::new("propagation", Main);
    /// Time from the first packet of TCP to the connected namespace.
    CONNECT = SeriesSpec::new("connect", Main);
    /// Time from sending a join to its acknowledgement.
    JOIN = SeriesSpec::new("join", Main);
    /// Time from sending a leave to its acknowledgement.
    LEAVE = SeriesSpec::new("leave", Detail);
    /// Time from the loss of a connection to the acknowledgement of the next join of its user.
    RECONNECT = SeriesSpec::new("reconnect", Detail);
}

/// Returns the specification of a plan's runs: a conversation has messages instead of heartbeats, and its own protocol.
pub(crate) fn for_plan(plan: &Plan<Settings>) -> &'static Spec {
    let Some(conversation) = &plan.driver.conversation else {
        return &SPEC;
    };
    let mut spec = SPEC.clone();
    spec.protocol = Cow::Borrowed(match conversation.protocol {
        Protocol::SocketIo => "socket.io",
        Protocol::WebSocket => "websocket",
    });
    for (series, name) in [(HEARTBEAT, "message"), (JOIN, "start")] {
        let series = &mut spec.series.to_mut()[series.0];
        (series.name, series.label) = (Cow::Borrowed(name), Cow::Borrowed(name));
    }
    spec.series.to_mut()[HEARTBEAT.0].note = Some(Cow::Borrowed(
        "The time of a message is measured from the instant at which it was due to its answer; the service time from sending; propagation from the instant at which it was due to each receipt of the pushed event; start from sending the first step of a connection to the answer to its last one.",
    ));
    // A program has one run.
    Box::leak(Box::new(spec))
}

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
    ErrorSpec::new(outcome::PING_TIMEOUT, Fault),
    ErrorSpec::loss(outcome::CONNECTION_LOST, Fault),
    ErrorSpec::new(outcome::NOT_JOINED, Fault),
    ErrorSpec::new(outcome::CUT, Expected),
    ErrorSpec::new(outcome::ANSWER_TIMEOUT, Fault),
    ErrorSpec::new(outcome::ANSWER_WRONG, Failure),
    ErrorSpec::new(outcome::CAPTURE, Failure),
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
}
