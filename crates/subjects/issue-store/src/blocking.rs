//! Keeps the columns from which SQLite's index knows what is ready.
//!
//! `blockers` counts the unfinished issues that block an issue. `blocked_parents` counts its parents that are blocked;
//! an issue is blocked if one of the two is above 0. A change of that is passed on to its children. Dependencies that
//! block have no circles, so this ends.

use rusqlite::{Connection, params};

use crate::error::{Doing as _, Error};
use crate::issue::DependencyKind;

const DOING: &str = "noting which issues are blocked";

/// Notes that an issue was closed (-1) or is unfinished again (+1).
pub(crate) fn finished_changed(connection: &Connection, num: i64, by: i64) -> Result<(), Error> {
    for dependent in dependents(connection, num, DependencyKind::Blocks)? {
        add(connection, dependent, Column::Blockers, by)?;
    }
    Ok(())
}

/// Notes that an unfinished issue blocks another one (+1), or does no longer (-1).
pub(crate) fn blocker_changed(connection: &Connection, blocked: i64, by: i64) -> Result<(), Error> {
    add(connection, blocked, Column::Blockers, by)
}

/// Notes that a blocked issue is the parent of another one (+1), or is no longer (-1).
pub(crate) fn parent_changed(connection: &Connection, child: i64, by: i64) -> Result<(), Error> {
    add(connection, child, Column::BlockedParents, by)
}

/// Returns true if an issue is blocked.
pub(crate) fn is_blocked(connection: &Connection, num: i64) -> Result<bool, Error> {
    connection
        .prepare_cached("SELECT blockers + blocked_parents > 0 FROM issues WHERE num = ?")
        .and_then(|mut statement| statement.query_row([num], |row| row.get(0)))
        .doing(DOING)
}

#[derive(Debug, Clone, Copy)]
enum Column {
    Blockers,
    BlockedParents,
}

/// Adds to a column of an issue. If it is blocked now and was not before, or the other way round, passes that on to its
/// children, and to theirs. All children of an issue are changed by one statement, because there may be very many.
fn add(connection: &Connection, num: i64, column: Column, by: i64) -> Result<(), Error> {
    let statement = match column {
        Column::Blockers => {
            "UPDATE issues SET blockers = blockers + ?2 WHERE num = ?1
             RETURNING num, blockers + blocked_parents"
        }
        Column::BlockedParents => {
            "UPDATE issues SET blocked_parents = blocked_parents + ?2 WHERE num = ?1
             RETURNING num, blockers + blocked_parents"
        }
    };
    let of_children = "UPDATE issues SET blocked_parents = blocked_parents + ?2
        WHERE num IN (SELECT issue FROM dependencies WHERE depends_on = ?1 AND kind = 2)
        RETURNING num, blockers + blocked_parents";
    // The sign of all changes is the same.
    let mut ahead = changed(connection, statement, num, by)?;
    while let Some(parent) = ahead.pop() {
        ahead.extend(changed(connection, of_children, parent, by)?);
    }
    Ok(())
}

/// Executes a change of a column by +1 or -1. Returns the issues that are blocked now and were not before, or the other
/// way round.
fn changed(connection: &Connection, statement: &str, num: i64, by: i64) -> Result<Vec<i64>, Error> {
    let rows: Vec<(i64, i64)> = connection
        .prepare_cached(statement)
        .and_then(|mut statement| {
            let rows =
                statement.query_map(params![num, by], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
        .doing(DOING)?;
    let is_changed = |now: i64| (now > 0) != (now - by > 0);
    let rows = rows.into_iter().filter(|(_, now)| is_changed(*now));
    Ok(rows.map(|(num, _)| num).collect())
}

fn dependents(connection: &Connection, num: i64, kind: DependencyKind) -> Result<Vec<i64>, Error> {
    connection
        .prepare_cached("SELECT issue FROM dependencies WHERE depends_on = ? AND kind = ?")
        .and_then(|mut statement| {
            let rows = statement.query_map(params![num, kind], |row| row.get(0))?;
            rows.collect()
        })
        .doing(DOING)
}
