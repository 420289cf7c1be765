//! The conditions of lists in SQL, and the lists of issues that meet them.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::error::Error;
use crate::filter::{Filter, ReadyFilter};
use crate::issue::Issue;
use crate::request::{check_labels, check_number};
use crate::rows::{issues, query};

/// The ids of a filter, at most.
const MAX_IDS: usize = 1_000;
/// The order of ready issues.
pub(crate) const READY_ORDER: &str = "ORDER BY priority, created_at, num";
/// The issues with a label up to which a list begins with them. Beyond, it walks through the issues in their order, and
/// finds a page of 50 of 100,000 after 2,500 on average.
const RARE: u32 = 2_000;

/// Conditions in SQL, with their values.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    texts: Vec<String>,
    pub(crate) values: Vec<Value>,
}

impl Conditions {
    /// Makes the conditions of a list. `is_rare` tells whether few issues have one of some labels: it is faster then to
    /// begin with these issues than to look for the labels of all in their order.
    ///
    /// # Errors
    /// The filter has too many ids or labels, or `is_rare` fails.
    pub(crate) fn of_list(
        filter: &Filter,
        is_rare: impl Fn(&[String]) -> Result<bool, Error>,
    ) -> Result<Self, Error> {
        check_number("ids", filter.ids.len(), MAX_IDS)?;
        check_labels(&filter.labels_any)?;
        let mut conditions = Self::default();
        if let Some(query) = &filter.query {
            // LIKE would give % and _ a meaning.
            let text = "(instr(lower(title), lower(?)) OR instr(lower(description), lower(?)) OR instr(id, lower(?)))";
            conditions.add(text, vec![query.clone(), query.clone(), query.clone()]);
        }
        conditions.add_one("status = ?", filter.status.map(|status| status as i64));
        let excluded = filter.exclude_status.map(|status| status as i64);
        conditions.add_one("status <> ?", excluded);
        conditions.add_one("priority = ?", filter.priority.map(i64::from));
        conditions.add_one("issue_type = ?", filter.issue_type.map(|kind| kind as i64));
        conditions.add_assignee(filter.assignee.as_deref());
        conditions.add_labels(&filter.labels, &is_rare)?;
        if !filter.labels_any.is_empty() {
            conditions.add_label(&filter.labels_any, &is_rare)?;
        }
        if !filter.ids.is_empty() {
            conditions.add_list("id IN", &filter.ids, "");
        }
        let times = [
            ("created_at >= ?", filter.created_after),
            ("created_at <= ?", filter.created_before),
            ("updated_at >= ?", filter.updated_after),
            ("updated_at <= ?", filter.updated_before),
            ("closed_at >= ?", filter.closed_after),
            ("closed_at <= ?", filter.closed_before),
        ];
        for (text, time) in times {
            conditions.add_one(text, time.map(|time| time.0));
        }
        Ok(conditions)
    }

    /// Makes the conditions of ready issues.
    pub(crate) fn of_ready(
        filter: &ReadyFilter,
        is_rare: impl Fn(&[String]) -> Result<bool, Error>,
    ) -> Result<Self, Error> {
        let mut conditions = Self::default();
        // The condition of the index.
        conditions.add(
            "status = 0 AND blockers = 0 AND blocked_parents = 0",
            Vec::<i64>::new(),
        );
        conditions.add_assignee(filter.assignee.as_deref());
        conditions.add_one("priority = ?", filter.priority.map(i64::from));
        conditions.add_labels(&filter.labels, &is_rare)?;
        Ok(conditions)
    }

    /// Returns the WHERE clause, empty without conditions.
    pub(crate) fn clause(&self) -> String {
        match self.texts.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", self.texts.join(" AND ")),
        }
    }

    fn add_assignee(&mut self, assignee: Option<&str>) {
        self.add_one("assignee = ?", assignee.map(str::to_owned));
        if assignee.is_some_and(|assignee| !assignee.is_empty()) {
            // The condition of the indexes, which a bound value does not imply.
            self.add("assignee <> ''", Vec::<i64>::new());
        }
    }

    fn add_labels(
        &mut self,
        labels: &[String],
        is_rare: &impl Fn(&[String]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        check_labels(labels)?;
        labels
            .chunks(1)
            .try_for_each(|label| self.add_label(label, is_rare))
    }

    /// Adds the condition that an issue has one of some labels.
    fn add_label(
        &mut self,
        labels: &[String],
        is_rare: &impl Fn(&[String]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let text = match is_rare(labels)? {
            true => "num IN (SELECT issue FROM labels WHERE label IN",
            false => "EXISTS (SELECT 1 FROM labels WHERE issue = num AND label IN",
        };
        self.add_list(text, labels, ")");
        Ok(())
    }

    fn add_list(&mut self, before: &str, values: &[String], after: &str) {
        let marks = vec!["?"; values.len()].join(", ");
        self.add(&format!("{before} ({marks}){after}"), values.to_vec());
    }

    pub(crate) fn add_one(&mut self, text: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(text, vec![value]);
        }
    }

    fn add(&mut self, text: &str, values: Vec<impl Into<Value>>) {
        self.texts.push(text.to_owned());
        self.values.extend(values.into_iter().map(Into::into));
    }
}

