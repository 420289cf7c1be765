//! The tables, and the steps from older versions to this one.

use rusqlite::types::FromSql;
use rusqlite::{Connection, TransactionBehavior};

use crate::error::{Doing as _, Error};

/// "Drov" as a number: SQLite's application id of these databases.
pub(crate) const APPLICATION_ID: i32 = 0x4472_6f76;

/// The steps; `PRAGMA user_version` is the number of those that were made.
const MIGRATIONS: &[&str] = &[VERSION_1];

/// Counters are kept by triggers, so that they are in step with the rows whatever writes them.
const VERSION_1: &str = "
CREATE TABLE issues (
    num INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL CHECK (length(CAST(title AS BLOB)) BETWEEN 1 AND 500),
    description TEXT NOT NULL DEFAULT '',
    design TEXT NOT NULL DEFAULT '',
    acceptance_criteria TEXT NOT NULL DEFAULT '',
    notes TEXT NOT NULL DEFAULT '',
    status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 3),
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 4),
    issue_type INTEGER NOT NULL CHECK (issue_type BETWEEN 0 AND 4),
    assignee TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    closed_at INTEGER,
    -- The number of child ids that were given.
    children INTEGER NOT NULL DEFAULT 0,
    -- The number of unfinished issues that block this one, and of its parents that are blocked.
    blockers INTEGER NOT NULL DEFAULT 0 CHECK (blockers >= 0),
    blocked_parents INTEGER NOT NULL DEFAULT 0 CHECK (blocked_parents >= 0),
    CHECK ((status = 3) = (closed_at IS NOT NULL))
) STRICT;
CREATE INDEX issues_in_order ON issues (priority, created_at DESC);
CREATE INDEX issues_ready ON issues (priority, created_at)
    WHERE status = 0 AND blockers = 0 AND blocked_parents = 0;

CREATE TABLE dependencies (
    issue INTEGER NOT NULL REFERENCES issues,
    depends_on INTEGER NOT NULL REFERENCES issues,
    kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
    PRIMARY KEY (issue, depends_on),
    CHECK (issue <> depends_on)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependents ON dependencies (depends_on, kind);

CREATE TABLE labels (
    issue INTEGER NOT NULL REFERENCES issues,
    label TEXT NOT NULL,
    PRIMARY KEY (issue, label)
) STRICT, WITHOUT ROWID;
CREATE INDEX labelled ON labels (label);

CREATE TABLE comments (
    id INTEGER PRIMARY KEY,
    issue INTEGER NOT NULL REFERENCES issues,
    author TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX comments_of ON comments (issue);

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    issue INTEGER NOT NULL REFERENCES issues,
    actor TEXT NOT NULL,
    kind TEXT NOT NULL,
    value TEXT NOT NULL DEFAULT '',
    at INTEGER NOT NULL
) STRICT;

CREATE TABLE answers (
    key TEXT PRIMARY KEY,
    answer TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_by_age ON answers (at);

CREATE TABLE counters (
    status INTEGER PRIMARY KEY,
    issues INTEGER NOT NULL
) STRICT;
INSERT INTO counters VALUES (0, 0), (1, 0), (2, 0), (3, 0);
CREATE TRIGGER issue_inserted AFTER INSERT ON issues BEGIN
    UPDATE counters SET issues = issues + 1 WHERE status = NEW.status;
END;
CREATE TRIGGER issue_changed AFTER UPDATE OF status ON issues WHEN OLD.status <> NEW.status BEGIN
    UPDATE counters SET issues = issues - 1 WHERE status = OLD.status;
    UPDATE counters SET issues = issues + 1 WHERE status = NEW.status;
END;
CREATE TRIGGER issue_deleted AFTER DELETE ON issues BEGIN
    UPDATE counters SET issues = issues - 1 WHERE status = OLD.status;
END;
";

/// Returns true if a database has the tables of this version, and a write-ahead log.
pub(crate) fn is_current(connection: &Connection) -> Result<bool, Error> {
    let mode: String = pragma(connection, "journal_mode")?;
    Ok(mode == "wal"
        && pragma::<i32>(connection, "application_id")? == APPLICATION_ID
        && pragma::<i32>(connection, "user_version")? == MIGRATIONS.len() as i32)
}

fn pragma<T: FromSql>(connection: &Connection, name: &str) -> Result<T, Error> {
    connection
        .pragma_query_value(None, name, |row| row.get(0))
        .doing("reading the version of the database")
}

/// Brings a database to this version. Returns the problem with its remedy if it belongs to another program or to a
/// later version.
pub(crate) fn migrate(connection: &mut Connection) -> Result<Result<(), String>, Error> {
    let doing = "creating or updating the tables";
    // Another process may have been here: the versions are read in the transaction.
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .doing(doing)?;
    let version: i32 = pragma(&transaction, "user_version")?;
    let application: i32 = pragma(&transaction, "application_id")?;
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = transaction
        .query_row(tables, [], |row| row.get(0))
        .doing(doing)?;
    if application != APPLICATION_ID && (tables > 0 || version != 0) {
        let problem = "is a database of another program: choose another path";
        return Ok(Err(problem.to_owned()));
    }
    let made = usize::try_from(version).unwrap_or(usize::MAX);
    let Some(ahead) = MIGRATIONS.get(made..) else {
        return Ok(Err(format!(
            "has version {version}, and this program knows versions up to {}: use a newer program",
            MIGRATIONS.len()
        )));
    };
    for step in ahead {
        transaction.execute_batch(step).doing(doing)?;
    }
    transaction
        .pragma_update(None, "application_id", APPLICATION_ID)
        .doing(doing)?;
    transaction
        .pragma_update(None, "user_version", MIGRATIONS.len() as i32)
        .doing(doing)?;
    transaction.commit().doing(doing)?;
    Ok(Ok(()))
}
