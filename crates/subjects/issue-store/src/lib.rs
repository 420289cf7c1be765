//! Stores issues in one SQLite database: their dependencies, labels, comments and events, and which issues are ready to be
//! worked on.
//!
//! A [`Store`] is a database file. Its [`Writer`] holds the only connection that writes; it commits several requests as
//! one [`Group`], in which a request that fails takes nothing of the others with it.
//! [`Reader`]s read beside it and never wait for it (SQLite's write-ahead log).
//!
//! Several processes may use one database at once. Those that write queue for the write lock in the kernel (`flock` on a
//! file beside the database) instead of polling SQLite's own lock, for as long as they want. Opening a database and
//! reading it need no lock.
//!
//! Whether an issue is ready is stored with it: the number of unfinished issues that block it, and the number of its
//! parents that are blocked. Both are columns that a partial index covers, so that reading the first ready issues costs
//! the same in a database of any size. A write pays for it when it finishes or reopens an issue: it updates each issue
//! that it blocked, and the children of those whose state changed. The number of these is limited, because all other
//! writes wait.

mod changes;
mod check;
mod conditions;
mod error;
mod fields;
mod files;
mod filter;
mod ids;
mod issue;
mod lock;
mod object;
mod reader;
mod request;
mod rows;
mod schema;
mod store;
mod time;
mod writer;

pub use changes::Changes;
pub use changes::import::{Imported, OnConflict, Record};
pub use error::{Code, Error};
pub use files::{file_beside, open_or_create};
pub use filter::{Filter, ReadyFilter, Sort};
pub use issue::{
    Comment, Dependency, DependencyKind, Dependent, Event, Issue, IssueType, MAX_PRIORITY,
    MAX_TITLE, Status,
};
pub use object::{Object, objects};
pub use reader::{Blocked, Details, IssuePage, Page, PageSize, Reader, Stats, TreeNode};
pub use request::{NewIssue, Patch};
pub use store::{Durability, Options, Store};
pub use time::Timestamp;
pub use writer::{Group, Writer};
