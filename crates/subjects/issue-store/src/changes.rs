//! The changes that a request makes, within its part of a transaction.

mod blocking;
mod dependencies;
pub(crate) mod import;

use std::cell::Cell;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::conditions::{Conditions, is_rare, list};
use crate::error::{Error, ErrorContext as _};
use crate::fields::Fields;
use crate::filter::{READY_ORDER, ReadyFilter};
use crate::ids::Ids;
use crate::issue::{Comment, Dependency, DependencyKind, Issue, Status};
use crate::reader::{CANDIDATES, PageSize};
use crate::request::{
    MAX_DEPENDENCIES, NewIssue, Patch, check_id, check_label, check_labels, check_number,
    check_priority, check_title,
};
use crate::rows::{IssueRow, dependents_of, issue_of, labels_of, num_of};
use crate::time::Timestamp;

/// Draws of a random id before the database is taken for broken. A draw is taken with less than one in a thousand.
const DRAWS: usize = 100;

/// The issues that one request claims, at most: other writes wait for it.
const MAX_CLAIMS: usize = 1_000;

/// Makes the changes of one request.
#[derive(Debug)]
pub struct Changes<'a> {
    connection: &'a Connection,
    ids: &'a mut Ids,
    prefix: &'a str,
    now: Timestamp,
    visits_left: Cell<usize>,
}

