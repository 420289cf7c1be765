//! Outcomes of operations, by the names that are counted. Outcomes are disjoint: each operation has one. A connect,
//! join or leave that fails counts as an operation that failed; one that succeeds does not.

pub(crate) use load::net::dial::{
    CONNECT, CONNECT_TIMEOUT, DESCRIPTORS, PORTS, REFUSED, connect_error,
};

/// Counters other than outcomes.
pub(crate) mod count {
    use std::borrow::Cow;

    use measure::spec::CounterRole::{
        BytesReceived, BytesSent, Closed, DeliveryError, DeliveryEvent, DependentRate, Detail,
        Held, Lost, Opened, Reconnects, Retries,
    };
    use measure::spec::CounterSpec;

    measure::counters! {
        /// Presence events received, of any kind.
        EVENTS = CounterSpec::with_metrics(
            "events", "events", DependentRate,
            &[Cow::Borrowed("presence_deliveries_total")],
        );
        /// Heartbeats sent, including the warm-up's and those that only keep a membership alive.
        HEARTBEATS = CounterSpec::with_metrics(
            "heartbeats", "heartbeats", Detail,
            &[Cow::Borrowed("presence_heartbeats_total")],
        );
        /// Messages of a conversation sent, including the warm-up's.
        MESSAGES = CounterSpec::new("messages", "messages", Detail);
        /// Joins that were acknowledged, including joins of reconnected users.
        JOINS = CounterSpec::with_metrics(
            "joins", "joins", Detail,
            &[Cow::Borrowed("presence_joins_total")],
        );
        /// Leaves that were acknowledged.
        LEAVES = CounterSpec::with_metrics(
            "leaves", "leaves", Detail,
            &[Cow::Borrowed("presence_leaves_total")],
        );
        /// Octets received and sent.
        BYTES = CounterSpec::new("bytes", "read", BytesReceived);
        BYTES_SENT = CounterSpec::new("bytes_sent", "sent", BytesSent);
        /// Connections opened, up to the connected namespace.
        CONNECTED = CounterSpec::new("connected", "opened", Opened);
        /// Connections that were opened and are no longer open, in the mode `sdk`, until the end of the load.
        CLOSED = CounterSpec::new("closed", "closed", Closed);
        /// Joined users, reported once a second by each worker.
        HELD = CounterSpec::new("held", "held", Held);
        /// Connections that ended while their user was joined.
        CONNECTIONS_LOST = CounterSpec::new("connections_lost", "lost connections", Lost);
        /// Updates that a member never received.
        LOST = CounterSpec::new("lost", "lost", DeliveryError);
        /// Joins and leaves that were acknowledged, but whose event a member never received.
        LOST_JOINS = CounterSpec::new("lost_joins", "lost joins", DeliveryError);
        LOST_LEAVES = CounterSpec::new("lost_leaves", "lost leaves", DeliveryError);
        /// Events received twice.
        DUPLICATED = CounterSpec::new("duplicated", "duplicated", DeliveryError);
        /// Events received after a later one.
        REORDERED = CounterSpec::new("reordered", "reordered", DeliveryError);
        /// Events of a room that the receiver is not in.
        WRONG_ROOM = CounterSpec::new("wrong_room", "wrong room", DeliveryError);
        /// Events with a state that their user never had, or with the connection of another user.
        WRONG_STATE = CounterSpec::new("wrong_state", "wrong state", DeliveryError);
        /// Events and acknowledgements with an epoch other than the member's join has.
        WRONG_EPOCH = CounterSpec::new("wrong_epoch", "wrong epoch", DeliveryError);
        /// Events whose time is not between their cause and their receipt by the server's clock, as joins have shown it.
        WRONG_TIME = CounterSpec::new("wrong_time", "wrong time", DeliveryError);
        /// Joins that are updates, and updates that are joins.
        WRONG_TYPE = CounterSpec::new("wrong_type", "wrong type", DeliveryError);
        /// Leaves of members whose later heartbeats were acknowledged.
        FALSE_LEAVES = CounterSpec::new("false_leaves", "false leaves", DeliveryError);
        /// Acknowledgements of requests that were acknowledged before.
        DUPLICATE_ACKS = CounterSpec::new("duplicate_acks", "duplicate acks", DeliveryError);
        /// Acknowledgements of requests that were never sent.
        UNKNOWN_ACKS = CounterSpec::new("unknown_acks", "unknown acks", DeliveryError);
        /// Members that a snapshot lacks, or shows in a state that they did not have.
        SNAPSHOT_ERRORS = CounterSpec::new("snapshot_errors", "wrong in snapshots", DeliveryError);
        /// Members that a snapshot shows although their leave was acknowledged before the join was sent.
        LINGERING = CounterSpec::new("lingering", "lingering", DeliveryError);
        /// Numbers missing in the sequence of a room, as a receiver saw it: lost events of any type.
        SEQUENCE_GAPS = CounterSpec::new("sequence_gaps", "gaps of sequence", DeliveryError);
        /// Updates whose sender's connection was lost before they reached a member, although they were acknowledged.
        LOST_WITH_SENDER = CounterSpec::new("lost_with_sender", "lost with sender", DeliveryEvent);
        /// Events of users that are not of this run.
        FOREIGN = CounterSpec::new("foreign", "foreign", DeliveryEvent);
        /// Acknowledgements that came after their timeout.
        LATE_ACKS = CounterSpec::new("late_acks", "late acks", DeliveryEvent);
        /// Members that the server removed because their time to live had passed, and that joined again.
        EXPIRED = CounterSpec::new("expired", "expired", DeliveryEvent);
        /// Connections of slow consumers and half-open connections that the server closed.
        DROPPED = CounterSpec::new("dropped", "dropped", DeliveryEvent);
        /// Events that the client library dropped because a slow consumer did not read them.
        UNREAD = CounterSpec::new("unread", "unread", DeliveryEvent);
        /// Users that left and came back, as the plan asks.
        LEFT = CounterSpec::new("churn_left", "left", DeliveryEvent);
        /// Connections that the driver cut, as the plan asks.
        CUT = CounterSpec::new("churn_cut", "cut", DeliveryEvent);
        /// Users that had not come back at the end.
        NOT_BACK = CounterSpec::new("not_back", "not back", DeliveryEvent);
        /// Users that joined again after their connection was lost.
        RECONNECTS = CounterSpec::new("reconnects", "reconnects", Reconnects);
        /// Attempts to connect again that failed.
        RETRIES = CounterSpec::new("retries", "retries", Retries);
        /// Heartbeats that carry no change: they keep a membership alive during the opening and at low rates.
        KEEP_ALIVES = CounterSpec::new("keep_alives", "keep_alives", Detail);
        /// Members in the snapshots of joins.
        SNAPSHOT_MEMBERS = CounterSpec::new("snapshot_members", "snapshot_members", Detail);
        /// Events and packets that the driver does not know, and ignores.
        IGNORED = CounterSpec::new("ignored", "ignored", Detail);
        /// Users of the run; each worker counts its own once.
        USERS = CounterSpec::new("users", "users", Detail);
        /// Milliseconds since the first connection, added at each progress report.
        REPORTED_MS = CounterSpec::in_milliseconds("reported_ms", "reported_ms", Detail);
    }
}

