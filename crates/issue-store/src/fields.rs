//! The columns that an update changes, in one statement.

use rusqlite::types::Value;
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::error::{Doing as _, Error};
use crate::issue::Status;
use crate::request::Patch;
use crate::time::Timestamp;

/// The new values of columns.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    columns: Vec<(&'static str, Text<'a>)>,
    status: Option<Status>,
    now: Timestamp,
}
