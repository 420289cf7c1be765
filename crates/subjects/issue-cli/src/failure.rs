//! Failures of commands, and their exit codes.

use std::io;

use issue_rpc::{ClientError, Code};
use serde_json::json;

use crate::present::plain;

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request was refused. Nothing was changed, unless the text says so.
    Refused(Code, String),
    /// The call is wrong.
    Usage(String),
    /// No answer arrived, or no answer that can be understood.
    Unanswered(String),
    /// Nobody reads the output any more.
    OutputClosed,
}

impl Failure {
    /// Returns the exit code: 1 refused, 2 wrong usage or values, 3 not answered.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Refused(Code::Busy | Code::Timeout, _) | Self::Unanswered(_) => 3,
            Self::Refused(
                Code::Validation | Code::InvalidRequest | Code::UnknownOperation | Code::TooLarge,
                _,
            )
            | Self::Usage(_) => 2,
            Self::Refused(..) => 1,
        }
    }

    /// Returns the line for stderr.
    pub(crate) fn line(&self, is_json: bool) -> Option<String> {
        let (code, text) = match self {
            Self::OutputClosed => return None,
            Self::Refused(code, text) => (code.name(), text),
            Self::Usage(text) => ("usage", text),
            Self::Unanswered(text) => ("unanswered", text),
        };
        Some(if is_json {
            json!({"success": false, "code": code, "error": text}).to_string()
        } else {
            format!("issue: {}", plain(text))
        })
    }

    /// Adds what was done before.
    pub(crate) fn after(self, done: &str) -> Self {
        match self {
            Self::Refused(code, text) => Self::Refused(code, format!("{text}: {done}")),
            Self::Unanswered(text) => Self::Unanswered(format!("{text}: {done}")),
            other => other,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused { code, error, .. } => Self::Refused(code, error),
            other => Self::Unanswered(other.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Unanswered(format!("the output cannot be written: {error}")),
        }
    }
}