impl<'a> Changes<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        ids: &'a mut Ids,
        prefix: &'a str,
        now: Timestamp,
    ) -> Self {
        Self {
            connection,
            ids,
            prefix,
            now,
            visits_left: Cell::new(blocking::MAX_VISITS),
        }
    }

    /// Performs a part of the request. If it fails, its changes are undone, and the others of the request stay.
    ///
    /// # Errors
    /// Errors of the part, and of SQLite.
    pub fn nested<T, E: From<Error>>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let execute = |connection: &Connection, statement| {
            let mut statement = connection.prepare_cached(statement)?;
            statement.execute([])
        };
        let doing = "a savepoint";
        execute(self.connection, "SAVEPOINT part").doing(doing)?;
        let performed = part(self);
        // SQLite may have ended the whole transaction already, as on a full disk.
        if self.connection.is_autocommit() {
            return performed;
        }
        if performed.is_err() {
            execute(self.connection, "ROLLBACK TO part").doing(doing)?;
        }
        execute(self.connection, "RELEASE part").doing(doing)?;
        performed
    }

    /// Creates an issue.
    ///
    /// # Errors
    /// A field is not allowed, the id exists, or an issue that it depends on does not.
    pub fn create(&mut self, actor: &str, new: &NewIssue) -> Result<Issue, Error> {
        check_title(&new.title)?;
        check_priority(new.priority)?;
        check_labels(&new.labels)?;
        check_number("dependencies", new.dependencies.len(), MAX_DEPENDENCIES)?;
        let parent = new.parent.as_deref();
        let parent = parent.map(|id| Ok::<_, Error>((id, num_of(self.connection, id)?)));
        let parent = parent.transpose()?;
        let (id, num) = match (&new.id, parent) {
            (Some(id), _) => {
                check_id(id)?;
                let num = self.insert(id, new)?;
                (id.clone(), num.ok_or_else(|| Error::Exists(id.clone()))?)
            }
            (None, Some((id, num))) => self.insert_child(id, num, new)?,
            (None, None) => self.insert_with_free_id(new)?,
        };
        self.event(num, actor, "created", "")?;
        let mut labels = new.labels.clone();
        labels.sort_unstable();
        labels.dedup();
        for label in &labels {
            self.insert_label(num, label)?;
        }
        let mut dependencies = Vec::new();
        if let Some((id, parent)) = parent {
            self.insert_dependency(num, parent, DependencyKind::ParentChild)?;
            dependencies.push(Dependency {
                depends_on: id.to_owned(),
                kind: DependencyKind::ParentChild,
            });
        }
        for dependency in &new.dependencies {
            if self.link_new(num, &id, dependency)? {
                dependencies.push(dependency.clone());
            }
        }
        dependencies.sort_unstable();
        // Reading it from the database would cost as much as writing it.
        Ok(Issue {
            id,
            title: new.title.clone(),
            description: new.description.clone(),
            design: new.design.clone(),
            acceptance_criteria: new.acceptance_criteria.clone(),
            notes: String::new(),
            status: Status::Open,
            priority: new.priority,
            issue_type: new.issue_type,
            assignee: new.assignee.clone(),
            created_at: self.now,
            updated_at: self.now,
            closed_at: None,
            close_reason: String::new(),
            labels,
            dependencies,
        })
    }

    /// Changes an issue.
    ///
    /// # Errors
    /// A field is not allowed, the issue does not exist, or it has not the status or the assignee that the patch
    /// expects.
    pub fn update(&mut self, actor: &str, id: &str, patch: &Patch) -> Result<Issue, Error> {
        if let Some(title) = &patch.title {
            check_title(title)?;
        }
        if let Some(priority) = patch.priority {
            check_priority(priority)?;
        }
        for labels in [&patch.add_labels, &patch.remove_labels] {
            check_labels(labels)?;
        }
        check_labels(patch.set_labels.as_deref().unwrap_or_default())?;
        let loaded = IssueRow::by_id(self.connection, id)?;
        check_expected(&loaded.issue, patch)?;
        let (num, before) = (loaded.num, loaded.issue.status);
        let status = patch.status.filter(|status| *status != before);
        let fields = Fields::new(patch, status, self.now);
        let changed = fields.names();
        fields.store(self.connection, num)?;
        if let Some(status) = status {
            self.note_status(num, before, status)?;
        }
        if !changed.is_empty() {
            self.event(num, actor, "updated", &changed)?;
        }
        if let Some(labels) = &patch.set_labels {
            let kept = |label: &String| labels.contains(label);
            let before = labels_of(self.connection, num)?;
            for label in before.iter().filter(|label| !kept(label)) {
                self.remove_label(num, actor, label)?;
            }
            self.add_labels(num, actor, labels)?;
        }
        self.add_labels(num, actor, &patch.add_labels)?;
        for label in &patch.remove_labels {
            self.remove_label(num, actor, label)?;
        }
        issue_of(self.connection, num)
    }

    /// Takes an issue to work on it: it becomes `in_progress` and gets the assignee. Of several claims, one succeeds.
    /// An issue that the assignee has claimed already stays as it is.
    ///
    /// # Errors
    /// The assignee is empty, the issue does not exist, or it is neither open and without another assignee nor in
    /// progress by this one.
    pub fn claim(&mut self, actor: &str, id: &str, assignee: &str) -> Result<Issue, Error> {
        check_assignee(assignee)?;
        let IssueRow { num, issue } = IssueRow::by_id(self.connection, id)?;
        let is_own = issue.assignee == assignee;
        match issue.status {
            Status::InProgress if is_own => return issue_of(self.connection, num),
            Status::Open if is_own || issue.assignee.is_empty() => {}
            _ => return Err(not_as_expected(&issue, "open and without an assignee")),
        }
        let patch = Patch {
            assignee: Some(assignee.to_owned()),
            ..Patch::default()
        };
        Fields::new(&patch, Some(Status::InProgress), self.now).store(self.connection, num)?;
        self.note_status(num, issue.status, Status::InProgress)?;
        self.event(num, actor, "claimed", assignee)?;
        issue_of(self.connection, num)
    }

    /// Claims the first issues that are ready, as [`Reader::ready`](crate::Reader::ready) lists them. Issues of other
    /// assignees are left out.
    ///
    /// # Errors
    /// The assignee is empty, the limit is absent or too great, or a condition is not allowed.
    pub fn claim_ready(
        &mut self,
        actor: &str,
        filter: &ReadyFilter,
        assignee: &str,
    ) -> Result<Vec<Issue>, Error> {
        check_assignee(assignee)?;
        let limit = filter.limit.unwrap_or(u32::MAX);
        check_number("limit", limit as usize, MAX_CLAIMS)?;
        let of_others = "assignee IN ('', ?)";
        let mut conditions = Conditions::of_ready(filter, |labels| {
            is_rare(self.connection, READY_ORDER, labels)
        })?;
        conditions.add_one(of_others, Some(assignee.to_owned()));
        let size = PageSize::USUAL.limited(filter.limit);
        let after = filter.after.as_deref();
        let ready = list(self.connection, conditions, READY_ORDER, after, size)?;
        ready
            .issues
            .into_iter()
            .map(|issue| self.claim(actor, &issue.id, assignee))
            .collect()
    }

    /// Closes an issue. The reason stands in it and in the event. A closed issue stays as it is.
    ///
    /// # Errors
    /// The issue does not exist.
    pub fn close(&mut self, actor: &str, id: &str, reason: &str) -> Result<Issue, Error> {
        let num = num_of(self.connection, id)?;
        if self.set_status(num, Status::Closed, reason)? {
            self.event(num, actor, "closed", reason)?;
        }
        issue_of(self.connection, num)
    }

    /// Opens an issue again. One that is not closed stays as it is.
    ///
    /// # Errors
    /// The issue does not exist.
    pub fn reopen(&mut self, actor: &str, id: &str) -> Result<Issue, Error> {
        let num = num_of(self.connection, id)?;
        if self.status(num)? == Status::Closed {
            self.set_status(num, Status::Open, "")?;
            self.event(num, actor, "reopened", "")?;
        }
        issue_of(self.connection, num)
    }

    /// Deletes an issue with all that belongs to it. Issues that depend on it are refused, unless the caller forces it:
    /// they lose the dependency.
    ///
    /// # Errors
    /// The issue does not exist, others depend on it, or too many do.
    pub fn delete(&mut self, actor: &str, id: &str, force: bool) -> Result<(), Error> {
        let num = num_of(self.connection, id)?;
        let dependents = dependents_of(self.connection, num)?;
        if !dependents.is_empty() && !force {
            let ids = dependents.iter().map(|dependent| dependent.id.clone());
            return Err(Error::HasDependents {
                issue: id.to_owned(),
                dependents: ids.take(CANDIDATES as usize).collect(),
            });
        }
        self.visit(dependents.len() * blocking::NOTED_VISITS)?;
        for dependent in dependents {
            self.remove_dependency(actor, &dependent.id, id, Some(dependent.kind))?;
        }
        self.unlink(num, None, None)?;
        self.count(self.status(num)?, -1)?;
        for statement in [
            "DELETE FROM labels WHERE issue = ?",
            "DELETE FROM comments WHERE issue = ?",
            "DELETE FROM events WHERE issue = ?",
            "DELETE FROM issues WHERE num = ?",
        ] {
            self.connection
                .prepare_cached(statement)
                .and_then(|mut statement| statement.execute([num]))
                .doing("deleting an issue")?;
        }
        Ok(())
    }

    /// Adds a label. One that the issue has stays.
    ///
    /// # Errors
    /// The label is not allowed, or the issue does not exist.
    pub fn add_label(&mut self, actor: &str, id: &str, label: &str) -> Result<(), Error> {
        let num = num_of(self.connection, id)?;
        self.add_labels(num, actor, &[label.to_owned()])?;
        self.touch(num)
    }

    /// Removes a label, if the issue has it.
    ///
    /// # Errors
    /// The issue does not exist.
    pub fn remove_label_of(&mut self, actor: &str, id: &str, label: &str) -> Result<(), Error> {
        let num = num_of(self.connection, id)?;
        self.remove_label(num, actor, label)?;
        self.touch(num)
    }

    /// Adds a comment.
    ///
    /// # Errors
    /// The text is empty, or the issue does not exist.
    pub fn comment(&mut self, author: &str, id: &str, text: &str) -> Result<Comment, Error> {
        if text.is_empty() {
            return Err(Error::invalid("text", "is empty: write the comment"));
        }
        let num = num_of(self.connection, id)?;
        let id = self.insert_comment(num, author, text, self.now)?;
        let comment = Comment {
            id,
            author: author.to_owned(),
            text: text.to_owned(),
            created_at: self.now,
        };
        self.event(num, author, "commented", "")?;
        self.touch(num)?;
        Ok(comment)
    }

    /// Returns the answer that was stored with an idempotency key.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn answer(&self, key: &str) -> Result<Option<String>, Error> {
        self.connection
            .prepare_cached("SELECT answer FROM answers WHERE key = ?")
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
            .doing("looking for an idempotency key")
    }

    /// Stores an answer with the idempotency key of its request, in the same transaction as the request.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn keep_answer(&mut self, key: &str, answer: &str) -> Result<(), Error> {
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO answers (key, answer, at) VALUES (?, ?, ?)")
            .and_then(|mut statement| statement.execute(params![key, answer, self.now.0]))
            .doing("storing an idempotency key")?;
        Ok(())
    }

    /// Removes answers that were stored before a time, up to 1,000, because other writes wait. Returns true if no other
    /// is left.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn forget_answers(&mut self, before: Timestamp) -> Result<bool, Error> {
        let statement =
            "DELETE FROM answers WHERE key IN (SELECT key FROM answers WHERE at < ? LIMIT 1000)";
        self.connection
            .prepare_cached(statement)
            .and_then(|mut statement| statement.execute([before.0]))
            .map(|removed| removed < 1_000)
            .doing("removing old idempotency keys")
    }

    /// Reads an issue as the request sees it, with its own changes.
    ///
    /// # Errors
    /// The issue does not exist, or SQLite fails.
    pub fn show(&self, id: &str) -> Result<Issue, Error> {
        issue_of(self.connection, num_of(self.connection, id)?)
    }

    /// Inserts the row of an issue. Returns its number, or none if another issue has the id.
    fn insert(&self, id: &str, new: &NewIssue) -> Result<Option<i64>, Error> {
        let inserted = self
            .connection
            .prepare_cached(
                "INSERT INTO issues (id, title, description, design, acceptance_criteria, status, priority, issue_type,
                    assignee, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9, ?9)
                    ON CONFLICT (id) DO NOTHING",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    id,
                    new.title,
                    new.description,
                    new.design,
                    new.acceptance_criteria,
                    new.priority,
                    new.issue_type,
                    new.assignee,
                    self.now.0
                ])
            })
            .doing("creating an issue")?;
        if inserted == 0 {
            return Ok(None);
        }
        let num = self.connection.last_insert_rowid();
        self.count(Status::Open, 1)?;
        Ok(Some(num))
    }

    /// Counts an issue that has this status now (1), or no longer (-1).
    fn count(&self, status: Status, by: i64) -> Result<(), Error> {
        self.connection
            .prepare_cached("UPDATE counters SET issues = issues + ? WHERE status = ?")
            .and_then(|mut statement| statement.execute(params![by, status]))
            .doing("counting an issue")?;
        Ok(())
    }

    fn insert_with_free_id(&mut self, new: &NewIssue) -> Result<(String, i64), Error> {
        for _ in 0..DRAWS {
            let id = self.ids.draw(self.prefix, self.issues()?);
            if let Some(num) = self.insert(&id, new)? {
                self.ids.note_issues(num as u64);
                return Ok((id, num));
            }
        }
        let problem = format!("{DRAWS} random ids are all taken: give the issue an id");
        Err(Error::invalid("id", problem))
    }

    /// Returns the number of issues, or one that is a little out of date: it only decides on the length of new ids.
    fn issues(&self) -> Result<u64, Error> {
        if let Some(issues) = self.ids.issues() {
            return Ok(issues);
        }
        let issues: i64 = self
            .connection
            .prepare_cached("SELECT coalesce(max(num), 0) FROM issues")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .doing("counting issues")?;
        Ok(issues as u64)
    }

    /// Inserts an issue with the next child id of a parent. Numbers are given once, also if their issue has another id.
    fn insert_child(
        &self,
        parent: &str,
        parent_num: i64,
        new: &NewIssue,
    ) -> Result<(String, i64), Error> {
        loop {
            let number: i64 = self
                .connection
                .prepare_cached(
                    "UPDATE issues SET children = children + 1 WHERE num = ? RETURNING children",
                )
                .and_then(|mut statement| statement.query_row([parent_num], |row| row.get(0)))
                .doing("numbering a child")?;
            let id = format!("{parent}.{number}");
            // Somebody may have chosen it.
            if let Some(num) = self.insert(&id, new)? {
                return Ok((id, num));
            }
        }
    }

    fn status(&self, num: i64) -> Result<Status, Error> {
        self.connection
            .prepare_cached("SELECT status FROM issues WHERE num = ?")
            .and_then(|mut statement| statement.query_row([num], |row| row.get(0)))
            .doing("reading the status")
    }

    /// Sets the status, and the time of the change. Returns false if it was the same.
    fn set_status(&mut self, num: i64, status: Status, reason: &str) -> Result<bool, Error> {
        let before = self.status(num)?;
        if before == status {
            return Ok(false);
        }
        Fields::of_status(status, reason, self.now).store(self.connection, num)?;
        self.note_status(num, before, status)?;
        Ok(true)
    }

    /// Counts an issue whose status has changed, and notes which issues are blocked now.
    fn note_status(&self, num: i64, before: Status, status: Status) -> Result<(), Error> {
        if before == status {
            return Ok(());
        }
        self.count(before, -1)?;
        self.count(status, 1)?;
        match (before, status) {
            (_, Status::Closed) => self.finished_changed(num, -1),
            (Status::Closed, _) => self.finished_changed(num, 1),
            _ => Ok(()),
        }
    }

    /// Notes the time of a change. It never goes back, even if the clock does.
    fn touch(&self, num: i64) -> Result<(), Error> {
        self.connection
            .prepare_cached("UPDATE issues SET updated_at = max(updated_at, ?) WHERE num = ?")
            .and_then(|mut statement| statement.execute([self.now.0, num]))
            .doing("noting the time of a change")?;
        Ok(())
    }

    fn event(&self, num: i64, actor: &str, kind: &str, value: &str) -> Result<(), Error> {
        self.insert_event(num, actor, kind, value, self.now)
    }

    fn insert_event(
        &self,
        num: i64,
        actor: &str,
        kind: &str,
        value: &str,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.connection
            .prepare_cached(
                "INSERT INTO events (issue, actor, kind, value, at) VALUES (?, ?, ?, ?, ?)",
            )
            .and_then(|mut statement| statement.execute(params![num, actor, kind, value, at.0]))
            .doing("recording an event")?;
        Ok(())
    }

    fn add_labels(&self, num: i64, actor: &str, labels: &[String]) -> Result<(), Error> {
        for label in labels {
            if self.insert_label(num, label)? {
                self.event(num, actor, "label_added", label)?;
            }
        }
        Ok(())
    }

    /// Adds a label. Returns false if the issue has it.
    fn insert_label(&self, num: i64, label: &str) -> Result<bool, Error> {
        check_label(label)?;
        let added = self
            .connection
            .prepare_cached("INSERT OR IGNORE INTO labels (issue, label) VALUES (?, ?)")
            .and_then(|mut statement| statement.execute(params![num, label]))
            .doing("adding a label")?;
        Ok(added > 0)
    }

    fn remove_label(&self, num: i64, actor: &str, label: &str) -> Result<(), Error> {
        let removed = self
            .connection
            .prepare_cached("DELETE FROM labels WHERE issue = ? AND label = ?")
            .and_then(|mut statement| statement.execute(params![num, label]))
            .doing("removing a label")?;
        match removed {
            0 => Ok(()),
            _ => self.event(num, actor, "label_removed", label),
        }
    }
}

fn check_assignee(assignee: &str) -> Result<(), Error> {
    if assignee.is_empty() {
        Err(Error::invalid("assignee", "is empty: name who claims"))
    } else {
        Ok(())
    }
}

/// Checks what a patch expects of an issue before it changes it.
fn check_expected(issue: &Issue, patch: &Patch) -> Result<(), Error> {
    let status = patch.expected_status;
    if let Some(status) = status.filter(|status| *status != issue.status) {
        return Err(not_as_expected(issue, status.name()));
    }
    let assignee = patch.expected_assignee.as_deref();
    match assignee.filter(|assignee| *assignee != issue.assignee) {
        Some("") => Err(not_as_expected(issue, "without an assignee")),
        Some(assignee) => Err(not_as_expected(issue, &format!("assigned to {assignee}"))),
        None => Ok(()),
    }
}

fn not_as_expected(issue: &Issue, expected: &str) -> Error {
    let mut found = issue.status.name().to_owned();
    if !issue.assignee.is_empty() {
        found.push_str(&format!(" and assigned to {}", issue.assignee));
    }
    Error::NotAsExpected {
        issue: issue.id.clone(),
        found,
        expected: expected.to_owned(),
    }
}
