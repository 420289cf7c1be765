//! The reasons why requests are refused.

use std::borrow::Cow;

use super::json::quoted;

/// The reason why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0}")]
    InvalidArgument(Cow<'static, str>),
    #[error("the connection is in another room; leave it first")]
    AlreadyJoined,
    #[error("the connection is in no room; join one first")]
    NotJoined,
    #[error("no heartbeat came within the TTL; join again")]
    Expired,
    #[error("the epoch is not the member's; join again")]
    StaleEpoch,
    #[error("the room is full")]
    RoomFull,
    #[error("the server has too many rooms")]
    TooManyRooms,
    #[error("the server has too many users")]
    TooManyUsers,
    #[error("the state is longer than {0} bytes")]
    StateTooLarge(usize),
}

impl Refusal {
    /// Refuses an argument. The text names the field.
    pub(crate) fn argument(problem: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidArgument(problem.into())
    }

    /// Returns the code of the protocol.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::InvalidArgument(_) => "invalid_argument",
            Self::AlreadyJoined => "already_joined",
            Self::NotJoined => "not_joined",
            Self::Expired => "expired",
            Self::StaleEpoch => "stale_epoch",
            Self::RoomFull => "room_full",
            Self::TooManyRooms => "too_many_rooms",
            Self::TooManyUsers => "too_many_users",
            Self::StateTooLarge(_) => "state_too_large",
        }
    }

    /// Appends the answer.
    pub(crate) fn write(&self, has_code: bool, out: &mut Vec<u8>) {
        let mut text = format!("{{\"ok\":false,\"error\":{}", quoted(&self.to_string()));
        if has_code {
            text.push_str(&format!(",\"code\":\"{}\"", self.code()));
        }
        text.push('}');
        out.extend_from_slice(text.as_bytes());
    }
}
