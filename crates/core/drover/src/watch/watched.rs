//! Finds the suite or the run to watch, and follows it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use harness::drivers::entries;
use harness::live::LIVE;
use harness::store::RESULT;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::divided::Divided;
use crate::folder;
use crate::live_run::LiveRun;
use crate::record::{FILE, Record, Running};

/// Age of the file of a run in progress: it is written every second.
const FRESH: Duration = Duration::from_secs(10);
/// Readings between two searches for a newer suite, while none runs.
const SEARCH_EVERY: u32 = 5;

/// The suite or the run that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    /// The folder that the user named.
    named: PathBuf,
    /// The folder of the suite, or of the single run.
    pub(super) folder: PathBuf,
    /// The record of a suite; absent for a single run.
    pub(super) record: Option<Record>,
    /// The run in progress; the sum of a divided one.
    pub(super) run: Option<LiveRun>,
    /// The shards of a divided run.
    pub(super) divided: Option<Divided>,
    /// The run that `run` belongs to.
    followed: Option<Running>,
    readings: u32,
}

impl Watched {
    /// Finds what to watch.
    ///
    /// # Errors
    /// There is no suite and no run.
    pub(super) fn open(named: &Path) -> anyhow::Result<Self> {
        let folder = find(named)?;
        let mut watched = Self {
            named: named.to_owned(),
            folder,
            record: None,
            run: None,
            divided: None,
            followed: None,
            readings: 0,
        };
        watched.read();
        Ok(watched)
    }

    /// Reads what has changed. While nothing runs, it looks for a suite that has begun since.
    pub(super) fn refresh(&mut self) {
        self.readings += 1;
        if !self.is_running()
            && self.readings.is_multiple_of(SEARCH_EVERY)
            && let Ok(found) = find(&self.named)
            && found != self.folder
        {
            self.folder = found;
            self.run = None;
            self.divided = None;
            self.followed = None;
        }
        self.read();
    }

    fn read(&mut self) {
        if self.divided.is_none() {
            self.divided = Divided::find(&self.folder);
        }
        if let Some(divided) = &mut self.divided {
            let folder = &self.folder;
            let sum = self.run.get_or_insert_with(|| Divided::sum(folder));
            divided.refresh(sum);
            return;
        }
        if self.folder.join(FILE).is_file() {
            // A record that can't be read at this moment is read again in a second.
            self.record = Record::read(&self.folder).ok().or(self.record.take());
            let running = self
                .record
                .as_ref()
                .and_then(|record| record.running.clone());
            if running != self.followed {
                let folder = |running: &Running| running.id.folder(&self.folder);
                self.run = running.as_ref().map(|it| LiveRun::new(&folder(it)));
                self.followed = running;
            }
        } else {
            self.record = None;
            let folder = &self.folder;
            self.run.get_or_insert_with(|| LiveRun::new(folder));
        }
        if let Some(run) = &mut self.run {
            run.refresh();
        }
    }

    /// Returns the run in progress of a suite whose program is alive.
    pub(super) fn running(&self) -> Option<&Running> {
        let running = self.record.as_ref()?.running.as_ref()?;
        is_alive(running.pid).then_some(running)
    }

    /// Returns true if a shard has neither a result nor failed.
    pub(super) fn has_lost_shards(&self) -> bool {
        let shards = self.divided.iter().flat_map(|it| it.shards.all());
        shards.into_iter().any(|shard| !shard.has_ended())
    }

    /// Returns true while the suite or the run is in progress.
    pub(super) fn is_running(&self) -> bool {
        match (&self.divided, &self.record) {
            (Some(divided), _) => divided.is_running(),
            (None, Some(_)) => self.running().is_some(),
            (None, None) => is_fresh(&self.folder.join(LIVE)),
        }
    }
}

fn is_alive(pid: u32) -> bool {
    // A process of another user must not be signalled, but it is there.
    kill(Pid::from_raw(pid.cast_signed()), None) != Err(nix::errno::Errno::ESRCH)
}

fn is_fresh(file: &Path) -> bool {
    let modified = fs::metadata(file).and_then(|file| file.modified());
    modified.is_ok_and(|at| SystemTime::now().duration_since(at).unwrap_or_default() < FRESH)
}

/// Returns the folder of the named suite or run, which may be divided; or the newest suite that runs below the folder; or the newest run of
/// a driver in progress; or the newest suite.
fn find(named: &Path) -> anyhow::Result<PathBuf> {
    let holds = |name: &str| named.join(name).is_file();
    if holds(FILE) || holds(LIVE) || holds(RESULT) || Divided::find(named).is_some() {
        return Ok(named.to_owned());
    }
    let mut suites = folder::all(named);
    suites.sort_by(|(_, one), (_, other)| one.started_at.cmp(&other.started_at));
    let is_running = |record: &Record| record.running.as_ref().is_some_and(|it| is_alive(it.pid));
    let running = suites.iter().rev().find(|(_, record)| is_running(record));
    if let Some((folder, _)) = running {
        return Ok(folder.clone());
    }
    if let Some(run) = newest_run(named) {
        return Ok(run);
    }
    if let Some((folder, _)) = suites.pop() {
        return Ok(folder);
    }
    if !named.is_dir() {
        bail!(
            "{}: there is no such folder: start a suite with `drover run PLAN`, or name the folder of its results (--out)",
            named.display()
        );
    }
    None.with_context(|| {
        format!(
            "{}: no suite, and no run in progress: start one with `drover run PLAN`, or name its folder",
            named.display()
        )
    })
}

/// Returns the newest run in progress outside of suites: `<date>-<host>/<plan>/<daemon>/<level>/<n>`.
fn newest_run(out: &Path) -> Option<PathBuf> {
    let plans = entries(out).into_iter().flat_map(|day| entries(&day));
    let daemons = plans
        .filter(|plan| !plan.join(FILE).is_file())
        .flat_map(|plan| entries(&plan));
    let runs = daemons
        .flat_map(|daemon| entries(&daemon))
        .flat_map(|level| entries(&level));
    let modified = |run: &PathBuf| {
        fs::metadata(run.join(LIVE))
            .and_then(|it| it.modified())
            .ok()
    };
    runs.filter(|run| is_fresh(&run.join(LIVE)))
        .max_by_key(modified)
}
