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

fn add(connection: &Connection, num: i64, column: Column, by: i64) -> Result<(), Error> {
    let mut ahead = vec![(num, column, by)];
    while let Some((num, column, by)) = ahead.pop() {
        let statement = match column {
            Column::Blockers => {
                "UPDATE issues SET blockers = blockers + ?2 WHERE num = ?1
                 RETURNING blockers + blocked_parents"
            }
            Column::BlockedParents => {
                "UPDATE issues SET blocked_parents = blocked_parents + ?2 WHERE num = ?1
                 RETURNING blockers + blocked_parents"
            }
        };
        let now: i64 = connection
            .prepare_cached(statement)
            .and_then(|mut statement| statement.query_row(params![num, by], |row| row.get(0)))
            .doing(DOING)?;
        let (is_blocked, was_blocked) = (now > 0, now - by > 0);
        if is_blocked != was_blocked {
            let by = if is_blocked { 1 } else { -1 };
            let children = dependents(connection, num, DependencyKind::ParentChild)?;
            ahead.extend(
                children
                    .into_iter()
                    .map(|child| (child, Column::BlockedParents, by)),
            );
        }
    }
    Ok(())
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
