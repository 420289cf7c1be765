//! Follows a run that is divided over several programs: the state of each shard, and the sum of their seconds.

use std::collections::BTreeMap;
use std::path::Path;

use harness::divided::{DAEMON_FOLDER, Shard, ShardState, Shards};
use harness::live::LiveSecond;
use measure::units;

use crate::live_run::{KEPT, LiveRun, Use};

/// Time without a new second after which a shard is silent, nanoseconds.
const SILENT_NS: u64 = 5_000_000_000;
/// Number of seconds that a shard may be behind the first.
const LATE_S: u64 = 3;

/// A divided run.
#[derive(Debug)]
pub(super) struct Divided {
    pub(super) shards: Shards,
    /// The sums of the seconds that some shard has reported.
    sums: BTreeMap<u64, LiveSecond>,
}

/// The condition of a shard, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Condition {
    Failed,
    Silent,
    Late,
    Absent,
    Ready,
    Running,
    Ended,
}

impl Condition {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Silent => "silent",
            Self::Late => "late",
            Self::Absent => "not ready",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

impl Divided {
    /// Finds the shards of a run in a folder, if it is divided.
    pub(super) fn find(folder: &Path) -> Option<Self> {
        let (shards, seconds) = Shards::find(folder)?;
        let mut divided = Self {
            shards,
            sums: BTreeMap::new(),
        };
        divided.add(seconds);
        Some(divided)
    }

    /// Returns the reader of the daemon's samples, for the sum of the seconds.
    pub(super) fn sum(folder: &Path) -> LiveRun {
        LiveRun::new(&folder.join(DAEMON_FOLDER))
    }

    /// Reads what has changed, and sums it up.
    pub(super) fn refresh(&mut self, sum: &mut LiveRun) {
        let seconds = self.shards.refresh();
        self.add(seconds);
        sum.refresh();
        sum.seconds = self.whole_seconds().cloned().collect();
        if let Some(last) = sum.seconds.back_mut() {
            (last.started, last.ok, last.failed) = self.totals();
        }
        if let Some(resources) = &mut sum.resources {
            // The program with the daemon drives no load.
            resources.driver = Use::default();
        }
    }

    fn add(&mut self, seconds: Vec<LiveSecond>) {
        for second in seconds {
            match self.sums.get_mut(&second.second) {
                Some(sum) => add(sum, &second),
                None => drop(self.sums.insert(second.second, second)),
            }
        }
        while self.sums.len() > KEPT {
            self.sums.pop_first();
        }
    }

    /// Returns the seconds that all shards in progress have reported.
    fn whole_seconds(&self) -> impl Iterator<Item = &LiveSecond> {
        let running = self.shards.all().iter();
        let running = running.filter(|shard| self.condition(shard) == Condition::Running);
        let last = running.filter_map(|shard| shard.last.as_ref());
        let last = last.map(|second| second.second).min().unwrap_or(u64::MAX);
        self.sums.range(..=last).map(|(_, second)| second)
    }

    /// Returns the operations that were started, have succeeded and have failed so far.
    fn totals(&self) -> (u64, u64, u64) {
        let totals = self.shards.all().iter().map(totals);
        totals.fold((0, 0, 0), |sum, one| {
            (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2)
        })
    }

    pub(super) fn condition(&self, shard: &Shard) -> Condition {
        match &shard.state {
            ShardState::Failed(_) => Condition::Failed,
            ShardState::Ended(_) => Condition::Ended,
            ShardState::Running if shard.silent_ns() >= SILENT_NS => Condition::Silent,
            ShardState::Running if self.is_behind(shard) => Condition::Late,
            ShardState::Running => Condition::Running,
            // The others have begun without it.
            ShardState::Absent | ShardState::Ready if self.first() > LATE_S => Condition::Late,
            ShardState::Ready => Condition::Ready,
            ShardState::Absent => Condition::Absent,
        }
    }

    fn is_behind(&self, shard: &Shard) -> bool {
        let second = shard.last.as_ref().map_or(0, |last| last.second);
        second + LATE_S < self.first()
    }

    /// Returns the last second of the shard that has reported most.
    fn first(&self) -> u64 {
        let last = self.sums.last_key_value();
        last.map_or(0, |(second, _)| *second)
    }

    /// Returns true while a shard is expected to go on.
    pub(super) fn is_running(&self) -> bool {
        let mut shards = self.shards.all().iter();
        shards.any(|shard| !shard.has_ended() && self.condition(shard) != Condition::Silent)
    }

    /// Counts the shards by their condition, and names those that need a look: `3 shards: 1 running, 2 silent (0, 2)`.
    pub(super) fn describe(&self) -> String {
        let mut by_condition = BTreeMap::<Condition, Vec<u64>>::new();
        for shard in self.shards.all() {
            let alike = by_condition.entry(self.condition(shard)).or_default();
            alike.push(shard.index);
        }
        let counts = by_condition.iter().map(|(condition, alike)| {
            let count = format!("{} {}", alike.len(), condition.name());
            match condition {
                Condition::Running | Condition::Ready => count,
                _ => format!("{count} ({})", units::ranges(alike)),
            }
        });
        let counts = counts.collect::<Vec<_>>().join(", ");
        format!("{} shards: {counts}", self.shards.all().len())
    }
}

/// Returns the operations of a shard that were started, have succeeded and have failed.
pub(super) fn totals(shard: &Shard) -> (u64, u64, u64) {
    match (&shard.operations, &shard.last) {
        (Some(ended), _) => (ended.started, ended.ok, ended.failed),
        (None, Some(last)) => (last.started, last.ok, last.failed),
        (None, None) => (0, 0, 0),
    }
}

/// Adds the second of another shard. Percentiles cannot be added: the slowest shard's are kept.
pub(crate) fn add(sum: &mut LiveSecond, other: &LiveSecond) {
    sum.latest = sum.latest.max(other.latest);
    if other.end.seconds() > sum.end.seconds() {
        sum.end = other.end;
    }
    sum.started += other.started;
    sum.ok += other.ok;
    sum.failed += other.failed;
    sum.open += other.open;
    sum.rate += other.rate;
    sum.p50_ns = sum.p50_ns.max(other.p50_ns);
    sum.p99_ns = sum.p99_ns.max(other.p99_ns);
    sum.connections = match (sum.connections, other.connections) {
        (Some(one), Some(other)) => Some((one.0 + other.0, one.1 + other.1)),
        (one, other) => one.or(other),
    };
}
