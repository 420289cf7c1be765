//! The codes of failures, which programs can distinguish.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Defines the codes with their names in the protocol.
macro_rules! codes {
    ($(#[$doc:meta] $variant:ident $name:literal,)*) => {
        /// The kind of a failure. The names are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $(#[$doc] #[serde(rename = $name)] $variant,)*
        }

        impl Code {
            /// All codes, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name in the protocol.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

codes! {
    /// The line is not a request.
    InvalidRequest "invalid_request",
    /// No operation has this name.
    UnknownOperation "unknown_operation",
    /// A value is not allowed.
    Validation "validation",
    /// No issue or dependency has this id.
    NotFound "not_found",
    /// A dependency would close a circle.
    Cycle "cycle",
    /// Something with this id, or another request with this idempotency key, exists already.
    Conflict "conflict",
    /// The daemon has reached a limit, or another program holds the database.
    Busy "busy",
    /// The deadline passed before the request began.
    Timeout "timeout",
    /// The client does not fit the daemon.
    VersionMismatch "version_mismatch",
    /// The daemon serves another database.
    DatabaseMismatch "database_mismatch",
    /// The line is too long.
    TooLarge "too_large",
    /// The database or its disk failed.
    Internal "internal",
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
