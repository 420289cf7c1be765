//! The folder of a suite: `<out>/<date>-<host>/<plan>/`, found again as long as something in it is unfinished.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use harness::drivers::entries;
use harness::store::{self, RESULT};
use measure::result::RunResult;

use crate::driver_run;
use crate::record::{FILE, Record, RunId};
use crate::resolve::Suite;

/// The folder of all results, unless a call names another.
pub(crate) const RESULTS: &str = "bench-results";
/// File name of the result of a run that was cut short.
const INTERRUPTED: &str = "interrupted.json";
/// File name of a result that can't be read, or was edited, and whose run is repeated.
const UNREADABLE: &str = "unreadable.json";
/// Bytes that must fit on the disk before a run: no result is smaller.
const TRIAL_BYTES: usize = 4 << 10;
/// The plan that all runs of the suite are made from.
const PLAN: &str = "plan.toml";

/// A suite's folder, locked against other processes.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Opens the folder of the newest suite that is the same, with its record, or a new folder without one. A finished
    /// suite counts only if it was measured with the revision `commit` of the sources.
    ///
    /// # Errors
    /// The folder can't be written, or another process is using it.
    pub(crate) fn open(
        out: &Path,
        host: &str,
        suite: &Suite,
        commit: Option<&str>,
        fresh: bool,
    ) -> anyhow::Result<(Self, Option<Record>)> {
        if !fresh && let Some((path, record)) = newest(out, host, suite, commit) {
            return Ok((Self::locked(path)?, Some(record)));
        }
        let folder = Self::locked(create(out, host, &suite.spec.name)?)?;
        let question = suite.question.as_deref().unwrap_or("What comes out?");
        let plan = format!("# {question}\n{}", suite.spec.plan);
        store::write_whole(&folder.plan(), plan.as_bytes())
            .with_context(|| format!("--out {}", out.display()))?;
        Ok((folder, None))
    }

    fn locked(path: PathBuf) -> anyhow::Result<Self> {
        let lock = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        if lock.try_lock().is_err() {
            bail!(
                "another drover run is active in the folder of the same suite, {}: wait until it has ended, or start over with --fresh",
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

    /// Returns the path of a run's result.
    pub(crate) fn result(&self, id: &RunId) -> PathBuf {
        id.folder(&self.path).join(RESULT)
    }

    /// Returns the result of a run that has completed.
    ///
    /// # Errors
    /// A result exists that can't be read, or was edited.
    pub(crate) fn intact(&self, id: &RunId) -> anyhow::Result<Option<RunResult>> {
        let path = self.result(id);
        if !path.exists() {
            return Ok(None);
        }
        let result = store::read_result(&path)?;
        Ok(Some(result).filter(|result| !driver_run::was_interrupted(result)))
    }

    /// Clears the remains of a run that was cut short, and checks that the next run can write.
    ///
    /// # Errors
    /// The folder can't be written, or the disk is full: then no other run could store a result either.
    pub(crate) fn prepare(&self, id: &RunId) -> anyhow::Result<()> {
        let folder = id.folder(&self.path);
        // A result that is incomplete, or was edited, may still be wanted.
        let _ = fs::rename(folder.join(RESULT), folder.join(UNREADABLE));
        // Whoever watches or merges must not take them for the next run's.
        let is_kept = |path: &PathBuf| {
            [INTERRUPTED, UNREADABLE]
                .iter()
                .any(|it| path.ends_with(it))
        };
        for stale in entries(&folder).into_iter().filter(|it| !is_kept(it)) {
            let _ = fs::remove_dir_all(&stale).or_else(|_| fs::remove_file(&stale));
        }
        fs::create_dir_all(&folder)
            .and_then(|()| tempfile::tempfile_in(&folder))
            .and_then(|mut trial| {
                trial.write_all(&[0; TRIAL_BYTES])?;
                trial.sync_all()
            })
            .with_context(|| {
                format!(
                    "no run can store its result in {}: free space there, then repeat the command to continue",
                    folder.display()
                )
            })
    }

    /// Keeps an INVALID attempt at a run, with all of its files, in a folder of its own that is no repetition. Returns
    /// the attempt's number: the first from `attempt` on that has no folder yet.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn set_invalid_aside(&self, id: &RunId, attempt: u32) -> anyhow::Result<u32> {
        let from = id.folder(&self.path);
        let folder = |attempt: u32| id.set_aside_folder(&self.path, attempt);
        let attempt = (attempt..)
            .find(|attempt| !folder(*attempt).exists())
            .context("the attempts at a run are not numbered any further")?;
        fs::rename(&from, folder(attempt))
            .with_context(|| format!("setting the INVALID result in {} aside", from.display()))?;
        Ok(attempt)
    }

    /// Keeps the result of a run that was cut short under another name.
    pub(crate) fn set_aside(&self, id: &RunId) {
        let result = self.result(id);
        let _ = fs::rename(&result, result.with_file_name(INTERRUPTED));
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

/// Returns the newest folder of any day with the same suite, or with one that has fewer repetitions, unless that suite is finished and belongs to another
/// revision of the sources.
fn newest(
    out: &Path,
    host: &str,
    suite: &Suite,
    commit: Option<&str>,
) -> Option<(PathBuf, Record)> {
    all(out)
        .into_iter()
        .filter(|(path, record)| {
            record.suite.is_continued_by(&suite.spec) && is_on_host(path, host)
        })
        .max_by(|(_, one), (_, other)| one.started_at.cmp(&other.started_at))
        .filter(|(_, record)| record.ended_at.is_none() || record.git_commit.as_deref() == commit)
}

fn is_on_host(path: &Path, host: &str) -> bool {
    let day = path.parent().and_then(Path::file_name);
    day.and_then(|day| day.to_str())
        .is_some_and(|day| day.get(11..) == Some(host))
}

/// Returns all suites below a folder of results, sorted by path.
pub(crate) fn all(out: &Path) -> Vec<(PathBuf, Record)> {
    let folders = entries(out).into_iter().flat_map(|day| entries(&day));
    let mut suites: Vec<(PathBuf, Record)> = folders
        .filter(|path| path.join(FILE).is_file())
        .filter_map(|path| Record::read(&path).ok().map(|record| (path, record)))
        .collect();
    suites.sort_by(|(one, _), (other, _)| one.cmp(other));
    suites
}
