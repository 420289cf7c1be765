//! Reads issues, beside the writer and without waiting for it.

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};
use serde::{Deserialize, Serialize};

use crate::changes::import::Record;
use crate::error::{Doing as _, Error};
use crate::filter::{Conditions, Filter, ReadyFilter};
use crate::issue::{Comment, Dependency, DependencyKind, Event, Issue, Status};
use crate::time::Timestamp;

/// The columns of an issue, in the order in which [`Loaded::read`] takes them.
const COLUMNS: &str = "num, id, title, description, design, acceptance_criteria, notes, status, priority, issue_type, \
                       assignee, created_at, updated_at, closed_at, close_reason";
/// The order of ready issues.
pub(crate) const READY_ORDER: &str = "ORDER BY priority, created_at, num";
/// Ids that an error lists.
pub(crate) const CANDIDATES: u32 = 5;
/// The issues with a label up to which a list begins with them. Beyond, it walks through the issues in their order, and
/// finds a page of 50 of 100,000 after 2,500 on average.
const RARE: u32 = 2_000;

/// A connection that reads. Each call sees all that was committed before it.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
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
        Self { connection }
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
    /// The filter has too many ids or labels, or SQLite fails.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Issue>, Error> {
        self.consistent(|connection| {
            let conditions = Conditions::of_list(filter, |labels| is_rare(connection, labels))?;
            list(connection, conditions, filter.sort.order(), filter.limit)
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
    /// SQLite fails.
    pub fn ready(&self, filter: &ReadyFilter) -> Result<Vec<Issue>, Error> {
        self.consistent(|connection| {
            let conditions = Conditions::of_ready(filter, |labels| is_rare(connection, labels))?;
            list(connection, conditions, READY_ORDER, filter.limit)
        })
    }

    /// Returns the unfinished issues that are blocked, each with the unfinished issues that block it directly.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn blocked(&self) -> Result<Vec<(Issue, Vec<String>)>, Error> {
        self.consistent(|connection| {
            let statement =
                "SELECT num FROM issues WHERE status <> 3 AND blockers + blocked_parents > 0
                ORDER BY priority, created_at DESC, num DESC";
            let nums: Vec<i64> = query(connection, statement, params![])?;
            let blocker =
                "SELECT other.id FROM dependencies JOIN issues AS other ON other.num = depends_on
                WHERE issue = ? AND kind = 0 AND other.status <> 3 ORDER BY other.id";
            let with_blockers = nums.into_iter().map(|num| {
                let issue = issue_of(connection, num)?;
                Ok((issue, query(connection, blocker, params![num])?))
            });
            with_blockers.collect()
        })
    }

    /// Returns the unfinished issues that have not changed since a time, those that have waited longest first.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn stale(&self, since: Timestamp, limit: Option<u32>) -> Result<Vec<Issue>, Error> {
        self.consistent(|connection| {
            let statement = "SELECT num FROM issues WHERE status <> 3 AND updated_at < ?
                ORDER BY updated_at, num LIMIT ?";
            let nums: Vec<i64> = query(connection, statement, params![since.0, limit_of(limit)])?;
            nums.into_iter()
                .map(|num| issue_of(connection, num))
                .collect()
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

    /// Returns the issues with greater numbers than `after`, with all that belongs to them; with their events only if
    /// asked for. A page is consistent in itself; issues may change between two pages.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn export(&self, after: i64, limit: u32, with_events: bool) -> Result<Page, Error> {
        self.consistent(|connection| {
            let statement = "SELECT num FROM issues WHERE num > ? ORDER BY num LIMIT ?";
            let nums: Vec<i64> = query(connection, statement, params![after, limit])?;
            let next = nums.last().copied().filter(|_| nums.len() as u32 == limit);
            let records = nums.into_iter().map(|num| {
                Ok(Record {
                    num,
                    issue: issue_of(connection, num)?,
                    comments: comments_of(connection, num)?,
                    events: match with_events {
                        true => events(connection, "WHERE events.issue = ?1", params![num, -1])?,
                        false => Vec::new(),
                    },
                })
            });
            Ok(Page {
                records: records.collect::<Result<_, Error>>()?,
                next,
            })
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
    /// SQLite fails.
    pub fn events(&self, after: i64, limit: u32) -> Result<Vec<Event>, Error> {
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

/// A row of an issue, without what stands in other tables.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) num: i64,
    pub(crate) issue: Issue,
}

impl Loaded {
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

/// Returns the issues that meet all conditions, in an order.
pub(crate) fn list(
    connection: &Connection,
    conditions: Conditions,
    order: &str,
    limit: Option<u32>,
) -> Result<Vec<Issue>, Error> {
    let statement = list_statement(&conditions, order);
    let mut values = conditions.values;
    values.push(Value::from(limit_of(limit)));
    let values = params_from_iter(values);
    let loaded = query_rows(connection, &statement, values, Loaded::read)?;
    loaded
        .into_iter()
        .map(|loaded| loaded.complete(connection))
        .collect()
}

fn list_statement(conditions: &Conditions, order: &str) -> String {
    let clause = conditions.clause();
    format!("SELECT {COLUMNS} FROM issues {clause} {order} LIMIT ?")
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
        .and_then(|mut statement| statement.query_row([num], Loaded::read))
        .doing("reading an issue")?;
    loaded.complete(connection)
}

/// Returns the labels of an issue, in the order of the alphabet.
pub(crate) fn labels_of(connection: &Connection, num: i64) -> Result<Vec<String>, Error> {
    let statement = "SELECT label FROM labels WHERE issue = ? ORDER BY label";
    query(connection, statement, params![num])
}

fn comments_of(connection: &Connection, num: i64) -> Result<Vec<Comment>, Error> {
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
fn events(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
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

/// Returns true if few issues have one of some labels.
pub(crate) fn is_rare(connection: &Connection, labels: &[String]) -> Result<bool, Error> {
    let marks = vec!["?"; labels.len()].join(", ");
    let statement = format!(
        "SELECT count(*) FROM (SELECT 1 FROM labels WHERE label IN ({marks}) LIMIT {RARE})"
    );
    let counts: Vec<u32> = query(connection, &statement, params_from_iter(labels))?;
    Ok(counts.first().is_some_and(|count| *count < RARE))
}

/// Returns the value for LIMIT; -1 is none.
fn limit_of(limit: Option<u32>) -> i64 {
    limit.map_or(-1, i64::from)
}

/// Returns the first column of all rows.
fn query<T: rusqlite::types::FromSql>(
    connection: &Connection,
    statement: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<T>, Error> {
    query_rows(connection, statement, values, |row| row.get(0))
}

fn query_rows<T>(
    connection: &Connection,
    statement: &str,
    values: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Error> {
    connection
        .prepare_cached(statement)
        .and_then(|mut statement| statement.query_map(values, read)?.collect())
        .doing("reading issues")
}

fn check(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut differences: Vec<String> = query(
        connection,
        "SELECT 'counter of status ' || counters.status || ' is ' || counters.issues || ', but ' || count(num) || ' rows have it'
         FROM counters LEFT JOIN issues ON issues.status = counters.status
         GROUP BY counters.status HAVING counters.issues <> count(num)",
        params![],
    )?;
    differences.extend(query::<String>(
        connection,
        "SELECT id || ' notes ' || blockers || ' blockers, but has ' || found FROM (
            SELECT id, blockers, (SELECT count(*) FROM dependencies JOIN issues AS other ON other.num = depends_on
                WHERE issue = issues.num AND kind = 0 AND other.status <> 3) AS found FROM issues)
         WHERE blockers <> found",
        params![],
    )?);
    // If each is right given its parents, then all are, as those that block have no circles.
    differences.extend(query::<String>(
        connection,
        "SELECT id || ' notes ' || blocked_parents || ' blocked parents, but has ' || found FROM (
            SELECT id, blocked_parents, (SELECT count(*) FROM dependencies JOIN issues AS other ON other.num = depends_on
                WHERE issue = issues.num AND kind = 2 AND other.blockers + other.blocked_parents > 0) AS found FROM issues)
         WHERE blocked_parents <> found",
        params![],
    )?);
    let damage: Vec<String> = query(connection, "PRAGMA integrity_check(10)", params![])?;
    differences.extend(damage.into_iter().filter(|text| text != "ok"));
    Ok(differences)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewIssue, Options, Store};

    /// Returns how SQLite finds the issues of a list, with few issues that have the labels or with many.
    fn plan(reader: &Reader, filter: &Filter, is_rare: bool) -> String {
        let conditions = Conditions::of_list(filter, |_| Ok(is_rare)).unwrap();
        explain(reader, conditions, filter.sort.order())
    }

    fn plan_of_ready(reader: &Reader, filter: &ReadyFilter, is_rare: bool) -> String {
        let conditions = Conditions::of_ready(filter, |_| Ok(is_rare)).unwrap();
        explain(reader, conditions, READY_ORDER)
    }

    fn explain(reader: &Reader, conditions: Conditions, order: &str) -> String {
        let statement = format!("EXPLAIN QUERY PLAN {}", list_statement(&conditions, order));
        let mut values = conditions.values;
        values.push(Value::from(10));
        let mut explained = reader.connection.prepare(&statement).unwrap();
        let rows = explained.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
        rows.unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap()
            .join("; ")
    }

    #[test]
    fn a_list_by_assignee_or_label_is_found_by_an_index() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("issues.db"), Options::default()).unwrap();
        let reader = store.reader().unwrap();
        let assignee = Some("ann".to_owned());
        let by_assignee = Filter {
            assignee: assignee.clone(),
            ..Filter::default()
        };
        let labels = vec!["x".to_owned(), "y".to_owned()];
        let by_labels = Filter {
            labels: labels.clone(),
            ..Filter::default()
        };
        let by_any = Filter {
            labels_any: labels.clone(),
            ..Filter::default()
        };
        let ready_by_assignee = ReadyFilter {
            assignee,
            ..ReadyFilter::default()
        };
        let ready_by_labels = ReadyFilter {
            labels,
            ..ReadyFilter::default()
        };
        let by_number = "USING INTEGER PRIMARY KEY (rowid=?)";
        let by_label = "(label=? AND issue=?)";
        for (plan, expected) in [
            (
                plan(&reader, &by_assignee, true),
                "USING INDEX issues_assigned (assignee=?)",
            ),
            (plan(&reader, &by_labels, true), by_number),
            (plan(&reader, &by_any, true), by_number),
            (plan(&reader, &by_labels, false), by_label),
            (
                plan(&reader, &by_labels, false),
                "USING INDEX issues_in_order",
            ),
            (plan(&reader, &by_any, false), by_label),
            (
                plan_of_ready(&reader, &ready_by_assignee, true),
                "USING INDEX issues_assigned_ready (assignee=?)",
            ),
            (plan_of_ready(&reader, &ready_by_labels, true), by_number),
            (plan_of_ready(&reader, &ready_by_labels, false), by_label),
            (
                plan_of_ready(&reader, &ready_by_labels, false),
                "USING INDEX issues_ready",
            ),
        ] {
            assert!(plan.contains(expected), "{plan}");
            let scans = plan.split("; ").filter(|step| step.starts_with("SCAN"));
            let walks = |step: &&str| step.contains("USING INDEX");
            assert!(scans.into_iter().all(|step| walks(&step)), "{plan}");
        }
    }

    #[test]
    fn a_label_of_few_and_of_many_issues_gives_the_same_list() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("issues.db"), Options::default()).unwrap();
        let mut writer = store.writer().unwrap();
        let create = |changes: &mut crate::Changes<'_>| {
            for number in 0..20 {
                let label = if number % 3 == 0 { "x" } else { "y" };
                let new = NewIssue {
                    title: number.to_string(),
                    priority: number % 5,
                    labels: vec![label.to_owned(), "all".to_owned()],
                    ..NewIssue::default()
                };
                changes.create("a", &new)?;
            }
            Ok(())
        };
        writer.apply(Timestamp(1), create).unwrap();
        let reader = store.reader().unwrap();
        let filter = Filter {
            labels: vec!["all".to_owned()],
            labels_any: vec!["x".to_owned(), "none".to_owned()],
            ..Filter::default()
        };
        let [few, many] = [true, false].map(|is_rare| {
            let conditions = Conditions::of_list(&filter, |_| Ok(is_rare)).unwrap();
            list(&reader.connection, conditions, filter.sort.order(), None).unwrap()
        });
        assert_eq!(few, many);
        assert_eq!(few.len(), 7);
    }
}
