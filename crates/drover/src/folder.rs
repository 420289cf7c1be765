//! The folder of a suite: `<out>/<date>-<host>/<plan>/`, found again as long as something in it is unfinished.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use harness::store::{self, RESULT};

use crate::cell;
use crate::matrix::Place;
use crate::project::entries;
use crate::record::{FILE, Record};
use crate::resolve::Suite;

/// Where a run that was cut short is kept.
const INTERRUPTED: &str = "interrupted.json";
/// What is kept of a result that can't be read, or was edited, where its run is made again.
const UNREADABLE: &str = "unreadable.json";
/// What must fit before a run is begun: no result is smaller.
const TRIAL_BYTES: usize = 4 << 10;
/// The plan that all runs of the suite are made from.
const PLAN: &str = "plan.toml";

/// A suite's folder, which nobody else writes to.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// The folder of an unfinished suite that is the same, with its record; else a new one, without.
    ///
    /// # Errors
    /// A folder that can't be written, or in which another process is at work.
    pub(crate) fn open(
        out: &Path,
        host: &str,
        suite: &Suite,
        fresh: bool,
    ) -> anyhow::Result<(Self, Option<Record>)> {
        if !fresh && let Some((path, record)) = unfinished(out, host, suite) {
            return Ok((Self::locked(path)?, Some(record)));
        }
        let folder = Self::locked(create(out, host, &suite.resolved.name)?)?;
        let question = suite.question.as_deref().unwrap_or("What comes out?");
        let plan = format!("# {question}\n{}", suite.resolved.plan);
        store::write_whole(&folder.plan(), plan.as_bytes())
            .with_context(|| format!("--out {}", out.display()))?;
        Ok((folder, None))
    }

    fn locked(path: PathBuf) -> anyhow::Result<Self> {
        let lock = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        if lock.try_lock().is_err() {
            bail!(
                "another drover run is at work on the same suite, in {}: wait until it has ended, or begin anew with --fresh",
                path.display()
            );
        }
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn plan(&self) -> PathBuf {
        self.path.join(PLAN)
    }

    /// The folder of a run.
    pub(crate) fn cell(&self, place: &Place) -> PathBuf {
        self.path
            .join(&place.daemon)
            .join(&place.level.name)
            .join(place.run.to_string())
    }

    /// Returns true where a run has come to its end and its result is whole.
    ///
    /// # Errors
    /// A result that is there and can't be read, or was edited.
    pub(crate) fn has(&self, place: &Place) -> anyhow::Result<bool> {
        let path = self.cell(place).join(RESULT);
        if !path.exists() {
            return Ok(false);
        }
        store::read_result(&path).map(|result| !cell::was_interrupted(&result))
    }

    /// Clears what a run that was cut short has left where the next one writes, and finds out whether it can.
    ///
    /// # Errors
    /// A folder that can't be written, or a full disk: then no other run would leave a result either.
    pub(crate) fn make_room(&self, place: &Place) -> anyhow::Result<()> {
        let cell = self.cell(place);
        // A result that is not whole, or was edited: whoever edited it may want it.
        let _ = fs::rename(cell.join(RESULT), cell.join(UNREADABLE));
        fs::create_dir_all(&cell)
            .and_then(|()| tempfile::tempfile_in(&cell))
            .and_then(|mut trial| {
                trial.write_all(&[0; TRIAL_BYTES])?;
                trial.sync_all()
            })
            .with_context(|| {
                format!(
                    "no run can leave its result in {}: make room there, and the same command goes on",
                    cell.display()
                )
            })
    }

    /// Keeps the result of a run that was cut short under another name.
    pub(crate) fn set_aside(&self, place: &Place) {
        let cell = self.cell(place);
        let _ = fs::rename(cell.join(RESULT), cell.join(INTERRUPTED));
    }
}

fn create(out: &Path, host: &str, plan: &str) -> anyhow::Result<PathBuf> {
    let date = store::timestamp(SystemTime::now());
    let day = out.join(format!("{}-{host}", &date[..10]));
    let remedy = || {
        format!(
            "--out {}: can't create a folder in {}: name a folder that can be written",
            out.display(),
            day.display()
        )
    };
    fs::create_dir_all(&day).with_context(remedy)?;
    for path in store::numbered(plan).map(|name| day.join(name)) {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(remedy),
        }
    }
    unreachable!("there is always a next number")
}

/// The latest folder of any day with the same suite and something left to do.
fn unfinished(out: &Path, host: &str, suite: &Suite) -> Option<(PathBuf, Record)> {
    let same = |record: &Record| record.ended_at.is_none() && record.suite == suite.resolved;
    all(out)
        .into_iter()
        .filter(|(path, record)| same(record) && is_of(path, host))
        .max_by(|(_, one), (_, other)| one.started_at.cmp(&other.started_at))
}

fn is_of(path: &Path, host: &str) -> bool {
    let day = path.parent().and_then(Path::file_name);
    day.and_then(|day| day.to_str())
        .is_some_and(|day| day.get(11..) == Some(host))
}

/// All suites below a folder of results, by their paths.
pub(crate) fn all(out: &Path) -> Vec<(PathBuf, Record)> {
    let folders = entries(out).into_iter().flat_map(|day| entries(&day));
    let mut suites: Vec<(PathBuf, Record)> = folders
        .filter(|path| path.join(FILE).is_file())
        .filter_map(|path| Record::read(&path).ok().map(|record| (path, record)))
        .collect();
    suites.sort_by(|(one, _), (other, _)| one.cmp(other));
    suites
}
