//! Answers to `list` and `ready`, and their comparison with what may and what must be in them.
//!
//! The driver deletes nothing, so each issue of any answer is in the database at the end. An issue that was acknowledged
//! before a `list` was sent must be in the answer, unless the answer ended before it at its limit.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::history::Span;
use crate::ledger::{Found, Row, Rows};

/// Answers that are kept; further ones are left out of the check.
const MAX_LISTS: usize = 2_000;

/// The answers that the agents of a worker, and later of all workers, have received.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    answers: Vec<ListAnswer>,
    /// Times at which the creation of an issue was acknowledged, by its id.
    acknowledged: HashMap<Box<str>, u64>,
    left_out: u64,
}

#[derive(Debug)]
struct ListAnswer {
    invoked_ns: u64,
    /// Ids and titles, in their order.
    issues: Vec<(Box<str>, Box<str>)>,
    /// True if it names all issues, up to its limit.
    is_of_all: bool,
    /// True if it has as many issues as it may.
    is_full: bool,
}

impl Lists {
    /// Notes that the creation of an issue was acknowledged, or that it is older than the load: at time 0.
    pub(crate) fn acknowledge(&mut self, id: &str, at_ns: u64) {
        self.acknowledged.insert(id.into(), at_ns);
    }

    /// Adds an answer with at most `limit` issues. `is_of_all` is set for a `list` without a filter.
    pub(crate) fn add<'a>(
        &mut self,
        span: Span,
        issues: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
        limit: u32,
        is_of_all: bool,
    ) {
        if self.answers.len() >= MAX_LISTS {
            self.left_out += 1;
            return;
        }
        self.answers.push(ListAnswer {
            invoked_ns: span.invoked_ns,
            is_full: issues.len() >= limit as usize,
            issues: issues
                .map(|(id, title)| (id.into(), title.into()))
                .collect(),
            is_of_all,
        });
    }

    pub(crate) fn merge(&mut self, mut other: Self) {
        self.acknowledged.extend(other.acknowledged);
        let room = MAX_LISTS.saturating_sub(self.answers.len());
        let further = other.answers.split_off(room.min(other.answers.len()));
        self.left_out += other.left_out + further.len() as u64;
        self.answers.append(&mut other.answers);
    }

    /// Compares the answers with the rows of the database, and adds up the contradictions.
    pub(crate) fn compare(&self, rows: &Rows, found: &mut Found) {
        found.unchecked_lists += self.left_out;
        let by_id = rows.by_id();
        // In the order of `list`: urgent ones first, then new ones.
        let mut ordered: Vec<&Row> = rows.all().iter().rev().collect();
        ordered.sort_by_key(|row| (row.priority, Reverse(&row.created_at)));
        for answer in &self.answers {
            let mut listed = HashSet::new();
            for (id, title) in &answer.issues {
                let row = by_id.get(&**id);
                let is_new = listed.insert(&**id);
                found.foreign_listed += u64::from(row.is_none() || !is_new);
                found.altered += u64::from(row.is_some_and(|row| row.title != *title));
            }
            if answer.is_of_all {
                found.unlisted += self.missing(answer, &listed, &ordered);
            }
        }
    }

    /// Returns how many issues had to be in an answer and are not. A closed issue is left aside: an answer may hide it.
    fn missing(&self, answer: &ListAnswer, listed: &HashSet<&str>, ordered: &[&Row]) -> u64 {
        let last = answer.issues.last().filter(|_| answer.is_full);
        let end = last.map_or(ordered.len(), |(id, _)| {
            let position = ordered.iter().position(|row| row.id == *id);
            position.unwrap_or(0)
        });
        let must_be_there = |row: &&&Row| {
            let acknowledged = self.acknowledged.get(&row.id);
            acknowledged.is_some_and(|at_ns| *at_ns < answer.invoked_ns)
                && *row.status != *"closed"
                && !listed.contains(&*row.id)
        };
        ordered[..end].iter().filter(must_be_there).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns rows of one priority, the oldest first.
    fn rows(ids: &[&str]) -> Rows {
        let row = |(second, id): (usize, &&str)| {
            let row = json!({
                "id": id,
                "title": *id,
                "status": "open",
                "priority": 2,
                "created_at": format!("2026-01-01T00:00:{second:02}Z"),
            });
            serde_json::from_value(row).unwrap()
        };
        Rows::from_rows(ids.iter().enumerate().map(row).collect())
    }

    /// Compares a list that was asked for at 10, of at most 3 issues.
    fn compare(listed: &[(&str, &str)], acknowledged: &[(&str, u64)]) -> [u64; 3] {
        let mut lists = Lists::default();
        for (id, at_ns) in acknowledged {
            lists.acknowledge(id, *at_ns);
        }
        let span = Span {
            invoked_ns: 10,
            returned_ns: Some(20),
        };
        lists.add(span, listed.iter().copied(), 3, true);
        let mut found = Found::default();
        lists.compare(&rows(&["a", "b", "c", "d"]), &mut found);
        [found.foreign_listed, found.unlisted, found.altered]
    }

    #[test]
    fn a_list_has_all_that_was_acknowledged_before_up_to_its_limit_and_nothing_else() {
        let before = [("a", 1), ("b", 2), ("c", 3), ("d", 15)];
        let (a, b, c, d) = (("a", "a"), ("b", "b"), ("c", "c"), ("d", "d"));
        assert_eq!(compare(&[c, b, a], &before), [0, 0, 0]);
        assert_eq!(
            compare(&[d, c, b], &before),
            [0, 0, 0],
            "a is beyond its limit"
        );
        assert_eq!(compare(&[c, a], &before), [0, 1, 0]);
        assert_eq!(compare(&[d, c, a], &before), [0, 1, 0]);
        assert_eq!(compare(&[], &before), [0, 3, 0]);
        assert_eq!(compare(&[c, b, ("x", "x")], &before)[0], 1);
        assert_eq!(compare(&[c, c, b], &before), [1, 0, 0]);
        assert_eq!(compare(&[c, ("b", "other"), a], &before), [0, 0, 1]);
    }
}
