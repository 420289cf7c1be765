//! The conditions of a list of issues.

use rusqlite::types::Value;
use serde::{Deserialize, Serialize};

use crate::issue::{IssueType, Status};
use crate::time::Timestamp;

/// The conditions of [`Reader::list`](crate::Reader::list); an issue meets all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// A text in the title, the description, or the id, without regard to the case of ASCII letters.
    pub query: Option<String>,
    /// The progress.
    pub status: Option<Status>,
    /// The priority.
    pub priority: Option<u8>,
    /// The type.
    pub issue_type: Option<IssueType>,
    /// The assignee.
    pub assignee: Option<String>,
    /// Labels that it has, all of them.
    pub labels: Vec<String>,
    /// Labels; it has at least one of them.
    pub labels_any: Vec<String>,
    /// Ids; its own is among them.
    pub ids: Vec<String>,
    /// The earliest time of creation.
    pub created_after: Option<Timestamp>,
    /// The latest time of creation.
    pub created_before: Option<Timestamp>,
    /// The earliest time of the last change.
    pub updated_after: Option<Timestamp>,
    /// The latest time of the last change.
    pub updated_before: Option<Timestamp>,
    /// The earliest time of closing.
    pub closed_after: Option<Timestamp>,
    /// The latest time of closing.
    pub closed_before: Option<Timestamp>,
    /// The greatest number of issues.
    pub limit: Option<u32>,
}

/// The conditions of [`Reader::ready`](crate::Reader::ready) beside being ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadyFilter {
    /// The assignee.
    pub assignee: Option<String>,
    /// The priority.
    pub priority: Option<u8>,
    /// Labels that it has, all of them.
    pub labels: Vec<String>,
    /// The greatest number of issues.
    pub limit: Option<u32>,
}

/// Conditions in SQL, with their values.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    texts: Vec<String>,
    pub(crate) values: Vec<Value>,
}

impl Conditions {
    pub(crate) fn of_list(filter: &Filter) -> Self {
        let mut conditions = Self::default();
        if let Some(query) = &filter.query {
            // LIKE would give % and _ a meaning.
            let text = "(instr(lower(title), lower(?)) OR instr(lower(description), lower(?)) OR instr(id, lower(?)))";
            conditions.add(text, vec![query.clone(), query.clone(), query.clone()]);
        }
        conditions.add_one("status = ?", filter.status.map(|status| status as i64));
        conditions.add_one("priority = ?", filter.priority.map(i64::from));
        conditions.add_one("issue_type = ?", filter.issue_type.map(|kind| kind as i64));
        conditions.add_one("assignee = ?", filter.assignee.clone());
        conditions.add_labels(&filter.labels);
        if !filter.labels_any.is_empty() {
            let text = "num IN (SELECT issue FROM labels WHERE label IN";
            conditions.add_list(text, &filter.labels_any, ")");
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
        conditions
    }

    pub(crate) fn of_ready(filter: &ReadyFilter) -> Self {
        let mut conditions = Self::default();
        // The condition of the index.
        conditions.add(
            "status = 0 AND blockers = 0 AND blocked_parents = 0",
            Vec::<i64>::new(),
        );
        conditions.add_one("assignee = ?", filter.assignee.clone());
        conditions.add_one("priority = ?", filter.priority.map(i64::from));
        conditions.add_labels(&filter.labels);
        conditions
    }

    /// Returns the WHERE clause, empty without conditions.
    pub(crate) fn clause(&self) -> String {
        match self.texts.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", self.texts.join(" AND ")),
        }
    }

    fn add_labels(&mut self, labels: &[String]) {
        for label in labels {
            let text = "num IN (SELECT issue FROM labels WHERE label = ?)";
            self.add_one(text, Some(label.clone()));
        }
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
