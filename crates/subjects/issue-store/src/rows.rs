//! Reads rows, for readers and for changes.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use crate::error::{Error, ErrorContext as _};
use crate::filter::Order;
use crate::issue::{Comment, Dependency, Dependent, Event, Issue};
use crate::reader::{IssuePage, PageSize};
use crate::time::Timestamp;

/// The columns of an issue, in the order in which [`IssueRow::read`] takes them.
const COLUMNS: &str = "num, id, title, description, design, acceptance_criteria, notes, status, priority, issue_type, \
                       assignee, created_at, updated_at, closed_at, close_reason";

/// A row of an issue, without what stands in other tables.
#[derive(Debug)]
pub(crate) struct IssueRow {
    pub(crate) num: i64,
    pub(crate) issue: Issue,
}

impl IssueRow {
    /// Reads the row of an issue.
    pub(crate) fn by_id(connection: &Connection, id: &str) -> Result<Self, Error> {
        let statement = format!("SELECT {COLUMNS} FROM issues WHERE id = ?");
        connection
            .prepare_cached(&statement)
            .and_then(|mut statement| statement.query_row([id], Self::read).optional())
            .doing("reading an issue")?
            .ok_or_else(|| Error::NoIssue(id.to_owned()))
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            num: row.get(0)?,
            issue: Issue {
                id: row.get(1)?,
                title: row.get(2)?,
                description: row.get(3)?,
                design: row.get(4)?,
                acceptance_criteria: row.get(5)?,
                notes: row.get(6)?,
                status: row.get(7)?,
                priority: row.get(8)?,
                issue_type: row.get(9)?,
                assignee: row.get(10)?,
                created_at: Timestamp(row.get(11)?),
                updated_at: Timestamp(row.get(12)?),
                closed_at: row.get::<_, Option<i64>>(13)?.map(Timestamp),
                close_reason: row.get(14)?,
                labels: Vec::new(),
                dependencies: Vec::new(),
            },
        })
    }

    fn complete(self, connection: &Connection) -> Result<Issue, Error> {
        let Self { num, mut issue } = self;
        issue.labels = labels_of(connection, num)?;
        let dependencies =
            "SELECT other.id, kind FROM dependencies JOIN issues AS other ON other.num = depends_on
            WHERE issue = ? ORDER BY other.id, kind";
        issue.dependencies = query_rows(connection, dependencies, params![num], |row| {
            Ok(Dependency {
                depends_on: row.get(0)?,
                kind: row.get(1)?,
            })
        })?;
        Ok(issue)
    }
}

/// Returns the issues of a source, in its order, until the page is full.
pub(crate) fn issues(
    connection: &Connection,
    order: Order,
    source: &str,
    values: impl Params,
    size: PageSize,
) -> Result<IssuePage, Error> {
    let doing = "listing issues";
    let key = order.key.replace(", ", " || ',' || ");
    let statement = format!("SELECT {COLUMNS}, {key} AS key FROM {source}");
    let mut prepared = connection.prepare_cached(&statement).doing(doing)?;
    let mut rows = prepared.query(values).doing(doing)?;
    let (mut issues, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().doing(doing)? {
        let issue = IssueRow::read(row).doing(doing)?.complete(connection)?;
        bytes += issue.text_bytes();
        issues.push(issue);
        if issues.len() == size.issues as usize || bytes >= size.bytes {
            let next = row.get("key").doing(doing)?;
            return Ok(IssuePage { issues, next });
        }
    }
    Ok(IssuePage { issues, next: None })
}

/// Returns the row number of an issue.
pub(crate) fn num_of(connection: &Connection, id: &str) -> Result<i64, Error> {
    connection
        .prepare_cached("SELECT num FROM issues WHERE id = ?")
        .and_then(|mut statement| statement.query_row([id], |row| row.get(0)).optional())
        .doing("looking for an issue")?
        .ok_or_else(|| Error::NoIssue(id.to_owned()))
}

/// Returns an issue by its row number.
pub(crate) fn issue_of(connection: &Connection, num: i64) -> Result<Issue, Error> {
    let statement = format!("SELECT {COLUMNS} FROM issues WHERE num = ?");
    let loaded = connection
        .prepare_cached(&statement)
        .and_then(|mut statement| statement.query_row([num], IssueRow::read))
        .doing("reading an issue")?;
    loaded.complete(connection)
}

/// Returns the labels of an issue, in the order of the alphabet.
pub(crate) fn labels_of(connection: &Connection, num: i64) -> Result<Vec<String>, Error> {
    let statement = "SELECT label FROM labels WHERE issue = ? ORDER BY label";
    query(connection, statement, params![num])
}

pub(crate) fn comments_of(connection: &Connection, num: i64) -> Result<Vec<Comment>, Error> {
    let statement = "SELECT id, author, text, created_at FROM comments WHERE issue = ? ORDER BY id";
    query_rows(connection, statement, params![num], |row| {
        Ok(Comment {
            id: row.get(0)?,
            author: row.get(1)?,
            text: row.get(2)?,
            created_at: Timestamp(row.get(3)?),
        })
    })
}

/// Returns the events that meet a condition with a value, the oldest first, up to a limit.
pub(crate) fn events(
    connection: &Connection,
    condition: &str,
    values: impl Params,
) -> Result<Vec<Event>, Error> {
    let statement = format!(
        "SELECT events.id, issues.id, actor, kind, value, at FROM events
         JOIN issues ON issues.num = events.issue {condition} ORDER BY events.id LIMIT ?2"
    );
    query_rows(connection, &statement, values, |row| {
        Ok(Event {
            id: row.get(0)?,
            issue: row.get(1)?,
            actor: row.get(2)?,
            kind: row.get(3)?,
            value: row.get(4)?,
            at: Timestamp(row.get(5)?),
        })
    })
}

/// Returns the issues that depend on one, in the order of their ids.
pub(crate) fn dependents_of(connection: &Connection, num: i64) -> Result<Vec<Dependent>, Error> {
    let statement = "SELECT id, kind, status, title FROM dependencies JOIN issues ON num = issue
        WHERE depends_on = ? ORDER BY id, kind";
    query_rows(connection, statement, params![num], |row| {
        Ok(Dependent {
            id: row.get(0)?,
            kind: row.get(1)?,
            status: row.get(2)?,
            title: row.get(3)?,
        })
    })
}

/// Returns the first column of all rows.
pub(crate) fn query<T: FromSql>(
    connection: &Connection,
    statement: &str,
    values: impl Params,
) -> Result<Vec<T>, Error> {
    query_rows(connection, statement, values, |row| row.get(0))
}

pub(crate) fn query_rows<T>(
    connection: &Connection,
    statement: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Error> {
    connection
        .prepare_cached(statement)
        .and_then(|mut statement| statement.query_map(values, read)?.collect())
        .doing("reading issues")
}
