//! The account of what was written, and its comparison with the database at the end of a run.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use issue_rpc::{Call, Client, ClientError};
use serde::Deserialize;
use serde_json::json;

use crate::history::Histories;

/// Records of a page of an export.
const PAGE: u32 = 1_000;

/// Names an issue that this run creates: its title holds these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) agent: u32,
    /// The number of the agent's operation.
    pub(crate) operation: u32,
    /// The index in its batch.
    pub(crate) part: u16,
}

impl Name {
    /// Returns the title of the issue in a run.
    pub(crate) fn title(self, run: u64) -> String {
        let Self {
            agent,
            operation,
            part,
        } = self;
        format!("{run:016x} {agent} {operation} {part}")
    }

    /// Reads the name of an issue of a run from its title; others have none.
    fn parse(run: u64, title: &str) -> Option<Self> {
        let mut words = title.split(' ');
        let found = u64::from_str_radix(words.next()?, 16).ok()?;
        let name = Self {
            agent: words.next()?.parse().ok()?,
            operation: words.next()?.parse().ok()?,
            part: words.next()?.parse().ok()?,
        };
        (found == run && words.next().is_none()).then_some(name)
    }
}

/// The state of an issue as far as the answers tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Acknowledged with this id.
    Stored(Box<str>),
    /// Refused, or taken back with its batch.
    Absent,
    /// No answer arrived.
    Unknown,
}

/// The writes of the agents of a worker, and later of all workers.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    issues: HashMap<Name, Expected>,
    /// Atomic batches, by agent and operation, with the number of their creates.
    batches: HashMap<(u32, u32), u16>,
    pub(crate) histories: Histories,
}

/// Contradictions between the answers and the database.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) lost: u64,
    pub(crate) phantom: u64,
    pub(crate) duplicated: u64,
    pub(crate) duplicate_ids: u64,
    pub(crate) partial_batches: u64,
    pub(crate) wrong_counts: u64,
}

impl Ledger {
    pub(crate) fn expect(&mut self, name: Name, expected: Expected) {
        self.issues.insert(name, expected);
    }

    pub(crate) fn expect_batch(&mut self, agent: u32, operation: u32, creates: u16) {
        self.batches.insert((agent, operation), creates);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.issues.extend(other.issues);
        self.batches.extend(other.batches);
        self.histories.merge(other.histories);
    }

    /// Compares all answers with the rows of the database.
    pub(crate) fn compare(&self, run: u64, rows: &Rows) -> Found {
        let mut found = Found {
            wrong_counts: rows.wrong_counts(),
            ..Found::default()
        };
        let mut stored = HashMap::<Name, &str>::new();
        for row in &rows.rows {
            let Some(name) = Name::parse(run, &row.title) else {
                continue;
            };
            if stored.insert(name, &row.id).is_some() {
                found.duplicated += 1;
            }
            match self.issues.get(&name) {
                Some(Expected::Stored(id)) if **id == *row.id => {}
                Some(Expected::Unknown) => {}
                Some(Expected::Stored(_) | Expected::Absent) | None => found.phantom += 1,
            }
        }
        let mut ids = HashSet::new();
        for (name, expected) in &self.issues {
            let Expected::Stored(id) = expected else {
                continue;
            };
            found.duplicate_ids += u64::from(!ids.insert(id));
            let is_there = stored.get(name).is_some_and(|stored| **stored == **id);
            found.lost += u64::from(!is_there);
        }
        found.partial_batches = self.partial_batches(&stored);
        found
    }

    fn partial_batches(&self, stored: &HashMap<Name, &str>) -> u64 {
        let is_partial = |((agent, operation), creates): (&(u32, u32), &u16)| {
            let parts = (0..*creates).filter(|part| {
                stored.contains_key(&Name {
                    agent: *agent,
                    operation: *operation,
                    part: *part,
                })
            });
            let kept = parts.count();
            kept > 0 && kept < usize::from(*creates)
        };
        self.batches
            .iter()
            .filter(|batch| is_partial(*batch))
            .count() as u64
    }
}

/// The issues of a database, and its own counts of them.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    stats: Stats,
}

