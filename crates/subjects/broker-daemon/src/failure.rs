//! Errors of clients: a reply code, and a text in RabbitMQ's words.

use std::fmt::Display;

/// An AMQP exception. Its code determines if it closes the channel or the connection (AMQP 0-9-1, 1.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u16,
    pub(crate) text: String,
}

pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

macro_rules! failures {
    ($($name:ident = $code:literal, $constant:literal;)*) => {
        $(pub(crate) fn $name(text: impl Display) -> Failure {
            Failure { code: $code, text: format!(concat!($constant, " - {}"), text) }
        })*
    };
}

failures! {
    connection_forced = 320, "CONNECTION_FORCED";
    access_refused = 403, "ACCESS_REFUSED";
    not_found = 404, "NOT_FOUND";
    resource_locked = 405, "RESOURCE_LOCKED";
    precondition_failed = 406, "PRECONDITION_FAILED";
    frame_error = 501, "FRAME_ERROR";
    syntax_error = 502, "SYNTAX_ERROR";
    command_invalid = 503, "COMMAND_INVALID";
    channel_error = 504, "CHANNEL_ERROR";
    unexpected_frame = 505, "UNEXPECTED_FRAME";
    resource_error = 506, "RESOURCE_ERROR";
    not_allowed = 530, "NOT_ALLOWED";
    not_implemented = 540, "NOT_IMPLEMENTED";
    internal_error = 541, "INTERNAL_ERROR";
}

/// Returns the failure of a method that waits for a disk that has failed.
pub(crate) fn disk_failed() -> Failure {
    precondition_failed("the disk failed: nothing can be stored")
}

/// Returns the failure of a method that reached an object which is deleted: an error of the broker.
#[cold]
pub(crate) fn unknown_id() -> Failure {
    internal_error("an object of this connection does not exist any more")
}

impl Failure {
    /// Returns true if it closes only the channel.
    pub(crate) fn is_soft(&self) -> bool {
        matches!(self.code, 311..=313 | 403..=406)
    }

    /// Returns the text, truncated to the length of a short string.
    pub(crate) fn short_text(&self) -> &str {
        &self.text[..self.text.floor_char_boundary(255)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let failure = not_found("é".repeat(200));
        assert_eq!(failure.short_text().len(), 254);
        assert!(failure.is_soft());
        assert!(!frame_error("x").is_soft());
    }
}
