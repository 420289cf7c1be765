//! Reads issues, beside the writer and without waiting for it.

use std::collections::HashSet;

use rusqlite::{Connection, params, params_from_iter};
use serde::{Deserialize, Serialize};

use crate::changes::import::Record;
use crate::check::check;
use crate::conditions::{Conditions, is_rare, is_rare_text, list};
use crate::error::{Error, ErrorContext as _};
use crate::filter::{Filter, READY_ORDER, ReadyFilter, STALE_ORDER, Sort};
use crate::issue::{Comment, DependencyKind, Dependent, Event, Issue, Status};
use crate::request::check_number;
use crate::rows::{comments_of, dependents_of, events, issue_of, num_of, query, query_rows};
use crate::time::Timestamp;

/// Ids that an error lists.
pub(crate) const CANDIDATES: u32 = 5;

/// A connection that reads. Each call sees all that was committed before it.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
    page: PageSize,
}

/// The size of a page of issues: it is full when it reaches one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize {
    /// The number of issues.
    pub issues: u32,
    /// The bytes of their texts. The last issue of a page may exceed them.
    pub bytes: usize,
}

impl PageSize {
    /// The size unless another one is set.
    pub const USUAL: Self = Self {
        issues: 1_000,
        bytes: 4 << 20,
    };

    /// Returns the size with at most this number of issues.
    pub(crate) fn limited(self, limit: Option<u32>) -> Self {
        Self {
            issues: limit.map_or(self.issues, |limit| limit.min(self.issues)),
            ..self
        }
    }
}

/// A part of a list. An issue that keeps its place in the order is on exactly one page, whatever is written meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuePage<T = Issue> {
    /// The issues.
    pub issues: Vec<T>,
    /// The key after which the next page begins; absent if the page is not full, so that it is the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An issue that is blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// The issue.
    pub issue: Issue,
    /// The unfinished issues that block it directly, in the order of their ids.
    pub blocked_by: Vec<String>,
}

/// The number of issues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// All issues.
    pub total: u64,
    /// Issues that nobody works on.
    pub open: u64,
    /// Issues that somebody works on.
    pub in_progress: u64,
    /// Issues that wait for something else.
    pub blocked: u64,
    /// Finished issues.
    pub closed: u64,
    /// Open issues that can be worked on.
    pub ready: u64,
}

/// A part of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The records, in the order of their numbers.
    pub records: Vec<Record>,
    /// The number after which the next page begins; absent at the end.
    pub next: Option<i64>,
}

/// An issue with what concerns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// The issue.
    #[serde(flatten)]
    pub issue: Issue,
    /// The comments on it, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<Comment>,
    /// The issues that depend on it, in the order of their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<Dependent>,
}

/// An issue in the tree of what an issue depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeNode {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its progress.
    pub status: Status,
    /// The number of dependencies between it and the root.
    pub depth: u32,
    /// The relation of the issue above to it; absent for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<DependencyKind>,
    /// True if it stands higher up in the tree already, so that what it depends on is not repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_repeated: bool,
}

