//! Keeps the columns from which SQLite's index knows what is ready.
//!
//! `blockers` counts the unfinished issues that block an issue. `blocked_parents` counts its parents that are blocked;
//! an issue is blocked if one of the two is above 0. A change of that is passed on to its children. Dependencies that
//! block have no circles, so this ends. Other writes wait for its end, so it is limited too.

use rusqlite::params;

use super::Changes;
use crate::error::{Error, ErrorContext as _};

const DOING: &str = "noting which issues are blocked";
const CHILDREN: &str = "issue FROM dependencies WHERE depends_on = ?1 AND kind = 2";
/// The issues that a request may read to find circles. Other writes wait for up to 0.2 s.
pub(super) const MAX_VISITS: usize = 100_000;
/// Noting that an issue is blocked takes as long as reading this many.
pub(super) const NOTED_VISITS: usize = 10;

impl Changes<'_> {
    /// Counts issues that the request has read because others depend on them.
    ///
    /// # Errors
    /// They are too many. Then the request can visit no other.
    pub(super) fn visit(&self, issues: usize) -> Result<(), Error> {
        let left = self.visits_left.get();
        self.visits_left.set(left.saturating_sub(issues));
        if issues <= left {
            return Ok(());
        }
        let problem = format!(
            "a request may block or unblock {} issues and search {MAX_VISITS} for a circle: make several requests, or \
             let fewer issues depend on one, such as by epics within an epic",
            MAX_VISITS / NOTED_VISITS
        );
        Err(Error::invalid("dependencies", problem))
    }

    /// Notes that an issue was closed (-1) or is unfinished again (+1).
    pub(super) fn finished_changed(&self, num: i64, by: i64) -> Result<(), Error> {
        let blocked = "issue FROM dependencies WHERE depends_on = ?1 AND kind = 0";
        self.add("blockers", blocked, num, by)
    }

    /// Notes that an unfinished issue blocks another one (+1), or does no longer (-1).
    pub(super) fn blocker_changed(&self, blocked: i64, by: i64) -> Result<(), Error> {
        self.add("blockers", "?1", blocked, by)
    }

    /// Notes that a blocked issue is the parent of another one (+1), or is no longer (-1).
    pub(super) fn parent_changed(&self, child: i64, by: i64) -> Result<(), Error> {
        self.add("blocked_parents", "?1", child, by)
    }

    /// Returns true if an issue is blocked.
    pub(super) fn is_blocked(&self, num: i64) -> Result<bool, Error> {
        self.connection
            .prepare_cached("SELECT blockers + blocked_parents > 0 FROM issues WHERE num = ?")
            .and_then(|mut statement| statement.query_row([num], |row| row.get(0)))
            .doing(DOING)
    }

    /// Adds to a column of issues. If one is blocked now and was not before, or the other way round, passes that on to its
    /// children, and to theirs.
    fn add(&self, column: &str, issues: &str, num: i64, by: i64) -> Result<(), Error> {
        // The sign of all changes is the same.
        let mut ahead = self.changed(column, issues, num, by)?;
        while let Some(parent) = ahead.pop() {
            ahead.extend(self.changed("blocked_parents", CHILDREN, parent, by)?);
        }
        Ok(())
    }

    /// Changes a column of issues by +1 or -1, by one statement, because there may be very many. Returns those that are
    /// blocked now and were not before, or the other way round.
    fn changed(&self, column: &str, issues: &str, num: i64, by: i64) -> Result<Vec<i64>, Error> {
        let statement = format!(
            "UPDATE issues SET {column} = {column} + ?2 WHERE num IN (SELECT {issues} LIMIT ?3)
             RETURNING num, blockers + blocked_parents"
        );
        let most = self.visits_left.get() / NOTED_VISITS + 1;
        let rows: Vec<(i64, i64)> = self
            .connection
            .prepare_cached(&statement)
            .and_then(|mut statement| {
                let rows = statement.query_map(params![num, by, most as i64], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?;
                rows.collect()
            })
            .doing(DOING)?;
        self.visit(rows.len() * NOTED_VISITS)?;
        let is_changed = |now: i64| (now > 0) != (now - by > 0);
        let rows = rows.into_iter().filter(|(_, now)| is_changed(*now));
        Ok(rows.map(|(num, _)| num).collect())
    }
}
