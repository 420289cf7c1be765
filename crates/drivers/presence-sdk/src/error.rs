//! The errors of the library.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

/// An error of a call.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL can't be used.
    #[error("the URL `{url}` can't be used: {reason}; use one such as `http://127.0.0.1:3000`")]
    InvalidUrl {
        /// The URL as it was passed.
        url: String,
        /// The reason.
        reason: String,
    },
    /// An option or an argument can't be used. Nothing was sent.
    #[error("{argument} can't be used: {reason}")]
    InvalidArgument {
        /// The option or argument.
        argument: &'static str,
        /// The reason.
        reason: String,
    },
    /// The connection could not be opened.
    #[error("connecting failed: {0}")]
    Connect(#[source] Arc<dyn StdError + Send + Sync>),
    /// The server refused the Socket.IO connection, for example because `auth` is wrong.
    #[error("the server refused the connection: {message}")]
    Refused {
        /// The message of the server.
        message: String,
    },
    /// The server has not answered in time. It may still carry out the request.
    #[error("the server has not answered `{request}` within {after:?}")]
    Timeout {
        /// The request, such as `presence:join`.
        request: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// The connection is broken; the client is reconnecting.
    #[error("the connection is broken: wait for `Event::Reconnected`, then repeat the call")]
    Disconnected,
    /// The server rejected the request.
    #[error("the server rejected the request: {message} ({code})")]
    Rejected {
        /// The reason, for programs.
        code: Code,
        /// The reason, for people.
        message: String,
    },
    /// The answer to a join is larger than [`Options::max_message_bytes`](crate::Options::max_message_bytes). It ended
    /// the connection, so the client is not in the room.
    #[error(
        "the answer to `presence:join` has {bytes} bytes, and {limit} are allowed: raise `Options::max_message_bytes`"
    )]
    TooLarge {
        /// The size of the answer, in bytes.
        bytes: usize,
        /// The largest size that is accepted, in bytes.
        limit: usize,
    },
    /// The client is in a room. A client can be in one room at a time.
    #[error("the client is in room `{room}`: leave it first, or use another client")]
    AlreadyJoined {
        /// The room that the client is in.
        room: Arc<str>,
    },
    /// The room of this handle was left.
    #[error("the room was left: join it again")]
    NotJoined,
    /// Too many calls wait for an answer.
    #[error("{limit} calls wait for an answer: await them, or raise `Options::queue_capacity`")]
    QueueFull {
        /// The largest number of calls that may wait.
        limit: usize,
    },
    /// The client was closed, has used up its reconnection attempts, or its runtime has ended.
    #[error("the client is closed")]
    Closed,
}

impl Error {
    /// Returns the code of the server if the server rejected the request.
    #[must_use]
    pub fn code(&self) -> Option<&Code> {
        match self {
            Self::Rejected { code, .. } => Some(code),
            _ => None,
        }
    }

    pub(crate) fn connect(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Connect(Arc::from(error.into()))
    }
}

/// The reason for which a server rejected a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// A field is missing, has the wrong type, or is out of range.
    InvalidArgument,
    /// The connection is in another room.
    AlreadyJoined,
    /// The connection is in no room.
    NotJoined,
    /// The member was removed because it had sent no heartbeat for too long.
    Expired,
    /// The epoch of the request is not the member's.
    StaleEpoch,
    /// The room has its largest number of members.
    RoomFull,
    /// The server has its largest number of rooms.
    TooManyRooms,
    /// The server has its largest number of users.
    TooManyUsers,
    /// The merged state is larger than the server allows.
    StateTooLarge,
    /// The server sent no code, as servers in compatibility mode do.
    Unspecified,
    /// A code that this version of the library does not know.
    Other(Box<str>),
}

/// The codes with their names on the wire.
const CODES: [(&str, Code); 9] = [
    ("invalid_argument", Code::InvalidArgument),
    ("already_joined", Code::AlreadyJoined),
    ("not_joined", Code::NotJoined),
    ("expired", Code::Expired),
    ("stale_epoch", Code::StaleEpoch),
    ("room_full", Code::RoomFull),
    ("too_many_rooms", Code::TooManyRooms),
    ("too_many_users", Code::TooManyUsers),
    ("state_too_large", Code::StateTooLarge),
];

impl Code {
    pub(crate) fn from_wire(name: Option<&str>) -> Self {
        let Some(name) = name else {
            return Self::Unspecified;
        };
        CODES
            .iter()
            .find(|(known, _)| *known == name)
            .map_or_else(|| Self::Other(name.into()), |(_, code)| code.clone())
    }

    /// Returns the name of the code on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => CODES
                .iter()
                .find(|(_, code)| code == known)
                .map_or("no code", |(name, _)| name),
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}
