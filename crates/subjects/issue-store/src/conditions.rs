//! The conditions of lists in SQL, and the lists of issues that meet them.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::error::Error;
use crate::filter::{Filter, Order, ReadyFilter};
use crate::reader::{IssuePage, PageSize};
use crate::request::{check_labels, check_number};
use crate::rows::{issues, query};

/// The bytes of the text of a filter, at most: SQLite refuses longer patterns.
const MAX_QUERY: usize = 1_000;
/// The ids of a filter, at most.
const MAX_IDS: usize = 1_000;
/// The issues with a label up to which a list begins with them. Beyond, it walks through the issues in their order, and
/// finds a page of 50 of 100,000 after 2,500 on average, unless the label is rare among the first of them.
const RARE: u32 = 2_000;
/// The first issues of an order in which a label or a text is sought, to tell whether it is rare there, and the number
/// of those that have it if it is not.
const SAMPLE: u32 = 1_000;
const COMMON_IN_SAMPLE: u32 = 2;

/// Conditions in SQL, with their values.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    texts: Vec<String>,
    pub(crate) values: Vec<Value>,
    /// True if the issues that meet them are found first and then sorted, because a walk in the order would pass many
    /// others.
    pub(crate) are_found_apart: bool,
}

impl Conditions {
    /// Makes the conditions of a list. `is_rare` tells whether it is faster to begin with the issues that have one of
    /// some labels than to look for the labels of all in their order.
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
            conditions.add_query(query)?;
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
        if self.texts.is_empty() {
            String::new()
        } else {
            format!("WHERE {}", self.texts.join(" AND "))
        }
    }

    fn add_query(&mut self, query: &str) -> Result<(), Error> {
        if query.len() > MAX_QUERY {
            let problem = format!("has {} bytes: {MAX_QUERY} are allowed", query.len());
            return Err(Error::invalid("query", problem));
        }
        // A third of the time of instr(lower(title), …), which copies each text.
        let text =
            r"(title LIKE ? ESCAPE '\' OR description LIKE ? ESCAPE '\' OR id LIKE ? ESCAPE '\')";
        let escaped = query
            .replace('\\', r"\\")
            .replace('%', r"\%")
            .replace('_', r"\_");
        self.add(text, vec![format!("%{escaped}%"); 3]);
        Ok(())
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
        let is_rare = is_rare(labels)?;
        self.are_found_apart |= is_rare;
        let text = if is_rare {
            "num IN (SELECT issue FROM labels WHERE label IN"
        } else {
            "EXISTS (SELECT 1 FROM labels WHERE issue = num AND label IN"
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

    /// Adds the condition that an issue comes after a page that ended with this key.
    ///
    /// # Errors
    /// It is not the key of a page in this order.
    fn add_after(&mut self, order: Order, after: &str) -> Result<(), Error> {
        let columns: Vec<&str> = order.key.split(", ").collect();
        // Only the first part, a title, can have a comma in it.
        let parts = after.rsplitn(columns.len(), ',').collect::<Vec<_>>();
        let values = columns.iter().zip(parts.iter().rev());
        let values = values.map(|(column, part)| match *column {
            "title" => Ok(Value::from((*part).to_owned())),
            _ => part.parse::<i64>().map(Value::from),
        });
        match values.collect::<Result<Vec<_>, _>>() {
            Ok(values) if values.len() == columns.len() => {
                let marks = vec!["?"; values.len()].join(", ");
                self.add(&format!("({}) > ({marks})", order.key), values);
                Ok(())
            }
            _ => Err(Error::invalid(
                "after",
                format!(
                    "{after:?} is not the `next` of an answer in this order: repeat what the last answer had"
                ),
            )),
        }
    }

    pub(crate) fn add(&mut self, text: &str, values: Vec<impl Into<Value>>) {
        self.texts.push(text.to_owned());
        self.values.extend(values.into_iter().map(Into::into));
    }
}

/// Returns the page of the issues that meet all conditions after a key, in an order.
pub(crate) fn list(
    connection: &Connection,
    mut conditions: Conditions,
    order: Order,
    after: Option<&str>,
    size: PageSize,
) -> Result<IssuePage, Error> {
    if let Some(after) = after {
        conditions.add_after(order, after)?;
    }
    conditions.are_found_apart |= order.indexed.is_none();
    let source = source(&conditions, order);
    let mut values = conditions.values;
    values.push(Value::from(size.issues));
    issues(connection, order, &source, params_from_iter(values), size)
}

/// Returns the tables and clauses of a list.
fn source(conditions: &Conditions, order: Order) -> String {
    let (clause, columns) = (conditions.clause(), order.columns);
    if conditions.are_found_apart {
        // The sign keeps SQLite from walking in an index of the order. Only numbers and keys are sorted.
        format!(
            "(SELECT num AS found FROM issues {clause} ORDER BY +{columns} LIMIT ?)
             CROSS JOIN issues ON num = found ORDER BY {columns}"
        )
    } else {
        format!("issues {clause} ORDER BY {columns} LIMIT ?")
    }
}

/// Returns true if a list is found fastest from the issues that have one of some labels: there are few, or its order
/// has no index, or few of those that come first in the order have one.
pub(crate) fn is_rare(
    connection: &Connection,
    order: Order,
    labels: &[String],
) -> Result<bool, Error> {
    let marks = vec!["?"; labels.len()].join(", ");
    let statement = format!(
        "SELECT count(*) FROM (SELECT 1 FROM labels WHERE label IN ({marks}) LIMIT {RARE})"
    );
    let counts: Vec<u32> = query(connection, &statement, params_from_iter(labels))?;
    if order.indexed.is_none() || counts.first().is_some_and(|count| *count < RARE) {
        return Ok(true);
    }
    let mut conditions = Conditions::default();
    conditions.add_label(labels, &|_| Ok(false))?;
    is_rare_at_first(connection, order, conditions)
}

/// Returns true if few of the issues that come first in an order have a text.
pub(crate) fn is_rare_text(
    connection: &Connection,
    order: Order,
    text: &str,
) -> Result<bool, Error> {
    let mut conditions = Conditions::default();
    conditions.add_query(text)?;
    is_rare_at_first(connection, order, conditions)
}

fn is_rare_at_first(
    connection: &Connection,
    order: Order,
    conditions: Conditions,
) -> Result<bool, Error> {
    let Some(all) = order.indexed else {
        return Ok(true);
    };
    let statement = format!(
        "SELECT count(*) FROM (SELECT 1 FROM
            (SELECT num AS first FROM issues {all} ORDER BY {} LIMIT {SAMPLE}) CROSS JOIN issues ON num = first
            {} LIMIT {COMMON_IN_SAMPLE})",
        order.columns,
        conditions.clause()
    );
    let counts: Vec<u32> = query(connection, &statement, params_from_iter(conditions.values))?;
    Ok(counts
        .first()
        .is_some_and(|count| *count < COMMON_IN_SAMPLE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{READY_ORDER, Sort};
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

    fn explain(connection: &Connection, conditions: Conditions, order: Order) -> String {
        let statement = format!(
            "EXPLAIN QUERY PLAN SELECT * FROM {}",
            source(&conditions, order)
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
        let by_number = "SEARCH issues USING INTEGER PRIMARY KEY (rowid=?); LIST SUBQUERY";
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
            let scans = plan
                .split("; ")
                .filter(|step| step.starts_with("SCAN issues"));
            let walks = |step: &&str| step.contains("USING INDEX");
            assert!(scans.into_iter().all(|step| walks(&step)), "{plan}");
        }
    }

    #[test]
    fn a_page_begins_in_the_index_of_its_order_and_a_rare_text_is_sought_in_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("issues.db"), Options::default()).unwrap();
        let writer = store.writer().unwrap();
        let connection = writer.connection();
        let page = |order, mut conditions: Conditions| {
            conditions.add_after(order, "2,-1,-1").unwrap();
            explain(connection, conditions, order)
        };
        let list = |filter: &Filter, are_found_apart| {
            let mut conditions = Conditions::of_list(filter, |_| Ok(true)).unwrap();
            conditions.are_found_apart = are_found_apart;
            conditions
        };
        let all = Filter::default();
        let text = Filter {
            query: Some("text".to_owned()),
            ..Filter::default()
        };
        let order = all.sort.order();
        let ready = Conditions::of_ready(&ReadyFilter::default(), |_| Ok(true)).unwrap();
        for (plan, expected) in [
            (
                page(order, list(&all, false)),
                "SEARCH issues USING INDEX issues_in_order (priority>?)",
            ),
            (
                page(READY_ORDER, ready),
                "SEARCH issues USING INDEX issues_ready ((priority,created_at)>(?,?))",
            ),
            (
                explain(connection, list(&text, false), order),
                "SCAN issues USING INDEX issues_in_order",
            ),
            (
                explain(connection, list(&text, true), order),
                "CO-ROUTINE (subquery-1); SCAN issues; USE TEMP B-TREE FOR ORDER BY",
            ),
        ] {
            assert!(plan.starts_with(expected), "{plan}");
        }
    }

    #[test]
    fn a_label_or_text_that_is_rare_at_first_in_an_order_is_sought_apart_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("issues.db"), Options::default()).unwrap();
        let writer = store.writer().unwrap();
        let connection = writer.connection();
        let insert = format!(
            "INSERT INTO issues (num, id, title, status, priority, issue_type, created_at, updated_at)
                 WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers LIMIT 2 * {RARE})
                 SELECT n, n, iif(n < {RARE}, 'early', 'late'), 0, n / {RARE}, 2, 1, 1 FROM numbers;
             INSERT INTO labels SELECT num, title FROM issues;
             INSERT INTO labels VALUES (0, 'few');"
        );
        connection.execute_batch(&insert).unwrap();
        for (order, text, expected) in [
            (Sort::Priority.order(), "early", false),
            (Sort::Priority.order(), "late", true),
            (Sort::Priority.order(), "few", true),
            (READY_ORDER, "early", false),
            (READY_ORDER, "late", true),
            (Sort::Created.order(), "early", true),
        ] {
            let labels = [text.to_owned()];
            assert_eq!(
                is_rare(connection, order, &labels).unwrap(),
                expected,
                "{text}"
            );
            assert_eq!(
                is_rare_text(connection, order, text).unwrap(),
                expected,
                "{text}"
            );
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
            let order = filter.sort.order();
            list(
                writer.connection(),
                conditions,
                order,
                None,
                PageSize::USUAL,
            )
            .unwrap()
            .issues
        });
        assert_eq!(few, many);
        assert_eq!(few.len(), 7);
    }
}
