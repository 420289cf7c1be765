//! Compares what is noted about issues with what is stored.

use rusqlite::{Connection, params};

use crate::error::Error;
use crate::rows::query;

/// Checks that the counters, and what is noted about blocked issues, agree with the rows. Returns the differences.
pub(crate) fn check(connection: &Connection) -> Result<Vec<String>, Error> {
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
