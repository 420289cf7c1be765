//! Changes of dependencies. They never close a circle.

use rusqlite::{OptionalExtension as _, params};

use super::Changes;
use crate::blocking;
use crate::error::{Doing as _, Error};
use crate::issue::{Dependency, DependencyKind, Status};
use crate::reader::num_of;

impl Changes<'_> {
    /// Adds a dependency. One that exists in the same kind stays as it is, and the answer is false.
    ///
    /// # Errors
    /// One of the issues does not exist, they are the same, they depend on each other in another way, or the dependency
    /// would close a circle.
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

    /// Removes a dependency.
    ///
    /// # Errors
    /// One of the issues, or the dependency, does not exist.
    pub fn remove_dependency(
        &mut self,
        actor: &str,
        id: &str,
        depends_on: &str,
    ) -> Result<(), Error> {
        let (num, on) = (
            num_of(self.connection, id)?,
            num_of(self.connection, depends_on)?,
        );
        let Some(kind) = self.kind_between(num, on)? else {
            return Err(Error::NoDependency {
                issue: id.to_owned(),
                on: depends_on.to_owned(),
            });
        };
        self.connection
            .prepare_cached("DELETE FROM dependencies WHERE issue = ? AND depends_on = ?")
            .and_then(|mut statement| statement.execute([num, on]))
            .doing("removing a dependency")?;
        self.count_dependency(num, on, kind, -1)?;
        self.event(num, actor, "dependency_removed", depends_on)?;
        self.touch(num)
    }

    /// Adds a dependency. Returns false if it exists.
    pub(super) fn link(
        &self,
        num: i64,
        id: &str,
        depends_on: &str,
        kind: DependencyKind,
    ) -> Result<bool, Error> {
        let on = num_of(self.connection, depends_on)?;
        if num == on {
            return Err(depends_on_itself(id));
        }
        if let Some(found) = self.kind_between(num, on)? {
            if found == kind {
                return Ok(false);
            }
            return Err(Error::DependencyExists {
                issue: id.to_owned(),
                on: depends_on.to_owned(),
                kind: found.name(),
            });
        }
        if self.reaches(on, num)? {
            return Err(Error::Cycle {
                issue: id.to_owned(),
                on: depends_on.to_owned(),
            });
        }
        self.insert_dependency(num, on, kind)?;
        Ok(true)
    }

    /// Adds a dependency of an issue that is being created, to those that it has. Nothing depends on it yet, so that no
    /// circle can be closed. Returns false if it exists.
    pub(super) fn link_new(
        &self,
        num: i64,
        id: &str,
        new: &Dependency,
        has: &[Dependency],
    ) -> Result<bool, Error> {
        let on = num_of(self.connection, &new.depends_on)?;
        if num == on {
            return Err(depends_on_itself(id));
        }
        let found = has.iter().find(|found| found.depends_on == new.depends_on);
        match found {
            Some(found) if found.kind == new.kind => Ok(false),
            Some(found) => Err(Error::DependencyExists {
                issue: id.to_owned(),
                on: new.depends_on.clone(),
                kind: found.kind.name(),
            }),
            None => {
                self.insert_dependency(num, on, new.kind)?;
                Ok(true)
            }
        }
    }

    pub(super) fn insert_dependency(
        &self,
        num: i64,
        on: i64,
        kind: DependencyKind,
    ) -> Result<(), Error> {
        self.connection
            .prepare_cached("INSERT INTO dependencies (issue, depends_on, kind) VALUES (?, ?, ?)")
            .and_then(|mut statement| statement.execute(params![num, on, kind]))
            .doing("adding a dependency")?;
        self.count_dependency(num, on, kind, 1)
    }

    /// Notes that a dependency was added (+1) or removed (-1).
    pub(super) fn count_dependency(
        &self,
        num: i64,
        on: i64,
        kind: DependencyKind,
        by: i64,
    ) -> Result<(), Error> {
        match kind {
            DependencyKind::Blocks if self.status(on)? != Status::Closed => {
                blocking::blocker_changed(self.connection, num, by)
            }
            DependencyKind::ParentChild if blocking::is_blocked(self.connection, on)? => {
                blocking::parent_changed(self.connection, num, by)
            }
            _ => Ok(()),
        }
    }

    fn kind_between(&self, num: i64, on: i64) -> Result<Option<DependencyKind>, Error> {
        self.connection
            .prepare_cached("SELECT kind FROM dependencies WHERE issue = ? AND depends_on = ?")
            .and_then(|mut statement| statement.query_row([num, on], |row| row.get(0)).optional())
            .doing("looking for a dependency")
    }

    /// Returns true if an issue depends on another one, directly or through others.
    fn reaches(&self, from: i64, to: i64) -> Result<bool, Error> {
        let statement = "WITH RECURSIVE reached (num) AS (
                SELECT ?1 UNION SELECT depends_on FROM dependencies JOIN reached ON issue = num)
            SELECT EXISTS (SELECT 1 FROM reached WHERE num = ?2)";
        self.connection
            .prepare_cached(statement)
            .and_then(|mut statement| statement.query_row([from, to], |row| row.get(0)))
            .doing("looking for a circle of dependencies")
    }
}

fn depends_on_itself(id: &str) -> Error {
    Error::invalid("depends_on", format!("{id} cannot depend on itself"))
}
