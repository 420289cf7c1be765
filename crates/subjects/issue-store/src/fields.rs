//! The columns that an update changes, in one statement.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};

use crate::error::{Error, ErrorContext as _};
use crate::issue::Status;
use crate::request::Patch;
use crate::time::Timestamp;

/// The new values of columns.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    columns: Vec<(&'static str, ToSqlOutput<'a>)>,
    status: Option<Status>,
    /// The reason, if the status is closed.
    close_reason: &'a str,
    now: Timestamp,
}

impl<'a> Fields<'a> {
    /// Takes the columns of a patch. The status is the patch's only if it differs from the one before.
    pub(crate) fn new(patch: &'a Patch, status: Option<Status>, now: Timestamp) -> Self {
        let texts = [
            ("title", &patch.title),
            ("description", &patch.description),
            ("design", &patch.design),
            ("acceptance_criteria", &patch.acceptance_criteria),
            ("notes", &patch.notes),
            ("assignee", &patch.assignee),
        ];
        let texts = texts.into_iter().filter_map(|(column, text)| {
            let text = ValueRef::Text(text.as_ref()?.as_bytes());
            Some((column, ToSqlOutput::Borrowed(text)))
        });
        let numbers = [
            ("priority", patch.priority.map(i64::from)),
            ("issue_type", patch.issue_type.map(|kind| kind as i64)),
        ];
        let numbers = numbers
            .into_iter()
            .filter_map(|(column, number)| Some((column, ToSqlOutput::from(number?))));
        Self {
            columns: texts.chain(numbers).collect(),
            status,
            close_reason: "",
            now,
        }
    }

    /// Takes the new status of an issue, and the reason if it is closed.
    pub(crate) fn of_status(status: Status, close_reason: &'a str, now: Timestamp) -> Self {
        Self {
            columns: Vec::new(),
            status: Some(status),
            close_reason,
            now,
        }
    }

    /// Returns the names of the changed fields, with commas between them.
    pub(crate) fn names(&self) -> String {
        let columns = self.columns.iter().map(|(column, _)| *column);
        let names: Vec<&str> = columns.chain(self.status.map(|_| "status")).collect();
        names.join(",")
    }

    /// Stores the values, and the time of the change, which never goes back, even if the clock does.
    pub(crate) fn store(self, connection: &Connection, num: i64) -> Result<(), Error> {
        let mut statement = "UPDATE issues SET updated_at = max(updated_at, ?)".to_owned();
        let mut values = vec![ToSqlOutput::from(self.now.0)];
        let status = self.status.into_iter().flat_map(|status| {
            let closed_at = (status == Status::Closed).then_some(self.now.0);
            let closed_at =
                closed_at.map_or(ToSqlOutput::Borrowed(ValueRef::Null), ToSqlOutput::from);
            [
                ("status", ToSqlOutput::from(status as i64)),
                ("closed_at", closed_at),
                (
                    "close_reason",
                    ToSqlOutput::Borrowed(ValueRef::Text(self.close_reason.as_bytes())),
                ),
            ]
        });
        for (column, value) in self.columns.into_iter().chain(status) {
            statement.push_str(", ");
            statement.push_str(column);
            // The maximum with NULL is NULL.
            statement.push_str(match column {
                "closed_at" => " = max(updated_at, ?)",
                _ => " = ?",
            });
            values.push(value);
        }
        statement.push_str(" WHERE num = ?");
        values.push(ToSqlOutput::from(num));
        connection
            .prepare_cached(&statement)
            .and_then(|mut statement| statement.execute(params_from_iter(values)))
            .doing("changing an issue")?;
        Ok(())
    }
}
