//! Changes of dependencies. Those that block never close a circle.

use rusqlite::params;

use super::Changes;
use crate::error::{Error, ErrorContext as _};
use crate::issue::{Dependency, DependencyKind, Status};
use crate::rows::num_of;

impl Changes<'_> {
    /// Adds a dependency. One that exists in the same kind stays as it is, and the answer is false.
    ///
    /// # Errors
    /// One of the issues does not exist, they are the same, the dependency would close a circle of those that block, or
    /// too many issues are concerned.
    pub fn add_dependency(
        &mut self,
        actor: &str,
        id: &str,
        depends_on: &str,
        kind: DependencyKind,
    ) -> Result<bool, Error> {
        let num = num_of(self.connection, id)?;
        let added = self.link(num, id, depends_on, kind)?;
        if added {
            self.event(num, actor, "dependency_added", depends_on)?;
            self.touch(num)?;
        }
        Ok(added)
    }

    /// Removes a dependency of one kind, or of all kinds.
    ///
    /// # Errors
    /// One of the issues, or the dependency, does not exist.
    pub fn remove_dependency(
        &mut self,
        actor: &str,
        id: &str,
        depends_on: &str,
        kind: Option<DependencyKind>,
    ) -> Result<(), Error> {
        let num = num_of(self.connection, id)?;
        let on = num_of(self.connection, depends_on)?;
        if self.unlink(num, Some(on), kind)? == 0 {
            return Err(Error::NoDependency {
                issue: id.to_owned(),
                on: depends_on.to_owned(),
            });
        }
        self.event(num, actor, "dependency_removed", depends_on)?;
        self.touch(num)
    }

    /// Removes the dependencies of an issue on another one or on all, of one kind or of all. Returns their number.
    pub(super) fn unlink(
        &self,
        num: i64,
        on: Option<i64>,
        kind: Option<DependencyKind>,
    ) -> Result<usize, Error> {
        let statement =
            "DELETE FROM dependencies WHERE issue = ?1 AND (?2 IS NULL OR depends_on = ?2)
            AND (?3 IS NULL OR kind = ?3) RETURNING depends_on, kind";
        let removed: Vec<(i64, DependencyKind)> = self
            .connection
            .prepare_cached(statement)
            .and_then(|mut statement| {
                let rows = statement
                    .query_map(params![num, on, kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.collect()
            })
            .doing("removing a dependency")?;
        for (on, kind) in &removed {
            self.count_dependency(num, *on, *kind, -1)?;
        }
        Ok(removed.len())
    }

    /// Adds a dependency. Returns false if it exists.
    pub(super) fn link(
        &self,
        num: i64,
        id: &str,
        depends_on: &str,
        kind: DependencyKind,
    ) -> Result<bool, Error> {
        let on = self.other(num, id, depends_on)?;
        if kind.blocks() && self.reaches(on, num)? {
            return Err(Error::Cycle {
                issue: id.to_owned(),
                on: depends_on.to_owned(),
            });
        }
        self.insert_dependency(num, on, kind)
    }

    /// Adds a dependency of an issue that is being created. Nothing depends on it yet, so that no circle can be closed.
    /// Returns false if it exists.
    pub(super) fn link_new(&self, num: i64, id: &str, new: &Dependency) -> Result<bool, Error> {
        let on = self.other(num, id, &new.depends_on)?;
        self.insert_dependency(num, on, new.kind)
    }

    /// Returns the number of the issue that another one is to depend on.
    fn other(&self, num: i64, id: &str, depends_on: &str) -> Result<i64, Error> {
        let on = num_of(self.connection, depends_on)?;
        if num == on {
            let problem = format!("{id} cannot depend on itself");
            Err(Error::invalid("depends_on", problem))
        } else {
            Ok(on)
        }
    }

    /// Stores a dependency. Returns false if it exists.
    pub(super) fn insert_dependency(
        &self,
        num: i64,
        on: i64,
        kind: DependencyKind,
    ) -> Result<bool, Error> {
        let statement = "INSERT INTO dependencies (issue, depends_on, kind) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
        let inserted = self
            .connection
            .prepare_cached(statement)
            .and_then(|mut statement| statement.execute(params![num, on, kind]))
            .doing("adding a dependency")?;
        if inserted > 0 {
            self.count_dependency(num, on, kind, 1)?;
        }
        Ok(inserted > 0)
    }

    /// Notes that a dependency was added (+1) or removed (-1).
    fn count_dependency(
        &self,
        num: i64,
        on: i64,
        kind: DependencyKind,
        by: i64,
    ) -> Result<(), Error> {
        match kind {
            DependencyKind::Blocks if self.status(on)? != Status::Closed => {
                self.blocker_changed(num, by)
            }
            DependencyKind::ParentChild if self.is_blocked(on)? => self.parent_changed(num, by),
            _ => Ok(()),
        }
    }

    /// Returns true if an issue waits for another one, directly or through others. Nothing is searched if no issue
    /// waits for the other one, or if that one waits for the first already.
    fn reaches(&self, from: i64, to: i64) -> Result<bool, Error> {
        let statement = "WITH RECURSIVE reached (num) AS (
                SELECT ?1 WHERE EXISTS (SELECT 1 FROM dependencies WHERE depends_on = ?2 AND kind IN (0, 2))
                    AND NOT EXISTS (SELECT 1 FROM dependencies WHERE issue = ?2 AND depends_on = ?1 AND kind IN (0, 2))
                UNION SELECT depends_on FROM dependencies JOIN reached ON issue = num WHERE kind IN (0, 2) LIMIT ?3)
            SELECT count(*), coalesce(max(num = ?2), false) FROM reached";
        let most = self.visits_left.get() as i64 + 1;
        let (visited, is_reached): (i64, bool) = self
            .connection
            .prepare_cached(statement)
            .and_then(|mut statement| {
                statement.query_row([from, to, most], |row| Ok((row.get(0)?, row.get(1)?)))
            })
            .doing("looking for a circle of dependencies")?;
        self.visit(visited as usize)?;
        Ok(is_reached)
    }
}
