//! The content of requests, and the values that are allowed in it.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::issue::{Dependency, IssueType, MAX_PRIORITY, MAX_TITLE, Status};

/// The longest label, in bytes.
const MAX_LABEL: usize = 200;
/// The longest id, in bytes.
const MAX_ID: usize = 100;

/// The labels of a request, at most.
const MAX_LABELS: usize = 100;
/// The dependencies of a new issue, at most.
pub(crate) const MAX_DEPENDENCIES: usize = 1_000;

/// A new issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NewIssue {
    /// The id; without one the store gives a short one.
    pub id: Option<String>,
    /// The id of a parent: without an id of its own, the issue gets the parent's and a number.
    pub parent: Option<String>,
    /// The title: 1 to [`MAX_TITLE`] bytes.
    pub title: String,
    /// The description.
    pub description: String,
    /// The design.
    pub design: String,
    /// The acceptance criteria.
    pub acceptance_criteria: String,
    /// The name of the one who works on it.
    pub assignee: String,
    /// The type.
    pub issue_type: IssueType,
    /// The priority, from 0 to [`MAX_PRIORITY`].
    pub priority: u8,
    /// Labels.
    pub labels: Vec<String>,
    /// The issues that it depends on.
    pub dependencies: Vec<Dependency>,
}

impl Default for NewIssue {
    fn default() -> Self {
        Self {
            id: None,
            parent: None,
            title: String::new(),
            description: String::new(),
            design: String::new(),
            acceptance_criteria: String::new(),
            assignee: String::new(),
            issue_type: IssueType::Task,
            priority: 2,
            labels: Vec::new(),
            dependencies: Vec::new(),
        }
    }
}

/// The changes of an issue; a field that is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Patch {
    /// The new title.
    pub title: Option<String>,
    /// The new description.
    pub description: Option<String>,
    /// The new design.
    pub design: Option<String>,
    /// The new acceptance criteria.
    pub acceptance_criteria: Option<String>,
    /// The new notes.
    pub notes: Option<String>,
    /// The new progress.
    pub status: Option<Status>,
    /// The new priority.
    pub priority: Option<u8>,
    /// The new type.
    pub issue_type: Option<IssueType>,
    /// The new assignee; an empty name is none.
    pub assignee: Option<String>,
    /// Labels to add.
    pub add_labels: Vec<String>,
    /// Labels to remove.
    pub remove_labels: Vec<String>,
    /// Labels to have, instead of all others.
    pub set_labels: Option<Vec<String>>,
    /// The progress that the issue must have for the changes to be made.
    pub expected_status: Option<Status>,
    /// The assignee that the issue must have for the changes to be made; an empty name is none.
    pub expected_assignee: Option<String>,
}

pub(crate) fn check_title(title: &str) -> Result<(), Error> {
    if title.is_empty() || title.len() > MAX_TITLE {
        let problem = format!("has {} bytes: 1 to {MAX_TITLE} are allowed", title.len());
        return Err(Error::invalid("title", problem));
    }
    Ok(())
}

pub(crate) fn check_priority(priority: u8) -> Result<(), Error> {
    if priority > MAX_PRIORITY {
        let problem = format!("is {priority}: 0 (the most urgent) to {MAX_PRIORITY} are allowed");
        return Err(Error::invalid("priority", problem));
    }
    Ok(())
}

pub(crate) fn check_id(id: &str) -> Result<(), Error> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if id.is_empty() || id.len() > MAX_ID || !id.bytes().all(fits) {
        let problem = format!("{id:?} must be 1 to {MAX_ID} of a-z, A-Z, 0-9, '-', '_' and '.'");
        return Err(Error::invalid("id", problem));
    }
    Ok(())
}

pub(crate) fn check_labels(labels: &[String]) -> Result<(), Error> {
    check_number("labels", labels.len(), MAX_LABELS)
}

/// Checks the number of values of a field.
pub(crate) fn check_number(field: &'static str, number: usize, most: usize) -> Result<(), Error> {
    if number > most {
        Err(Error::invalid(
            field,
            format!("{number} are too many: {most} are allowed"),
        ))
    } else {
        Ok(())
    }
}

pub(crate) fn check_label(label: &str) -> Result<(), Error> {
    if label.is_empty() || label.len() > MAX_LABEL {
        let problem = format!("{label:?} must have 1 to {MAX_LABEL} bytes");
        return Err(Error::invalid("label", problem));
    }
    Ok(())
}