#[derive(Debug, Deserialize)]
struct Row {
    id: Box<str>,
    title: Box<str>,
    status: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
struct Stats {
    total: u64,
    open: u64,
    in_progress: u64,
    closed: u64,
}

#[derive(Debug, Deserialize)]
struct Page {
    records: Vec<Row>,
    next: Option<i64>,
}

impl Rows {
    /// Reads all issues through the daemon, once nothing writes any more.
    ///
    /// # Errors
    /// The daemon does not answer, or refuses.
    pub(crate) fn read(socket: &Path) -> Result<Self, ClientError> {
        let mut client = Client::connect(socket, "issue-stress")?;
        let (mut rows, mut after) = (Vec::new(), Some(0));
        while let Some(from) = after {
            let args = json!({"after": from, "limit": PAGE});
            let page: Page = client.read(&Call::new("export", args))?;
            rows.extend(page.records);
            after = page.next;
        }
        let stats = client.read(&Call::new("stats", json!({})))?;
        Ok(Self { rows, stats })
    }

    /// Returns the number of counts that differ from the rows.
    fn wrong_counts(&self) -> u64 {
        let with = |status: &str| {
            let rows = self.rows.iter().filter(|row| *row.status == *status);
            rows.count() as u64
        };
        let pairs = [
            (self.stats.total, self.rows.len() as u64),
            (self.stats.open, with("open")),
            (self.stats.in_progress, with("in_progress")),
            (self.stats.closed, with("closed")),
        ];
        pairs.iter().filter(|(count, rows)| count != rows).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 7;

    fn name(operation: u32, part: u16) -> Name {
        Name {
            agent: 1,
            operation,
            part,
        }
    }

    fn rows(names: &[(Name, &str)]) -> Rows {
        let row = |(name, id): &(Name, &str)| Row {
            id: (*id).into(),
            title: name.title(RUN).into(),
            status: "open".into(),
        };
        let rows: Vec<Row> = names.iter().map(row).collect();
        let count = rows.len() as u64;
        let stats = Stats {
            total: count,
            open: count,
            ..Stats::default()
        };
        Rows { rows, stats }
    }

    fn stored(id: &str) -> Expected {
        Expected::Stored(id.into())
    }

    #[test]
    fn each_contradiction_is_counted_as_what_it_is() {
        let mut ledger = Ledger::default();
        ledger.expect(name(0, 0), stored("a"));
        ledger.expect(name(1, 0), Expected::Absent);
        ledger.expect(name(2, 0), Expected::Unknown);
        let none = Found::default();
        let compare = |ledger: &Ledger, names: &[(Name, &str)]| ledger.compare(RUN, &rows(names));
        assert_eq!(compare(&ledger, &[(name(0, 0), "a")]), none);
        assert_eq!(
            compare(&ledger, &[(name(0, 0), "a"), (name(2, 0), "c")]),
            none
        );
        assert_eq!(compare(&ledger, &[]).lost, 1);
        assert_eq!(
            compare(&ledger, &[(name(0, 0), "a"), (name(1, 0), "b")]).phantom,
            1
        );
        let twice = [(name(0, 0), "a"), (name(2, 0), "b"), (name(2, 0), "c")];
        assert_eq!(compare(&ledger, &twice).duplicated, 1);
        let other = compare(&ledger, &[(name(0, 0), "z")]);
        assert_eq!((other.lost, other.phantom), (1, 1));
        ledger.expect(name(3, 0), stored("a"));
        assert_eq!(compare(&ledger, &[(name(0, 0), "a")]).duplicate_ids, 1);
    }

    #[test]
    fn a_batch_is_there_whole_or_not_at_all() {
        let mut ledger = Ledger::default();
        for part in 0..2 {
            ledger.expect(name(0, part), Expected::Unknown);
        }
        ledger.expect_batch(1, 0, 2);
        let partial = |names: &[(Name, &str)]| ledger.compare(RUN, &rows(names)).partial_batches;
        assert_eq!(partial(&[]), 0);
        assert_eq!(partial(&[(name(0, 1), "b")]), 1);
        assert_eq!(partial(&[(name(0, 0), "a"), (name(0, 1), "b")]), 0);
    }

    #[test]
    fn counts_are_compared_with_rows_and_issues_of_others_are_left_aside() {
        let mut all = rows(&[]);
        all.rows.push(Row {
            id: "x".into(),
            title: "Fix the door".into(),
            status: "open".into(),
        });
        assert_eq!(all.wrong_counts(), 2);
        all.stats.total = 1;
        all.stats.open = 1;
        assert_eq!(Ledger::default().compare(RUN, &all), Found::default());
    }
}
