//! The errors of the store, each with a code that a program can distinguish.

use std::path::PathBuf;

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// A value is not allowed.
    Validation,
    /// No issue, comment or dependency has this id.
    NotFound,
    /// A dependency would close a circle.
    Cycle,
    /// Something with this id exists already, or was changed by someone else.
    Conflict,
    /// The database is locked by another program.
    Busy,
    /// The database or its disk failed.
    Internal,
}

/// An error of the store. Nothing of the request that caused it is stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field has a value that is not allowed.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field of the request.
        field: &'static str,
        /// The problem with its remedy.
        problem: String,
    },
    /// An issue does not exist.
    #[error("no issue has the id {0:?}")]
    NoIssue(String),
    /// Several issues begin with a shortened id.
    #[error("{prefix:?} could be {}: write more of the id", candidates.join(", "))]
    Ambiguous {
        /// The beginning of an id.
        prefix: String,
        /// The first ids that begin so.
        candidates: Vec<String>,
    },
    /// A dependency does not exist.
    #[error("{issue} does not depend on {on}")]
    NoDependency {
        /// The id of the dependent issue.
        issue: String,
        /// The id of the other issue.
        on: String,
    },
    /// A dependency would close a circle.
    #[error("{on} depends on {issue} already, directly or through other issues")]
    Cycle {
        /// The id of the dependent issue.
        issue: String,
        /// The id of the other issue.
        on: String,
    },
    /// An id is in use.
    #[error("an issue with the id {0:?} exists")]
    Exists(String),
    /// Other issues depend on an issue that is to be deleted.
    #[error("{} depend on {issue}: remove these dependencies first, or force it", dependents.join(", "))]
    HasDependents {
        /// The id of the issue.
        issue: String,
        /// The first ids of those that depend on it.
        dependents: Vec<String>,
    },
    /// An issue is not in the state in which the request may change it.
    #[error("{issue} is {found}, and not {expected}: read it again, or take another one")]
    NotAsExpected {
        /// The id of the issue.
        issue: String,
        /// Its progress, and who works on it.
        found: String,
        /// The state that the request needs.
        expected: String,
    },
    /// The database is not one that this version can use.
    #[error("{}: {problem}", path.display())]
    Unusable {
        /// The database.
        path: PathBuf,
        /// The problem with its remedy.
        problem: String,
    },
    /// Another process holds the write lock.
    #[error("another process holds {}: end it, or continue it with `fg` if it is stopped", .0.display())]
    Locked(PathBuf),
    /// The lock file cannot be used.
    #[error("locking {}: {cause}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The reason of the kernel.
        cause: std::io::Error,
    },
    /// SQLite failed.
    #[error("{doing}: {cause}{}", remedy(cause))]
    Database {
        /// The interrupted step.
        doing: &'static str,
        /// The reason of SQLite.
        cause: rusqlite::Error,
    },
}

impl Error {
    pub(crate) fn invalid(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field,
            problem: problem.into(),
        }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Invalid { .. } | Self::Ambiguous { .. } => Code::Validation,
            Self::NoIssue(_) | Self::NoDependency { .. } => Code::NotFound,
            Self::Cycle { .. } => Code::Cycle,
            Self::Locked(_) => Code::Busy,
            Self::Exists(_) | Self::HasDependents { .. } | Self::NotAsExpected { .. } => {
                Code::Conflict
            }
            Self::Database { cause, .. }
                if matches!(
                    cause.sqlite_error_code(),
                    Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
                ) =>
            {
                Code::Busy
            }
            Self::Unusable { .. } | Self::Lock { .. } | Self::Database { .. } => Code::Internal,
        }
    }

    /// Returns true if a sync failed. The system may have lost what was written before, and its next sync may succeed.
    #[must_use]
    pub fn is_failed_sync(&self) -> bool {
        matches!(self, Self::Database { cause: rusqlite::Error::SqliteFailure(failure, _), .. }
            if failure.extended_code == rusqlite::ffi::SQLITE_IOERR_FSYNC)
    }

    /// Returns true if the request was wrong, and false if the database failed. After a failure the transaction has
    /// ended, so the other requests of its group are not stored either.
    #[must_use]
    pub fn is_of_request(&self) -> bool {
        !matches!(self.code(), Code::Busy | Code::Internal)
    }
}

/// Returns the remedy for a database that cannot be read, to follow the failure.
fn remedy(cause: &rusqlite::Error) -> &'static str {
    match cause.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => {
            ": choose another path, or restore the file from a backup"
        }
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => DAMAGE_REMEDY,
        _ => "",
    }
}

/// The way to recover a damaged database, to follow the damage.
pub(crate) const DAMAGE_REMEDY: &str = ": stop all programs that use it, and copy it; then restore a backup, import the \
    last export into a new database, or let `sqlite3 issues.db .recover` write what can be read";

/// Names the step in which SQLite failed.
pub(crate) trait ErrorContext<T> {
    fn doing(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> ErrorContext<T> for Result<T, rusqlite::Error> {
    fn doing(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|cause| Error::Database { doing, cause })
    }
}
