//! What a client reports to its user.

use std::fmt;
use std::sync::Arc;

use crate::error::{Code, Error};
use crate::member::Member;

/// An event of a room or of the connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A member joined, or joined again. The first `Join` that a client gets may be its own.
    Join(MemberEvent),
    /// A member changed its state. [`Member::state`] is the whole merged state.
    Update(MemberEvent),
    /// A member left. [`Member::state`] is the last state that this client knows.
    Leave(MemberEvent, LeaveReason),
    /// The connection broke. The client reconnects unless its attempts are used up.
    Disconnected(DisconnectCause),
    /// An attempt to reconnect failed.
    ReconnectFailed {
        /// The number of failed attempts since the connection broke.
        attempt: u32,
        /// The reason.
        error: Error,
    },
    /// The connection is open again, and the room, if there is one, was joined again.
    Reconnected {
        /// True if the server kept the membership: the others saw neither `leave` nor `join`.
        resumed: bool,
    },
    /// Events of the room were lost. The client joins again to get a new snapshot; [`Event::Rejoined`] follows.
    Gap {
        /// The sequence number of the first lost event.
        expected: u64,
        /// The sequence number of the event that arrived instead.
        got: u64,
    },
    /// The server no longer knows this member, for example because its heartbeats were late. The client joins again;
    /// [`Event::Rejoined`] follows.
    MembershipLost(RejoinCause),
    /// The client joined its room again over the same connection. Events in between were not received: read the members
    /// again.
    Rejoined(RejoinCause),
    /// The server rejected an automatic join. The client tries again later.
    RejoinRejected {
        /// The reason, for programs.
        code: Code,
        /// The reason, for people.
        message: String,
    },
    /// An automatic join cannot work, because its answer is too large ([`Error::TooLarge`]). The room is left: handles of
    /// it fail with [`Error::NotJoined`].
    RejoinFailed(Error),
    /// The reader of this stream was too slow, and the given number of oldest events was dropped.
    Lagged(u64),
}

/// A change of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberEvent {
    /// The room.
    pub room: Arc<str>,
    /// The member after the event.
    pub member: Member,
    /// The time of the event by the server's clock, in milliseconds since 1970.
    pub ts_ms: u64,
    /// The sequence number of the event in its room, if the server numbers its events.
    pub seq: Option<u64>,
    /// True if the event comes from a node that could not reach the others.
    pub is_degraded: bool,
}

/// The reason for which a member left.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaveReason {
    /// The member asked to leave.
    Leave,
    /// The connection of the member ended.
    Disconnect,
    /// The member sent no heartbeat for too long.
    Expired,
    /// The server of the member ended, and another one removed its members.
    NodeDown,
    /// The server sent no reason, as servers in compatibility mode do.
    Unspecified,
    /// A reason that this version of the library does not know.
    Other(Box<str>),
}

impl LeaveReason {
    pub(crate) fn from_wire(name: Option<&str>) -> Self {
        match name {
            None => Self::Unspecified,
            Some("leave") => Self::Leave,
            Some("disconnect") => Self::Disconnect,
            Some("expired") => Self::Expired,
            Some("node_down") => Self::NodeDown,
            Some(other) => Self::Other(other.into()),
        }
    }
}

/// The reason for which a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisconnectCause {
    /// The server closed the connection.
    ClosedByServer,
    /// The server sent no ping within `pingInterval` + `pingTimeout`.
    PingTimeout,
    /// Several heartbeats in a row, or a join, were not answered in time.
    HeartbeatTimeout,
    /// The server sent something that is not the protocol.
    Protocol(String),
    /// The server sent a message that is larger than
    /// [`Options::max_message_bytes`](crate::Options::max_message_bytes).
    TooLarge {
        /// The size of the message, in bytes.
        bytes: usize,
        /// The largest size that is accepted, in bytes.
        limit: usize,
    },
    /// Reading or writing failed.
    Io(String),
    /// The program asked for a new connection ([`RealtimeClient::reconnect`](crate::RealtimeClient::reconnect)).
    Requested,
}

impl fmt::Display for DisconnectCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClosedByServer => formatter.write_str("the server closed the connection"),
            Self::PingTimeout => formatter.write_str("the server's ping is overdue"),
            Self::HeartbeatTimeout => formatter.write_str("heartbeats were not answered"),
            Self::Protocol(reason) => write!(formatter, "the server broke the protocol: {reason}"),
            Self::TooLarge { bytes, limit } => write!(
                formatter,
                "the server sent a message of {bytes} bytes, and {limit} are allowed: raise `Options::max_message_bytes`"
            ),
            Self::Io(reason) => write!(formatter, "the connection failed: {reason}"),
            Self::Requested => formatter.write_str("the program asked for a new connection"),
        }
    }
}

/// The reason for which a client joined its room again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejoinCause {
    /// Events were lost.
    Gap,
    /// The server had removed the member because its heartbeats were late.
    Expired,
    /// The server did not know the member.
    NotJoined,
    /// The epoch of the client was not the server's.
    StaleEpoch,
}

impl RejoinCause {
    /// Returns the cause that a code of a heartbeat's answer stands for, if joining again helps.
    pub(crate) fn from_code(code: &Code) -> Option<Self> {
        match code {
            Code::Expired => Some(Self::Expired),
            Code::NotJoined => Some(Self::NotJoined),
            Code::StaleEpoch => Some(Self::StaleEpoch),
            _ => None,
        }
    }
}