/// Returns the issues that meet all conditions, in an order.
pub(crate) fn list(
    connection: &Connection,
    conditions: Conditions,
    order: &str,
    limit: Option<u32>,
) -> Result<Vec<Issue>, Error> {
    let clause = list_clause(&conditions, order);
    let mut values = conditions.values;
    values.push(Value::from(limit_of(limit)));
    issues(connection, &clause, params_from_iter(values))
}

fn list_clause(conditions: &Conditions, order: &str) -> String {
    format!("{} {order} LIMIT ?", conditions.clause())
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
pub(crate) fn limit_of(limit: Option<u32>) -> i64 {
    limit.map_or(-1, i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewIssue, Options, Store, Timestamp};

    /// Returns how SQLite finds the issues of a list, with few issues that have the labels or with many.
    fn plan(connection: &Connection, filter: &Filter, is_rare: bool) -> String {
        let conditions = Conditions::of_list(filter, |_| Ok(is_rare)).unwrap();
        explain(connection, conditions, filter.sort.order())
    }

    fn plan_of_ready(connection: &Connection, filter: &ReadyFilter, is_rare: bool) -> String {
        let conditions = Conditions::of_ready(filter, |_| Ok(is_rare)).unwrap();
        explain(connection, conditions, READY_ORDER)
    }

    fn explain(connection: &Connection, conditions: Conditions, order: &str) -> String {
        let statement = format!(
            "EXPLAIN QUERY PLAN SELECT * FROM issues {}",
            list_clause(&conditions, order)
        );
        let mut values = conditions.values;
        values.push(Value::from(10));
        let mut explained = connection.prepare(&statement).unwrap();
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
        let writer = store.writer().unwrap();
        let connection = writer.connection();
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
                plan(connection, &by_assignee, true),
                "USING INDEX issues_assigned (assignee=?)",
            ),
            (plan(connection, &by_labels, true), by_number),
            (plan(connection, &by_any, true), by_number),
            (plan(connection, &by_labels, false), by_label),
            (
                plan(connection, &by_labels, false),
                "USING INDEX issues_in_order",
            ),
            (plan(connection, &by_any, false), by_label),
            (
                plan_of_ready(connection, &ready_by_assignee, true),
                "USING INDEX issues_assigned_ready (assignee=?)",
            ),
            (plan_of_ready(connection, &ready_by_labels, true), by_number),
            (plan_of_ready(connection, &ready_by_labels, false), by_label),
            (
                plan_of_ready(connection, &ready_by_labels, false),
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
    fn a_list_walks_past_closed_issues_in_its_index() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("issues.db"), Options::default()).unwrap();
        let numbers = "EXPLAIN QUERY PLAN SELECT num FROM issues WHERE status <> ? ORDER BY priority, created_at DESC";
        let writer = store.writer().unwrap();
        let mut explained = writer.connection().prepare(numbers).unwrap();
        let plan: String = explained.query_row([3], |row| row.get(3)).unwrap();
        assert_eq!(plan, "SCAN issues USING COVERING INDEX issues_in_order");
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
        let filter = Filter {
            labels: vec!["all".to_owned()],
            labels_any: vec!["x".to_owned(), "none".to_owned()],
            ..Filter::default()
        };
        let [few, many] = [true, false].map(|is_rare| {
            let conditions = Conditions::of_list(&filter, |_| Ok(is_rare)).unwrap();
            list(writer.connection(), conditions, filter.sort.order(), None).unwrap()
        });
        assert_eq!(few, many);
        assert_eq!(few.len(), 7);
    }
}
