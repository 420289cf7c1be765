//! The codes of failures, which programs can distinguish.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a failure. The names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The line is not a request.
    InvalidRequest,
    /// No operation has this name.
    UnknownOperation,
    /// A value is not allowed.
    Validation,
    /// No issue or dependency has this id.
    NotFound,
    /// A dependency would close a circle.
    Cycle,
    /// Something with this id, or another request with this idempotency key, exists already.
    Conflict,
    /// The daemon has reached a limit, or another program holds the database.
    Busy,
    /// The deadline passed before the request began.
    Timeout,
    /// The client does not fit the daemon.
    VersionMismatch,
    /// The daemon serves another database.
    DatabaseMismatch,
    /// The line is too long.
    TooLarge,
    /// The database or its disk failed.
    Internal,
}

impl Code {
    /// All codes.
    pub const ALL: [Self; 12] = [
        Self::InvalidRequest,
        Self::UnknownOperation,
        Self::Validation,
        Self::NotFound,
        Self::Cycle,
        Self::Conflict,
        Self::Busy,
        Self::Timeout,
        Self::VersionMismatch,
        Self::DatabaseMismatch,
        Self::TooLarge,
        Self::Internal,
    ];

    /// Returns the name in the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::UnknownOperation => "unknown_operation",
            Self::Validation => "validation",
            Self::NotFound => "not_found",
            Self::Cycle => "cycle",
            Self::Conflict => "conflict",
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::VersionMismatch => "version_mismatch",
            Self::DatabaseMismatch => "database_mismatch",
            Self::TooLarge => "too_large",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl From<issue_store::Code> for Code {
    fn from(code: issue_store::Code) -> Self {
        match code {
            issue_store::Code::Validation => Self::Validation,
            issue_store::Code::NotFound => Self::NotFound,
            issue_store::Code::Cycle => Self::Cycle,
            issue_store::Code::Conflict => Self::Conflict,
            issue_store::Code::Busy => Self::Busy,
            issue_store::Code::Internal => Self::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_serialization() {
        for code in Code::ALL {
            let text = serde_json::to_string(&code).unwrap();
            assert_eq!(text, format!("{:?}", code.name()));
        }
    }
}
