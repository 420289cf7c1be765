//! The conditions of a list of issues, as a request gives them.

use serde::{Deserialize, Deserializer, Serialize};

use crate::issue::{IssueType, Status};
use crate::time::Timestamp;

/// The conditions of [`Reader::list`](crate::Reader::list); an issue meets all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// A text in the title, the description, or the id, without regard to the case of ASCII letters.
    pub query: Option<String>,
    /// The progress.
    pub status: Option<Status>,
    /// The progress that it has not.
    pub exclude_status: Option<Status>,
    /// The priority.
    pub priority: Option<u8>,
    /// The type.
    pub issue_type: Option<IssueType>,
    /// The assignee.
    pub assignee: Option<String>,
    /// Labels that it has, all of them.
    #[serde(alias = "label", deserialize_with = "one_or_several")]
    pub labels: Vec<String>,
    /// Labels; it has at least one of them.
    pub labels_any: Vec<String>,
    /// Ids; its own is among them.
    pub ids: Vec<String>,
    /// The earliest time of creation.
    pub created_after: Option<Timestamp>,
    /// The latest time of creation.
    pub created_before: Option<Timestamp>,
    /// The earliest time of the last change.
    pub updated_after: Option<Timestamp>,
    /// The latest time of the last change.
    pub updated_before: Option<Timestamp>,
    /// The earliest time of closing.
    pub closed_after: Option<Timestamp>,
    /// The latest time of closing.
    pub closed_before: Option<Timestamp>,
    /// The order.
    pub sort: Sort,
    /// The greatest number of issues.
    pub limit: Option<u32>,
    /// The [`next`](crate::IssuePage::next) of the page before; without it, the first page.
    pub after: Option<String>,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// The most urgent first, and of equal ones the youngest first.
    #[default]
    Priority,
    /// The youngest first.
    Created,
    /// The last changed first.
    Updated,
    /// By title.
    Title,
}

impl Sort {
    pub(crate) fn order(self) -> Order {
        let (columns, key, indexed) = match self {
            Self::Priority => (
                "priority, created_at DESC, num DESC",
                "priority, -created_at, -num",
                Some(""),
            ),
            Self::Created => ("created_at DESC, num DESC", "-created_at, -num", None),
            Self::Updated => ("updated_at DESC, num DESC", "-updated_at, -num", None),
            Self::Title => ("title, num", "title, num", None),
        };
        Order {
            columns,
            key,
            indexed,
        }
    }
}

/// An order of issues in SQL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// The columns by which an index finds the order.
    pub(crate) columns: &'static str,
    /// The same as values that ascend.
    pub(crate) key: &'static str,
    /// The clause of the issues that an index has in this order.
    pub(crate) indexed: Option<&'static str>,
}

/// The most urgent first, and of equal ones the oldest first.
pub(crate) const READY_ORDER: Order = Order {
    columns: "priority, created_at, num",
    key: "priority, created_at, num",
    indexed: Some("WHERE status = 0 AND blockers = 0 AND blocked_parents = 0"),
};
/// The longest unchanged first.
pub(crate) const STALE_ORDER: Order = Order {
    columns: "updated_at, num",
    key: "updated_at, num",
    indexed: None,
};

/// The conditions of [`Reader::ready`](crate::Reader::ready) beside being ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadyFilter {
    /// The assignee.
    pub assignee: Option<String>,
    /// The priority.
    pub priority: Option<u8>,
    /// Labels that it has, all of them.
    pub labels: Vec<String>,
    /// The greatest number of issues.
    pub limit: Option<u32>,
    /// The [`next`](crate::IssuePage::next) of the page before; without it, the first page.
    pub after: Option<String>,
}

/// Reads a text as a list of one, or a list.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a text or a list of texts")]
    enum Form {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Form::deserialize(deserializer)? {
        Form::One(one) => vec![one],
        Form::Several(several) => several,
    })
}
