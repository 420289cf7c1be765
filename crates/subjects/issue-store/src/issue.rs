//! Issues, and the records that belong to them.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::{Deserialize, Serialize};

use crate::object::Object;
use crate::time::Timestamp;

/// The longest title, in bytes.
pub const MAX_TITLE: usize = 500;
/// The least urgent priority; 0 is the most urgent.
pub const MAX_PRIORITY: u8 = 4;

/// Defines an enum whose variants have names in the protocol and numbers in the database.
macro_rules! stored_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant = $number),*
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name in the protocol.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(*self as i64))
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                match value.as_i64()? {
                    $($number => Ok(Self::$variant),)*
                    other => Err(FromSqlError::OutOfRange(other)),
                }
            }
        }
    };
}

stored_enum! {
    /// The progress of an issue.
    Status {
        /// No work on it has begun.
        Open = 0 "open",
        /// Work on it has begun.
        InProgress = 1 "in_progress",
        /// Waits for something that is not an issue.
        Blocked = 2 "blocked",
        /// Finished.
        Closed = 3 "closed",
    }
}

stored_enum! {
    /// The type of an issue.
    IssueType {
        /// Something is wrong.
        Bug = 0 "bug",
        /// Something is missing.
        Feature = 1 "feature",
        /// Something is to be done.
        Task = 2 "task",
        /// A collection of other issues.
        Epic = 3 "epic",
        /// Something that users do not notice.
        Chore = 4 "chore",
    }
}

stored_enum! {
    /// The relation of an issue to the one it depends on.
    DependencyKind {
        /// The other issue must be closed first.
        Blocks = 0 "blocks",
        /// The issues concern each other.
        Related = 1 "related",
        /// The other issue is the parent. An issue is not ready while its parent is blocked.
        ParentChild = 2 "parent-child",
        /// The issue was found during the work on the other one.
        DiscoveredFrom = 3 "discovered-from",
    }
}

impl DependencyKind {
    /// Returns the kind of a dependency that names none.
    #[must_use]
    pub fn default_kind() -> Self {
        Self::Blocks
    }

    /// Returns true if such a dependency can keep an issue from being ready.
    pub(crate) fn blocks(self) -> bool {
        matches!(self, Self::Blocks | Self::ParentChild)
    }
}

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// The id: a prefix and a short random text, or the id of the parent and a number.
    pub id: String,
    /// The title: 1 to [`MAX_TITLE`] bytes.
    pub title: String,
    /// The description.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The design.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub design: String,
    /// The acceptance criteria.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub acceptance_criteria: String,
    /// Notes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// The progress.
    pub status: Status,
    /// The priority, from 0 (the most urgent) to [`MAX_PRIORITY`].
    pub priority: u8,
    /// The type.
    pub issue_type: IssueType,
    /// The name of the one who works on it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub assignee: String,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its last change.
    pub updated_at: Timestamp,
    /// The time since when it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// The reason why it was closed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub close_reason: String,
    /// Its labels, in the order of the alphabet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The issues that it depends on, in the order of their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
}

impl Issue {
    /// Returns the bytes of all that may be long.
    pub(crate) fn text_bytes(&self) -> usize {
        let texts = [
            &self.title,
            &self.description,
            &self.design,
            &self.acceptance_criteria,
            &self.notes,
            &self.close_reason,
        ];
        let ids = self.dependencies.iter().map(|other| &other.depends_on);
        let texts = texts.into_iter().chain(&self.labels).chain(ids);
        texts.map(String::len).sum()
    }
}

/// A dependency of an issue. It is also read from the id alone, as one that blocks, and by the names that bd gives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "DependencyForm")]
pub struct Dependency {
    /// The id of the issue that is depended on.
    pub depends_on: String,
    /// The relation to it.
    pub kind: DependencyKind,
}

/// An issue that depends on another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependent {
    /// Its id.
    pub id: String,
    /// Its relation to the other one.
    pub kind: DependencyKind,
    /// Its progress.
    pub status: Status,
    /// Its title.
    pub title: String,
}

/// The ways to write a dependency.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a dependency is an id, or an object such as {\"depends_on\":\"issue-a1b\",\"kind\":\"blocks\"}"
)]
enum DependencyForm {
    Id(String),
    Object(Object<DependencyMembers>),
}

#[derive(Deserialize)]
struct DependencyMembers {
    #[serde(alias = "depends_on_id")]
    depends_on: String,
    #[serde(alias = "type", default = "DependencyKind::default_kind")]
    kind: DependencyKind,
}

impl From<DependencyForm> for Dependency {
    fn from(form: DependencyForm) -> Self {
        let (depends_on, kind) = match form {
            DependencyForm::Id(depends_on) => (depends_on, DependencyKind::Blocks),
            DependencyForm::Object(Object(members)) => (members.depends_on, members.kind),
        };
        Self { depends_on, kind }
    }
}

/// A comment on an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// The number of the comment; later ones have greater numbers.
    pub id: i64,
    /// Its author.
    pub author: String,
    /// Its text.
    pub text: String,
    /// The time of its creation.
    pub created_at: Timestamp,
}

/// A change of an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The number of the event in the database; later ones have greater numbers.
    pub id: i64,
    /// The id of the changed issue.
    pub issue: String,
    /// The one who made the change.
    pub actor: String,
    /// The kind of the change, such as `created` or `label_added`.
    pub kind: String,
    /// The changed value, such as a label or the names of the changed fields.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The time of the change.
    pub at: Timestamp,
}
