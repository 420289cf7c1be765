//! The tables, and the steps from older versions to this one.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use crate::error::{Error, ErrorContext as _};

/// "Drov" as a number: SQLite's application id of these databases.
pub(crate) const APPLICATION_ID: i32 = 0x4472_6f76;

/// The steps; `PRAGMA user_version` is the number of those that were made.
const MIGRATIONS: &[&str] = &[VERSION_1, VERSION_2, VERSION_3];

/// Counters are kept by triggers, so that they are in step with the rows whatever writes them. The [writer] has them off,
/// and counts itself.
///
/// [writer]: crate::Store::writer
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

/// Lets two issues depend on each other in several ways, keeps why an issue was closed and the settings of the database,
/// and finds the issues of an assignee and the events of an issue by indexes. Most issues have no assignee, and are in
/// neither of the two.
const VERSION_2: &str = "
CREATE TABLE dependencies_of_all_kinds (
    issue INTEGER NOT NULL REFERENCES issues,
    depends_on INTEGER NOT NULL REFERENCES issues,
    kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
    PRIMARY KEY (issue, depends_on, kind),
    CHECK (issue <> depends_on)
) STRICT, WITHOUT ROWID;
INSERT INTO dependencies_of_all_kinds SELECT issue, depends_on, kind FROM dependencies;
DROP TABLE dependencies;
ALTER TABLE dependencies_of_all_kinds RENAME TO dependencies;
CREATE INDEX dependents ON dependencies (depends_on, kind);

ALTER TABLE issues ADD COLUMN close_reason TEXT NOT NULL DEFAULT '';
UPDATE issues SET close_reason = latest.value
    FROM (SELECT issue, value, max(id) FROM events WHERE kind = 'closed' GROUP BY issue) AS latest
    WHERE latest.issue = issues.num AND status = 3;
CREATE INDEX issues_assigned ON issues (assignee, priority, created_at DESC) WHERE assignee <> '';
CREATE INDEX issues_assigned_ready ON issues (assignee, priority, created_at)
    WHERE status = 0 AND blockers = 0 AND blocked_parents = 0 AND assignee <> '';
CREATE INDEX events_of ON events (issue);

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Lets a list walk past closed issues without reading their rows.
const VERSION_3: &str = "
DROP INDEX issues_in_order;
CREATE INDEX issues_in_order ON issues (priority, created_at DESC, status);
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

/// Brings a database to this version. A new one remembers the prefix of its ids, if one is given. Returns the problem with its remedy if it belongs to another program or to a
/// later version.
pub(crate) fn migrate(
    connection: &mut Connection,
    prefix: Option<&str>,
) -> Result<Result<(), String>, Error> {
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
    if let Some(prefix) = prefix.filter(|_| made == 0) {
        transaction
            .execute("INSERT INTO settings VALUES ('prefix', ?)", [prefix])
            .doing(doing)?;
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

/// Returns the prefix that a database remembers.
pub(crate) fn prefix(connection: &Connection) -> Result<Option<String>, Error> {
    connection
        .query_row(
            "SELECT value FROM settings WHERE name = 'prefix'",
            [],
            |row| row.get(0),
        )
        .optional()
        .doing("reading the prefix of ids")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DependencyKind, Options, Store};

    #[test]
    fn a_database_of_version_1_keeps_its_rows_and_gets_its_close_reasons() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("issues.db");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(VERSION_1).unwrap();
        old.pragma_update(None, "application_id", APPLICATION_ID)
            .unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        old.execute_batch(
            "INSERT INTO issues (num, id, title, status, priority, issue_type, created_at, updated_at, closed_at, blockers)
                 VALUES (1, 'a', 'one', 3, 2, 2, 1, 1, 1, 0), (2, 'b', 'two', 0, 2, 2, 1, 1, NULL, 0),
                     (3, 'c', 'three', 0, 2, 2, 1, 1, NULL, 1);
             INSERT INTO dependencies VALUES (3, 2, 0);
             INSERT INTO events (issue, actor, kind, value, at)
                 VALUES (1, 'me', 'closed', 'first', 1), (1, 'me', 'closed', 'second', 2), (2, 'me', 'closed', 'x', 3);",
        )
        .unwrap();
        drop(old);
        let reader = Store::open(&path, Options::default())
            .unwrap()
            .reader()
            .unwrap();
        assert_eq!(reader.show("a").unwrap().close_reason, "second");
        assert_eq!(reader.show("b").unwrap().close_reason, "", "it is open");
        let dependencies = reader.show("c").unwrap().dependencies;
        assert_eq!(dependencies[0].kind, DependencyKind::Blocks);
        assert_eq!(reader.check().unwrap(), Vec::<String>::new());
    }
}