impl Reader {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            page: PageSize::USUAL,
        }
    }

    /// Sets the size of pages.
    #[must_use]
    pub fn with_page_size(self, page: PageSize) -> Self {
        Self { page, ..self }
    }

    /// Returns an issue.
    ///
    /// # Errors
    /// It does not exist, or SQLite fails.
    pub fn show(&self, id: &str) -> Result<Issue, Error> {
        self.consistent(|connection| {
            let num = num_of(connection, id)?;
            issue_of(connection, num)
        })
    }

    /// Returns an issue with the comments on it and the issues that depend on it.
    ///
    /// # Errors
    /// It does not exist, or SQLite fails.
    pub fn details(&self, id: &str) -> Result<Details, Error> {
        self.consistent(|connection| {
            let num = num_of(connection, id)?;
            Ok(Details {
                issue: issue_of(connection, num)?,
                comments: comments_of(connection, num)?,
                dependents: dependents_of(connection, num)?,
            })
        })
    }

    /// Returns the id of the only issue whose id begins like this, with or without the prefix before the hyphen.
    ///
    /// # Errors
    /// None or several issues have such an id, or SQLite fails.
    pub fn resolve(&self, beginning: &str) -> Result<String, Error> {
        if beginning.is_empty() {
            return Err(Error::NoIssue(String::new()));
        }
        // The second one scans all ids.
        for statement in [
            "SELECT id FROM issues WHERE id >= ?1 AND id < ?1 || char(0x10ffff) ORDER BY id LIMIT ?2",
            "SELECT id FROM issues WHERE substr(id, instr(id, '-') + 1, length(?1)) = ?1 ORDER BY id LIMIT ?2",
        ] {
            let values = params![beginning, CANDIDATES];
            let found: Vec<String> = query(&self.connection, statement, values)?;
            match found.as_slice() {
                [] => {}
                [only] => return Ok(only.clone()),
                // An exact id is the first of those that begin like it.
                [first, ..] if first == beginning => return Ok(first.clone()),
                _ => {
                    return Err(Error::Ambiguous {
                        prefix: beginning.to_owned(),
                        candidates: found,
                    });
                }
            }
        }
        Err(Error::NoIssue(beginning.to_owned()))
    }

    /// Returns the issues that meet all conditions, in the order of the filter.
    ///
    /// # Errors
    /// The filter has too many ids or labels, or an `after` that is not of a list in its order, or SQLite fails.
    pub fn list(&self, filter: &Filter) -> Result<IssuePage, Error> {
        self.consistent(|connection| {
            let order = filter.sort.order();
            let is_rare = |labels: &[String]| is_rare(connection, order, labels);
            let mut conditions = Conditions::of_list(filter, is_rare)?;
            if let Some(text) = &filter.query {
                conditions.are_found_apart |= is_rare_text(connection, order, text)?;
            }
            let (after, size) = (filter.after.as_deref(), self.page.limited(filter.limit));
            list(connection, conditions, order, after, size)
        })
    }

    /// Returns the number of issues that meet all conditions; the limit is ignored.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn count(&self, filter: &Filter) -> Result<u64, Error> {
        // All issues with the labels are counted, so there is nothing to find first.
        let conditions = Conditions::of_list(filter, |_| Ok(true))?;
        let statement = format!("SELECT count(*) FROM issues {}", conditions.clause());
        let count: i64 = self
            .connection
            .prepare_cached(&statement)
            .and_then(|mut statement| {
                statement.query_row(params_from_iter(conditions.values), |row| row.get(0))
            })
            .doing("counting issues")?;
        Ok(count as u64)
    }

    /// Returns the open issues that can be worked on, the most urgent first, and of equal ones the oldest first.
    ///
    /// # Errors
    /// The filter has too many labels, or an `after` that is not of such a list, or SQLite fails.
    pub fn ready(&self, filter: &ReadyFilter) -> Result<IssuePage, Error> {
        self.consistent(|connection| {
            let is_rare = |labels: &[String]| is_rare(connection, READY_ORDER, labels);
            let conditions = Conditions::of_ready(filter, is_rare)?;
            let (after, size) = (filter.after.as_deref(), self.page.limited(filter.limit));
            list(connection, conditions, READY_ORDER, after, size)
        })
    }

    /// Returns the unfinished issues that are blocked, the most urgent first, and of equal ones the youngest first,
    /// after the key of a page.
    ///
    /// # Errors
    /// `after` is not the key of a page, or SQLite fails.
    pub fn blocked(&self, after: Option<&str>) -> Result<IssuePage<Blocked>, Error> {
        self.consistent(|connection| {
            let mut conditions = Conditions::default();
            let no_values = Vec::<i64>::new();
            conditions.add("status <> 3 AND blockers + blocked_parents > 0", no_values);
            let order = Sort::Priority.order();
            let IssuePage { issues, next } = list(connection, conditions, order, after, self.page)?;
            let blockers =
                "SELECT other.id FROM dependencies JOIN issues AS other ON other.num = depends_on
                WHERE issue = (SELECT num FROM issues WHERE id = ?) AND kind = 0 AND other.status <> 3
                ORDER BY other.id";
            let issues = issues.into_iter().map(|issue| {
                let blocked_by = query(connection, blockers, params![issue.id])?;
                Ok(Blocked { issue, blocked_by })
            });
            Ok(IssuePage {
                issues: issues.collect::<Result<_, Error>>()?,
                next,
            })
        })
    }

    /// Returns the unfinished issues that have not changed since a time, those that have waited longest first, after
    /// the key of a page.
    ///
    /// # Errors
    /// `after` is not the key of a page, or SQLite fails.
    pub fn stale(
        &self,
        since: Timestamp,
        limit: Option<u32>,
        after: Option<&str>,
    ) -> Result<IssuePage, Error> {
        self.consistent(|connection| {
            let mut conditions = Conditions::default();
            conditions.add("status <> 3 AND updated_at < ?", vec![since.0]);
            let size = self.page.limited(limit);
            list(connection, conditions, STALE_ORDER, after, size)
        })
    }

    /// Returns the number of issues by progress, from the counters, and of those that are ready.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.consistent(|connection| {
            let counts: Vec<i64> = query(
                connection,
                "SELECT issues FROM counters ORDER BY status",
                params![],
            )?;
            let ready = "SELECT count(*) FROM issues WHERE status = 0 AND blockers = 0 AND blocked_parents = 0";
            let ready: Vec<i64> = query(connection, ready, params![])?;
            let count = |status: Status| counts.get(status as usize).copied().unwrap_or(0) as u64;
            Ok(Stats {
                total: counts.iter().sum::<i64>() as u64,
                open: count(Status::Open),
                in_progress: count(Status::InProgress),
                blocked: count(Status::Blocked),
                closed: count(Status::Closed),
                ready: ready.first().copied().unwrap_or(0) as u64,
            })
        })
    }

    /// Returns an issue and all that it depends on, depth first. An issue that stands in the tree already is repeated
    /// without what it depends on.
    ///
    /// # Errors
    /// The issue does not exist, or SQLite fails.
    pub fn tree(&self, id: &str, max_depth: u32) -> Result<Vec<TreeNode>, Error> {
        self.consistent(|connection| {
            let mut tree = Vec::new();
            let mut seen = HashSet::new();
            let mut ahead = vec![(num_of(connection, id)?, 0, None)];
            while let Some((num, depth, kind)) = ahead.pop() {
                let is_repeated = !seen.insert(num);
                let statement = "SELECT id, title, status FROM issues WHERE num = ?";
                tree.push(
                    connection
                        .prepare_cached(statement)
                        .and_then(|mut statement| {
                            statement.query_row([num], |row| {
                                Ok(TreeNode {
                                    id: row.get(0)?,
                                    title: row.get(1)?,
                                    status: row.get(2)?,
                                    depth,
                                    kind,
                                    is_repeated,
                                })
                            })
                        })
                        .doing("reading a dependency tree")?,
                );
                if is_repeated || depth >= max_depth {
                    continue;
                }
                let statement = "SELECT depends_on, kind FROM dependencies JOIN issues AS other
                    ON other.num = depends_on WHERE issue = ? ORDER BY other.id DESC";
                let below: Vec<(i64, DependencyKind)> =
                    query_rows(connection, statement, params![num], |row| {
                        Ok((row.get(0)?, row.get(1)?))
                    })?;
                ahead.extend(
                    below
                        .into_iter()
                        .map(|(num, kind)| (num, depth + 1, Some(kind))),
                );
            }
            Ok(tree)
        })
    }

    /// Returns the issues with greater numbers than `after` until the page is full, with all that belongs to them; with
    /// their events only if asked for. A page is consistent in itself; issues may change between two pages.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn export(&self, after: i64, limit: u32, with_events: bool) -> Result<Page, Error> {
        let limit = limit.min(self.page.issues);
        self.consistent(|connection| {
            let statement = "SELECT num FROM issues WHERE num > ? ORDER BY num LIMIT ?";
            let nums: Vec<i64> = query(connection, statement, params![after, limit])?;
            let (mut records, mut bytes) = (Vec::with_capacity(nums.len()), 0);
            for num in nums {
                let (issue, comments) = (issue_of(connection, num)?, comments_of(connection, num)?);
                let texts = comments.iter().map(|comment| comment.text.len());
                bytes += issue.text_bytes() + texts.sum::<usize>();
                let events = if with_events {
                    events(connection, "WHERE events.issue = ?1", params![num, -1])?
                } else {
                    Vec::new()
                };
                records.push(Record {
                    num,
                    issue,
                    comments,
                    events,
                });
                if records.len() == limit as usize || bytes >= self.page.bytes {
                    let next = Some(num);
                    return Ok(Page { records, next });
                }
            }
            let next = None;
            Ok(Page { records, next })
        })
    }

    /// Returns the comments on an issue, the oldest first.
    ///
    /// # Errors
    /// The issue does not exist, or SQLite fails.
    pub fn comments(&self, id: &str) -> Result<Vec<Comment>, Error> {
        self.consistent(|connection| {
            let num = num_of(connection, id)?;
            comments_of(connection, num)
        })
    }

    /// Returns the events with greater numbers than `after`, the oldest first.
    ///
    /// # Errors
    /// The limit is beyond the issues of a page, or SQLite fails.
    pub fn events(&self, after: i64, limit: u32) -> Result<Vec<Event>, Error> {
        check_number("limit", limit as usize, self.page.issues as usize)?;
        events(
            &self.connection,
            "WHERE events.id > ?1",
            params![after, limit],
        )
    }

    /// Checks that the counters, and what is noted about blocked issues, agree with the rows. Returns the differences.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn check(&self) -> Result<Vec<String>, Error> {
        self.consistent(check)
    }

    /// Reads several statements from one state of the database.
    fn consistent<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let transaction = self
            .connection
            .unchecked_transaction()
            .doing("beginning to read")?;
        read(&transaction)
    }
}
