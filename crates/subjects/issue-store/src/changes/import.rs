//! Stores issues that were exported, with all that belongs to them.

use rusqlite::{OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

use super::Changes;
use crate::error::{Error, ErrorContext as _};
use crate::issue::{Comment, Event, Issue, Status};
use crate::object::objects;
use crate::request::{check_id, check_priority, check_title};
use crate::rows::{issue_of, num_of};
use crate::time::Timestamp;

/// An issue with all that belongs to it, as [`Reader::export`](crate::Reader::export) returns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The number of the issue in its database. It orders an export, and has no meaning for an import.
    #[serde(default)]
    pub num: i64,
    /// The issue.
    #[serde(flatten)]
    pub issue: Issue,
    /// The comments on it, the oldest first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "objects"
    )]
    pub comments: Vec<Comment>,
    /// The changes of it, the oldest first, if the export was asked for them.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "objects"
    )]
    pub events: Vec<Event>,
}

/// The treatment of an imported issue whose id exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// Refuses the import.
    #[default]
    Refuse,
    /// Keeps the issue that exists.
    Skip,
    /// Replaces the issue that exists, unless it has changed after the record.
    Replace,
}

/// The outcome of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// Issues that did not exist.
    pub created: u64,
    /// Issues that existed, and were skipped.
    pub skipped: u64,
    /// Issues that existed, and were replaced.
    pub replaced: u64,
    /// The ids of issues that were not replaced, because they have changed after their records.
    pub kept: Vec<String>,
}

impl Changes<'_> {
    /// Stores records. An issue may depend on a later one, because dependencies are added when all issues are stored.
    ///
    /// # Errors
    /// A field is not allowed, an id exists, or a dependency is not allowed. Nothing is stored then.
    pub fn import(
        &mut self,
        actor: &str,
        records: &[Record],
        on_conflict: OnConflict,
    ) -> Result<Imported, Error> {
        let mut imported = Imported::default();
        let mut stored = Vec::with_capacity(records.len());
        for record in records {
            check_record(&record.issue)?;
            let num = match (self.find(&record.issue.id)?, on_conflict) {
                (None, _) => {
                    imported.created += 1;
                    self.insert_record(&record.issue)?
                }
                (Some(_), OnConflict::Refuse) => {
                    return Err(Error::Exists(record.issue.id.clone()));
                }
                (Some(_), OnConflict::Skip) => {
                    imported.skipped += 1;
                    continue;
                }
                (Some((_, updated_at)), OnConflict::Replace)
                    if updated_at > record.issue.updated_at =>
                {
                    imported.kept.push(record.issue.id.clone());
                    continue;
                }
                (Some((num, _)), OnConflict::Replace) => {
                    imported.replaced += 1;
                    self.replace_record(num, record)?;
                    num
                }
            };
            self.insert_parts(num, record)?;
            self.event(num, actor, "imported", "")?;
            stored.push((num, &record.issue));
        }
        for (num, issue) in stored {
            for dependency in &issue.dependencies {
                self.link(num, &issue.id, &dependency.depends_on, dependency.kind)?;
            }
        }
        Ok(imported)
    }

    /// Returns the number of an issue and the time of its last change.
    fn find(&self, id: &str) -> Result<Option<(i64, Timestamp)>, Error> {
        let read = |row: &Row<'_>| Ok((row.get(0)?, Timestamp(row.get(1)?)));
        self.connection
            .prepare_cached("SELECT num, updated_at FROM issues WHERE id = ?")
            .and_then(|mut statement| statement.query_row([id], read).optional())
            .doing("looking for an issue")
    }

    fn insert_record(&self, issue: &Issue) -> Result<i64, Error> {
        let statement = "INSERT INTO issues (id, title, description, design, acceptance_criteria, notes, status, priority,
            issue_type, assignee, created_at, updated_at, closed_at, close_reason)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        self.store_record(statement, issue)?;
        let num = self.connection.last_insert_rowid();
        self.count(issue.status, 1)?;
        Ok(num)
    }

    fn replace_record(&self, num: i64, record: &Record) -> Result<(), Error> {
        let issue = &record.issue;
        // A dependency that stays needs no search for a circle.
        for dependency in issue_of(self.connection, num)?.dependencies {
            if !issue.dependencies.contains(&dependency) {
                let on = num_of(self.connection, &dependency.depends_on)?;
                self.unlink(num, Some(on), Some(dependency.kind))?;
            }
        }
        // A record without events leaves those that are known.
        let events = (!record.events.is_empty()).then_some("events");
        for table in ["labels", "comments"].into_iter().chain(events) {
            self.connection
                .prepare_cached(&format!("DELETE FROM {table} WHERE issue = ?"))
                .and_then(|mut statement| statement.execute([num]))
                .doing("replacing an issue")?;
        }
        let before = self.status(num)?;
        let statement = "UPDATE issues SET title = ?2, description = ?3, design = ?4, acceptance_criteria = ?5, notes = ?6,
            status = ?7, priority = ?8, issue_type = ?9, assignee = ?10, created_at = ?11, updated_at = ?12, closed_at = ?13,
            close_reason = ?14
            WHERE id = ?1";
        self.store_record(statement, issue)?;
        self.note_status(num, before, issue.status)
    }

    fn store_record(&self, statement: &str, issue: &Issue) -> Result<(), Error> {
        // An export of another program may lack the time.
        let (closed_at, close_reason) = match issue.status {
            Status::Closed => {
                let closed_at = issue.closed_at.unwrap_or(issue.updated_at);
                (Some(closed_at.0), issue.close_reason.as_str())
            }
            _ => (None, ""),
        };
        self.connection
            .prepare_cached(statement)
            .and_then(|mut statement| {
                statement.execute(params![
                    issue.id,
                    issue.title,
                    issue.description,
                    issue.design,
                    issue.acceptance_criteria,
                    issue.notes,
                    issue.status,
                    issue.priority,
                    issue.issue_type,
                    issue.assignee,
                    issue.created_at.0,
                    issue.updated_at.0,
                    closed_at,
                    close_reason,
                ])
            })
            .doing("importing an issue")?;
        Ok(())
    }

    /// Stores the labels, comments and events of an issue that has none of these.
    fn insert_parts(&self, num: i64, record: &Record) -> Result<(), Error> {
        for label in &record.issue.labels {
            self.insert_label(num, label)?;
        }
        for comment in &record.comments {
            self.insert_comment(num, &comment.author, &comment.text, comment.created_at)?;
        }
        for event in &record.events {
            self.insert_event(num, &event.actor, &event.kind, &event.value, event.at)?;
        }
        Ok(())
    }

    pub(super) fn insert_comment(
        &self,
        num: i64,
        author: &str,
        text: &str,
        at: Timestamp,
    ) -> Result<i64, Error> {
        self.connection
            .prepare_cached(
                "INSERT INTO comments (issue, author, text, created_at) VALUES (?, ?, ?, ?)",
            )
            .and_then(|mut statement| statement.execute(params![num, author, text, at.0]))
            .doing("adding a comment")?;
        Ok(self.connection.last_insert_rowid())
    }
}

fn check_record(issue: &Issue) -> Result<(), Error> {
    check_id(&issue.id)?;
    check_title(&issue.title)?;
    check_priority(issue.priority)
}
