//! Outcomes of operations, by the names that are counted. Outcomes are disjoint: each operation has one. A connect,
//! join or leave that fails counts as an operation that failed; one that succeeds is no operation.

pub(crate) use load::net::dial::{
    CONNECT, CONNECT_TIMEOUT, DESCRIPTORS, PORTS, REFUSED, connect_error,
};

/// Counters other than outcomes.
pub(crate) mod count {
    /// Connections opened, up to the connected namespace.
    pub(crate) const CONNECTED: &str = "connected";
    /// Joins that were acknowledged, including joins of reconnected users.
    pub(crate) const JOINS: &str = "joins";
    /// Leaves that were acknowledged.
    pub(crate) const LEAVES: &str = "leaves";
    /// Heartbeats sent, including the warm-up's and those that only keep a membership alive.
    pub(crate) const HEARTBEATS: &str = "heartbeats";
    /// Heartbeats that carry no change: they keep a membership alive during the opening and at low rates.
    pub(crate) const KEEP_ALIVES: &str = "keep_alives";
    /// Presence events received, of any kind.
    pub(crate) const EVENTS: &str = "events";
    /// Members in the snapshots of joins.
    pub(crate) const SNAPSHOT_MEMBERS: &str = "snapshot_members";
    /// Updates that a member never received.
    pub(crate) const LOST: &str = "lost";
    /// Updates whose sender's connection was lost before they reached a member, although they were acknowledged.
    pub(crate) const LOST_WITH_SENDER: &str = "lost_with_sender";
    /// Joins and leaves that were acknowledged, but whose event a member never received.
    pub(crate) const LOST_JOINS: &str = "lost_joins";
    pub(crate) const LOST_LEAVES: &str = "lost_leaves";
    /// Events received twice.
    pub(crate) const DUPLICATED: &str = "duplicated";
    /// Events received after a later one.
    pub(crate) const REORDERED: &str = "reordered";
    /// Events of a room that the receiver is not in.
    pub(crate) const WRONG_ROOM: &str = "wrong_room";
    /// Events with a state that their user never had, or with the connection of another user.
    pub(crate) const WRONG_STATE: &str = "wrong_state";
    /// Events and acknowledgements with an epoch other than the member's join has.
    pub(crate) const WRONG_EPOCH: &str = "wrong_epoch";
    /// Events whose time is not between their cause and their receipt by the server's clock, as joins have shown it.
    pub(crate) const WRONG_TIME: &str = "wrong_time";
    /// Joins that are updates, and updates that are joins.
    pub(crate) const WRONG_TYPE: &str = "wrong_type";
    /// Leaves of members whose later heartbeats were acknowledged.
    pub(crate) const FALSE_LEAVES: &str = "false_leaves";
    /// Members that a snapshot lacks, or shows in a state that they did not have.
    pub(crate) const SNAPSHOT_ERRORS: &str = "snapshot_errors";
    /// Members that a snapshot shows although their leave was acknowledged before the join was sent.
    pub(crate) const LINGERING: &str = "lingering";
    /// Numbers missing in the sequence of a room, as a receiver saw it: lost events of any type.
    pub(crate) const SEQUENCE_GAPS: &str = "sequence_gaps";
    /// Events of users that are not of this run.
    pub(crate) const FOREIGN: &str = "foreign";
    /// Acknowledgements that came after their timeout.
    pub(crate) const LATE_ACKS: &str = "late_acks";
    /// Acknowledgements of requests that were acknowledged before.
    pub(crate) const DUPLICATE_ACKS: &str = "duplicate_acks";
    /// Acknowledgements of requests that were never sent.
    pub(crate) const UNKNOWN_ACKS: &str = "unknown_acks";
    /// Events and packets that the driver does not know, and ignores.
    pub(crate) const IGNORED: &str = "ignored";
    /// Joined users, reported once a second by each worker.
    pub(crate) const HELD: &str = "held";
    /// Connections that were opened and are no longer open, in the mode `sdk`, until the end of the load.
    pub(crate) const CLOSED: &str = "closed";
    /// Connections that ended while their user was joined.
    pub(crate) const CONNECTIONS_LOST: &str = "connections_lost";
    /// Users that joined again after their connection was lost.
    pub(crate) const RECONNECTS: &str = "reconnects";
    /// Attempts to connect again that failed.
    pub(crate) const RETRIES: &str = "retries";
    /// Users that had not come back at the end.
    pub(crate) const NOT_BACK: &str = "not_back";
    /// Users that left and came back, as the plan asks.
    pub(crate) const LEFT: &str = "churn_left";
    /// Connections that the driver cut, as the plan asks.
    pub(crate) const CUT: &str = "churn_cut";
    /// Members that the server removed because their time to live had passed, and that joined again.
    pub(crate) const EXPIRED: &str = "expired";
    /// Connections of slow consumers and half-open connections that the server closed.
    pub(crate) const DROPPED: &str = "dropped";
    /// Events that the client library dropped because a slow consumer did not read them.
    pub(crate) const UNREAD: &str = "unread";
    /// Users of the run; each worker counts its own once.
    pub(crate) const USERS: &str = "users";
    /// Milliseconds since the first connection, added at each progress report.
    pub(crate) const REPORTED_MS: &str = "reported_ms";
    /// Octets received and sent.
    pub(crate) const BYTES: &str = "bytes";
    pub(crate) const BYTES_SENT: &str = "bytes_sent";
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
/// The connection ended before the acknowledgement.
pub(crate) const CONNECTION_LOST: &str = "connection_lost";
/// A heartbeat was due while its user was not joined.
pub(crate) const NOT_JOINED: &str = "not_joined";
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
