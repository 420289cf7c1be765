//! The conditions of a list of issues.

use rusqlite::types::Value;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Error;
use crate::issue::{IssueType, Status};
use crate::request::{check_labels, check_number};
use crate::time::Timestamp;

/// The ids of a filter, at most.
const MAX_IDS: usize = 1_000;

/// The conditions of [`Reader::list`](crate::Reader::list); an issue meets all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// A text in the title, the description, or the id, without regard to the case of ASCII letters.
    pub query: Option<String>,
    /// The progress.
    pub status: Option<Status>,
    /// The progress that it has not.
    pub exclude_status: Option<Status>,
    /// The priority.
    pub priority: Option<u8>,
    /// The type.
    pub issue_type: Option<IssueType>,
    /// The assignee.
    pub assignee: Option<String>,
    /// Labels that it has, all of them.
    #[serde(alias = "label", deserialize_with = "one_or_several")]
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
    /// The order.
    pub sort: Sort,
    /// The greatest number of issues.
    pub limit: Option<u32>,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// The most urgent first, and of equal ones the youngest first.
    #[default]
    Priority,
    /// The youngest first.
    Created,
    /// The last changed first.
    Updated,
    /// By title.
    Title,
}

impl Sort {
    pub(crate) fn order(self) -> &'static str {
        match self {
            Self::Priority => "ORDER BY priority, created_at DESC, num DESC",
            Self::Created => "ORDER BY created_at DESC, num DESC",
            Self::Updated => "ORDER BY updated_at DESC, num DESC",
            Self::Title => "ORDER BY title, num",
        }
    }
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

/// Reads a text as a list of one, or a list.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a text or a list of texts")]
    enum Form {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Form::deserialize(deserializer)? {
        Form::One(one) => vec![one],
        Form::Several(several) => several,
    })
}

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

    /// Makes the conditions of ready issues, as [`of_list`](Self::of_list) those of a list.
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
