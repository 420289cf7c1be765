//! The shards of a run as their files show them: for the part with the daemon, which waits for them, and for programs
//! that watch.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use load::clock;
use measure::result::Operations;
use measure::warning::Verdict;
use serde::Deserialize;

use super::{FAILED, MOST_SHARDS, Ready, START, names, shard_folder, shard_of_folder};
use crate::live::{LIVE, LiveSecond, Tail};
use crate::store::{self, RESULT};

/// The shards of a run.
#[derive(Debug)]
pub struct Shards {
    folder: PathBuf,
    shards: Vec<Shard>,
}

/// A shard of a run.
#[derive(Debug)]
pub struct Shard {
    /// Its index, from 0.
    pub index: u64,
    /// Name of its machine, once it was ready.
    pub host: Option<String>,
    /// Its state.
    pub state: ShardState,
    /// The last second of its load.
    pub last: Option<LiveSecond>,
    /// The outcomes of its operations, once it has a result.
    pub operations: Option<Operations>,
    live: Tail,
    /// Time of its last sign of life, nanoseconds of CLOCK_MONOTONIC.
    alive_at: u64,
}

/// The state of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardState {
    /// Not ready.
    Absent,
    /// Ready for the common start.
    Ready,
    /// Driving its load, or writing its result.
    Running,
    /// With a result, which has this verdict.
    Ended(Verdict),
    /// Without a result, for this reason.
    Failed(String),
}

/// The fields of a result that show how a shard has ended.
#[derive(Debug, Deserialize)]
struct EndedShard {
    verdict: Verdict,
    operations: Operations,
}

impl Shards {
    /// Creates the shards of a run in a folder. More are found by their files.
    #[must_use]
    pub fn new(folder: &Path, of: u64) -> Self {
        let mut shards = Self {
            folder: folder.to_owned(),
            shards: Vec::new(),
        };
        shards.grow(of);
        shards
    }

    /// Finds the shards of a run by their files; `None` if there are none. Their silence is counted from the times of
    /// these files.
    #[must_use]
    pub fn find(folder: &Path) -> Option<(Self, Vec<LiveSecond>)> {
        let mut shards = Self::new(folder, 0);
        let seconds = shards.refresh();
        for shard in &mut shards.shards {
            let file = fs::metadata(folder.join(shard_folder(shard.index)).join(LIVE));
            let modified = file.and_then(|file| file.modified());
            let age = modified.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
            let age = age.unwrap_or_default().as_nanos();
            let age = u64::try_from(age).unwrap_or(u64::MAX);
            shard.alive_at = shard.alive_at.saturating_sub(age);
        }
        (!shards.shards.is_empty()).then_some((shards, seconds))
    }

    /// Returns the shards by their indices.
    #[must_use]
    pub fn all(&self) -> &[Shard] {
        &self.shards
    }

    /// Reads what has changed. Returns the new seconds of all shards.
    pub fn refresh(&mut self) -> Vec<LiveSecond> {
        let Ok(listed) = names(&self.folder) else {
            // A folder that cannot be read says nothing about the shards.
            let now = clock::now();
            self.shards
                .iter_mut()
                .for_each(|shard| shard.alive_at = now);
            return Vec::new();
        };
        let index = |name: &OsString| {
            let name = name.to_str()?;
            let ready = name.strip_prefix(START.ready);
            ready.map_or_else(|| shard_of_folder(name), |index| index.parse().ok())
        };
        let last = listed.iter().filter_map(index).max();
        self.grow(last.map_or(0, |last| last.saturating_add(1)));
        let mut seconds = Vec::new();
        let mut of = 0;
        for shard in self.shards.iter_mut().filter(|shard| !shard.has_ended()) {
            of = of.max(shard.read_ready(&self.folder, &listed));
            seconds.extend(shard.read_seconds(&self.folder, &listed));
        }
        self.grow(of);
        seconds
    }

    fn grow(&mut self, of: u64) {
        for index in self.shards.len() as u64..of.min(MOST_SHARDS) {
            self.shards.push(Shard {
                index,
                host: None,
                state: ShardState::Absent,
                last: None,
                operations: None,
                live: Tail::new(self.folder.join(shard_folder(index)).join(LIVE)),
                alive_at: clock::now(),
            });
        }
    }
}

impl Shard {
    /// Returns true once it has a result or has failed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, ShardState::Ended(_) | ShardState::Failed(_))
    }

    /// Returns the time since its last sign of life, nanoseconds.
    #[must_use]
    pub fn silent_ns(&self) -> u64 {
        clock::now().saturating_sub(self.alive_at)
    }

    fn enter(&mut self, state: ShardState) {
        self.state = state;
        self.alive_at = clock::now();
    }

    /// Reads whether it is ready. Returns the number of shards of its run, or 0.
    fn read_ready(&mut self, folder: &Path, listed: &BTreeSet<OsString>) -> u64 {
        let name = format!("{}{}", START.ready, self.index);
        if self.host.is_some() || !listed.contains(OsStr::new(&name)) {
            return 0;
        }
        let text = store::read(&folder.join(name)).unwrap_or_default();
        let Ok(ready) = serde_json::from_slice::<Ready>(&text) else {
            return 0;
        };
        self.host = Some(ready.program.host);
        self.enter(ShardState::Ready);
        ready.of
    }

    /// Reads its new seconds, and whether it has ended.
    fn read_seconds(&mut self, folder: &Path, listed: &BTreeSet<OsString>) -> Vec<LiveSecond> {
        let failed = format!("{FAILED}{}", self.index);
        if listed.contains(OsStr::new(&failed)) {
            let reason = store::read(&folder.join(failed)).unwrap_or_default();
            let reason = String::from_utf8_lossy(&reason).into_owned();
            self.enter(ShardState::Failed(reason));
            return Vec::new();
        }
        let own = shard_folder(self.index);
        if !listed.contains(OsStr::new(&own)) {
            return Vec::new();
        }
        let own = folder.join(own);
        let files = names(&own).unwrap_or_default();
        let mut seconds = Vec::new();
        if files.contains(OsStr::new(LIVE)) {
            let lines = self.live.lines();
            let lines = lines.iter();
            seconds.extend(lines.filter_map(|line| serde_json::from_str(line).ok()));
        }
        if let Some(last) = seconds.last() {
            self.last = Some(LiveSecond::clone(last));
            self.enter(ShardState::Running);
        }
        if files.contains(OsStr::new(RESULT)) {
            let text = store::read(&own.join(RESULT)).unwrap_or_default();
            let state = match serde_json::from_slice::<EndedShard>(&text) {
                Ok(outcome) => {
                    self.operations = Some(outcome.operations);
                    ShardState::Ended(outcome.verdict)
                }
                Err(error) => ShardState::Failed(format!("{RESULT} is damaged: {error}")),
            };
            self.enter(state);
        }
        seconds
    }
}
