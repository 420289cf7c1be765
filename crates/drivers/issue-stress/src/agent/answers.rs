//! The parts of answers that are checked.

use std::borrow::Cow;
use std::cmp::Reverse;

use serde::Deserialize;

/// An issue in an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Created<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) title: Cow<'a, str>,
    pub(super) priority: u8,
    #[serde(borrow)]
    pub(super) status: Cow<'a, str>,
    #[serde(borrow)]
    created_at: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) assignee: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) description: Cow<'a, str>,
    #[serde(borrow, default)]
    labels: Vec<Cow<'a, str>>,
}

impl Created<'_> {
    pub(super) fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|own| own == label)
    }
}

/// A list of issues in an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Listed<'a> {
    #[serde(borrow)]
    pub(super) issues: Vec<Created<'a>>,
}

impl Listed<'_> {
    /// Returns the ids and titles.
    pub(super) fn named(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let issues = self.issues.iter();
        issues.map(|issue| (&*issue.id, &*issue.title))
    }

    /// Returns true if the issues are in the order of `list`: urgent ones first, then new ones.
    pub(super) fn is_in_order_of_list(&self) -> bool {
        let issues = &self.issues;
        issues.is_sorted_by_key(|issue| (issue.priority, Reverse(&issue.created_at)))
    }

    /// Returns true if all issues are open and in the order of `ready`: urgent ones first, then old ones.
    pub(super) fn is_in_order_of_ready(&self) -> bool {
        let issues = &self.issues;
        issues.is_sorted_by_key(|issue| (issue.priority, &issue.created_at))
            && issues.iter().all(|issue| issue.status == "open")
    }
}

/// The results of a batch in an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Results<'a> {
    pub(super) kept: usize,
    #[serde(borrow)]
    pub(super) results: Vec<crate::engine::wire::Answer<'a>>,
}

/// The id of an issue in an answer.
#[derive(Debug, Deserialize)]
pub(super) struct WithId<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
}