/// The server refused the connection to the namespace.
pub(crate) const NAMESPACE: &str = "connect_rejected";
/// An HTTP response has another status than expected.
pub(crate) const STATUS: &str = "http_status";
pub(crate) const JOIN_TIMEOUT: &str = "join_timeout";
/// A join was refused with a code that has no outcome of its own.
pub(crate) const JOIN_REJECTED: &str = "join_rejected";
pub(crate) const HEARTBEAT_TIMEOUT: &str = "heartbeat_timeout";
/// A heartbeat was refused with a code that has no outcome of its own.
pub(crate) const HEARTBEAT_REJECTED: &str = "heartbeat_rejected";
/// A heartbeat came after the server had removed the member.
pub(crate) const HEARTBEAT_EXPIRED: &str = "heartbeat_rejected_expired";
pub(crate) const HEARTBEAT_NOT_JOINED: &str = "heartbeat_rejected_not_joined";
pub(crate) const HEARTBEAT_STALE: &str = "heartbeat_rejected_stale_epoch";
/// The server accepted a heartbeat, and published no change: to it the user is no member.
pub(crate) const HEARTBEAT_WITHOUT_EFFECT: &str = "heartbeat_without_effect";
pub(crate) const LEAVE_TIMEOUT: &str = "leave_timeout";
pub(crate) const LEAVE_REJECTED: &str = "leave_rejected";
/// The server sent no ping within `pingInterval` and `pingTimeout` of its handshake.
pub(crate) const PING_TIMEOUT: &str = "ping_timeout";
/// The connection ended before the acknowledgement.
pub(crate) const CONNECTION_LOST: &str = "connection_lost";
/// A heartbeat was due while its user was not joined.
pub(crate) const NOT_JOINED: &str = "not_joined";
/// A message of a conversation was not answered in time.
pub(crate) const ANSWER_TIMEOUT: &str = "answer_timeout";
/// An answer in a conversation is not the expected one.
pub(crate) const ANSWER_WRONG: &str = "answer_wrong";
/// An answer has no value to capture.
pub(crate) const CAPTURE: &str = "capture";
/// The driver cut the connection before the acknowledgement, as the plan asks.
pub(crate) const CUT: &str = "cut";

/// Codes with which a server refuses a join, and the outcomes.
const JOIN_CODES: [(&str, &str); 5] = [
    ("already_joined", "join_rejected_already_joined"),
    ("invalid_argument", "join_rejected_invalid_argument"),
    ("room_full", "join_rejected_room_full"),
    ("too_many_rooms", "join_rejected_too_many_rooms"),
    ("too_many_users", "join_rejected_too_many_users"),
];
/// Codes with which a server refuses a heartbeat, and the outcomes.
const HEARTBEAT_CODES: [(&str, &str); 5] = [
    ("expired", HEARTBEAT_EXPIRED),
    ("not_joined", HEARTBEAT_NOT_JOINED),
    ("stale_epoch", HEARTBEAT_STALE),
    ("invalid_argument", "heartbeat_rejected_invalid_argument"),
    ("state_too_large", "heartbeat_rejected_state_too_large"),
];

/// Returns the outcome of a join that was refused with a code.
pub(crate) fn join_rejected(code: Option<&str>) -> &'static str {
    named(&JOIN_CODES, code).unwrap_or(JOIN_REJECTED)
}

/// Returns the outcome of a heartbeat that was refused with a code.
pub(crate) fn heartbeat_rejected(code: Option<&str>) -> &'static str {
    named(&HEARTBEAT_CODES, code).unwrap_or(HEARTBEAT_REJECTED)
}

fn named(codes: &[(&str, &'static str)], code: Option<&str>) -> Option<&'static str> {
    let code = code?;
    let mut codes = codes.iter();
    codes.find(|known| known.0 == code).map(|known| known.1)
}
