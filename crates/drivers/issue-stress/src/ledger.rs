//! The account of what was written, and its comparison with the database at the end of a run.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use issue_rpc::{Call, Client, ClientError};
use serde::Deserialize;
use serde_json::json;

use crate::agent::LABEL;
use crate::history::Histories;
use crate::lists::Lists;

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

    /// Returns the description of the issue, in a scenario whose issues have one.
    pub(crate) fn description(self, run: u64) -> String {
        format!("The description of {}", self.title(run))
    }

    /// Reads the name of an issue of a run from its title; others have none.
    pub(crate) fn parse(run: u64, title: &str) -> Option<Self> {
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
    /// Issues that only their agent changes, and that it closed: true if that was acknowledged.
    closed: HashMap<Box<str>, bool>,
    pub(crate) histories: Histories,
    pub(crate) lists: Lists,
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
    /// Issues that are stored, or listed, with another content than was sent.
    pub(crate) altered: u64,
    /// Issues of lists that are not in the database, or twice in a list.
    pub(crate) foreign_listed: u64,
    /// Issues that had to be in a list.
    pub(crate) unlisted: u64,
    pub(crate) unchecked_lists: u64,
}

impl Ledger {
    /// Notes that an issue was closed, and whether that `is_acknowledged`.
    pub(crate) fn expect_closed(&mut self, id: &str, is_acknowledged: bool) {
        self.closed.insert(id.into(), is_acknowledged);
    }

    pub(crate) fn expect(&mut self, name: Name, expected: Expected) {
        self.issues.insert(name, expected);
    }

    pub(crate) fn expect_batch(&mut self, agent: u32, operation: u32, creates: u16) {
        self.batches.insert((agent, operation), creates);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.issues.extend(other.issues);
        self.batches.extend(other.batches);
        self.closed.extend(other.closed);
        self.histories.merge(other.histories);
        self.lists.merge(other.lists);
    }

    /// Compares all answers with the rows of the database. `is_described` is set if the issues have descriptions.
    pub(crate) fn compare(&self, run: u64, rows: &Rows, is_described: bool) -> Found {
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
            let is_as_sent = self.is_as_sent(row, is_described.then(|| name.description(run)));
            match self.issues.get(&name) {
                Some(Expected::Stored(id)) if **id == *row.id => {
                    found.altered += u64::from(!is_as_sent);
                }
                Some(Expected::Unknown) => found.altered += u64::from(!is_as_sent),
                Some(Expected::Stored(_) | Expected::Absent) | None => found.phantom += 1,
            }
        }
        let by_id = rows.by_id();
        let mut ids = HashSet::new();
        for (name, expected) in &self.issues {
            let Expected::Stored(id) = expected else {
                continue;
            };
            found.duplicate_ids += u64::from(!ids.insert(id));
            if stored.get(name).is_some_and(|stored| **stored == **id) {
                continue;
            }
            // A row of its id with a title that no request had is the issue, with another title.
            let row = by_id.get(&**id);
            let has_other_title = row.is_some_and(|row| Name::parse(run, &row.title).is_none());
            if has_other_title {
                found.altered += 1
            } else {
                found.lost += 1
            }
        }
        found.partial_batches = self.partial_batches(&stored);
        found
    }

    /// Returns true if the row of an issue has the content that was sent.
    fn is_as_sent(&self, row: &Row, description: Option<String>) -> bool {
        let is_closed = *row.status == *"closed";
        row.description == description.unwrap_or_default()
            && row.labels.iter().any(|label| label == LABEL)
            && (is_closed || self.closed.get(&row.id) != Some(&true))
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
pub(crate) struct Row {
    pub(crate) id: Box<str>,
    pub(crate) title: Box<str>,
    pub(crate) status: Box<str>,
    pub(crate) priority: u8,
    pub(crate) created_at: Box<str>,
    #[serde(default)]
    assignee: Box<str>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    labels: Vec<String>,
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

    #[cfg(test)]
    pub(crate) fn from_rows(rows: Vec<Row>) -> Self {
        let stats = Stats::default();
        Self { rows, stats }
    }

    /// Returns the rows, in the order in which they were created.
    pub(crate) fn all(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the rows by their ids.
    pub(crate) fn by_id(&self) -> HashMap<&str, &Row> {
        self.rows.iter().map(|row| (&*row.id, row)).collect()
    }

    /// Returns the number that was last written as the assignee of an issue; 0 if there is none.
    pub(crate) fn assignee(&self, id: &str) -> Option<u64> {
        let row = self.rows.iter().find(|row| *row.id == *id)?;
        match &*row.assignee {
            "" => Some(0),
            text => text.parse().ok(),
        }
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

    fn row(id: &str, title: &str) -> Row {
        Row {
            id: id.into(),
            title: title.into(),
            status: "open".into(),
            priority: 2,
            created_at: "2026-01-01T00:00:00Z".into(),
            assignee: "".into(),
            description: String::new(),
            labels: Vec::new(),
        }
    }

    fn rows(names: &[(Name, &str)]) -> Rows {
        let of_name = |(name, id): &(Name, &str)| Row {
            id: (*id).into(),
            title: name.title(RUN).into(),
            description: name.description(RUN),
            labels: vec![LABEL.to_owned()],
            ..row("", "")
        };
        let rows: Vec<Row> = names.iter().map(of_name).collect();
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
        let compare =
            |ledger: &Ledger, names: &[(Name, &str)]| ledger.compare(RUN, &rows(names), true);
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
    fn an_issue_with_another_content_than_was_sent_is_altered() {
        let mut ledger = Ledger::default();
        ledger.expect(name(0, 0), stored("a"));
        ledger.expect(name(1, 0), Expected::Unknown);
        ledger.expect_closed("a", true);
        let compare = |change: fn(&mut Row)| {
            let mut all = rows(&[(name(0, 0), "a"), (name(1, 0), "b")]);
            all.rows[0].status = "closed".into();
            (all.stats.open, all.stats.closed) = (1, 1);
            change(&mut all.rows[0]);
            let Found { altered, lost, .. } = ledger.compare(RUN, &all, true);
            (altered, lost)
        };
        assert_eq!(compare(|_| ()), (0, 0));
        assert_eq!(compare(|row| row.title = "other".into()), (1, 0));
        assert_eq!(compare(|row| row.description.push('.')), (1, 0));
        assert_eq!(compare(|row| row.labels.clear()), (1, 0));
        assert_eq!(compare(|row| row.status = "open".into()), (1, 0));
    }

    #[test]
    fn a_batch_is_there_whole_or_not_at_all() {
        let mut ledger = Ledger::default();
        for part in 0..2 {
            ledger.expect(name(0, part), Expected::Unknown);
        }
        ledger.expect_batch(1, 0, 2);
        let partial =
            |names: &[(Name, &str)]| ledger.compare(RUN, &rows(names), true).partial_batches;
        assert_eq!(partial(&[]), 0);
        assert_eq!(partial(&[(name(0, 1), "b")]), 1);
        assert_eq!(partial(&[(name(0, 0), "a"), (name(0, 1), "b")]), 0);
    }

    #[test]
    fn counts_are_compared_with_rows_and_issues_of_others_are_left_aside() {
        let mut all = rows(&[]);
        all.rows.push(row("x", "Fix the door"));
        assert_eq!(all.wrong_counts(), 2);
        all.stats.total = 1;
        all.stats.open = 1;
        assert_eq!(Ledger::default().compare(RUN, &all, true), Found::default());
    }
}
