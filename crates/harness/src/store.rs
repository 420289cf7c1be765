//! Where results go: `<out>/<date>-<host>/<plan>/<daemon>/<level>/<n>/result.json`, and what lies beside it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use measure::result::RunResult;

/// The file that says everything about a run.
pub const RESULT: &str = "result.json";
/// The file that says everything about a suite; it makes the folder of a plan that of the suite.
pub const SUITE: &str = "suite.json";

/// The folder of one run, reserved before the run begins.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Below it no folder stays that is empty.
    below: PathBuf,
}

impl Folder {
    /// Reserves the next free number below `<out>/<date>-<host>/<plan>/<daemon>/<level>/`; where a suite has the plan's
    /// folder, below `<plan>.2` and so on.
    ///
    /// # Errors
    /// A folder that can't be created, with the flag that names another.
    pub fn reserve(
        out: &Path,
        host: &str,
        plan: &str,
        daemon: &str,
        level: &str,
    ) -> anyhow::Result<Self> {
        let date = timestamp(SystemTime::now());
        let day = out.join(format!("{}-{host}", &date[..10]));
        let plan = numbered(plan).map(|name| day.join(name));
        let mut apart = plan.filter(|folder| !folder.join(SUITE).is_file());
        let parent = apart.next().unwrap_or(day).join(daemon).join(level);
        let remedy = || {
            format!(
                "--out {}: can't create {}: name a folder that can be written",
                out.display(),
                parent.display()
            )
        };
        let mut number: u32 = 1;
        loop {
            let path = parent.join(number.to_string());
            // Each time: a run that was released meanwhile takes its empty folders with it.
            fs::create_dir_all(&parent).with_context(remedy)?;
            match fs::create_dir(&path) {
                Ok(()) => {
                    let below = out.to_owned();
                    return Ok(Self { path, below });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(remedy),
            }
        }
    }

    /// Takes exactly this folder, which is created unless it is there.
    ///
    /// # Errors
    /// A folder that can't be written, or that holds a result already.
    pub fn at(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let remedy =
            || format!("--into {shown}: can't be written: name a folder that can be created");
        fs::create_dir_all(path).with_context(remedy)?;
        ensure!(
            !path.join(RESULT).exists(),
            "--into {shown}: holds a {RESULT} already: name another folder, or move that file away"
        );
        let trial = path.join(format!(".trial-{}", std::process::id()));
        File::create(&trial)
            .and_then(|_| fs::remove_file(&trial))
            .with_context(remedy)?;
        Ok(Self {
            path: path.to_owned(),
            below: path.parent().unwrap_or(path).to_owned(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file in it for lines that are appended while the run lasts.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn create(&self, name: &str) -> anyhow::Result<File> {
        let path = self.path.join(name);
        File::create(&path).with_context(|| format!("creating {}", path.display()))
    }

    /// Writes the result; returns where.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn write_result(&self, result: &RunResult) -> anyhow::Result<PathBuf> {
        let path = self.path.join(RESULT);
        write_whole(&path, serde_json::to_string(result)?.as_bytes())?;
        Ok(path)
    }

    /// Gives the number back if nothing was written, and leaves no empty folder around it.
    pub fn release(&self) {
        let mut folders = self
            .path
            .ancestors()
            .take_while(|folder| *folder != self.below);
        // A folder with something in it stays, and so do those around it, which is what is wanted.
        while folders
            .next()
            .is_some_and(|folder| fs::remove_dir(folder).is_ok())
        {}
    }
}

/// The names that the folder of a plan may have on a day: `quick`, `quick.2`, `quick.3`, …
pub fn numbered(plan: &str) -> impl Iterator<Item = String> + '_ {
    let more = (2..).map(move |number: u32| format!("{plan}.{number}"));
    std::iter::once(plan.to_owned()).chain(more)
}

/// Keeps a result that has no place in its folder, below the system's directory for temporary files; returns where.
///
/// # Errors
/// What the file system answers there too.
pub fn rescue(result: &RunResult) -> anyhow::Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("drover-result-{}.json", result.run_id));
    write_whole(&path, serde_json::to_string(result)?.as_bytes())?;
    Ok(path)
}

/// Reads a result.
///
/// # Errors
/// A file that can't be read, or is no whole result: its path, and what is wrong with it.
pub fn read_result(path: &Path) -> anyhow::Result<RunResult> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no whole result", path.display()))
}

/// Writes a file so that it is there whole or not at all: to a temporary name beside it, synced, then renamed.
///
/// # Errors
/// What the file system answers.
pub fn write_whole(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let mut temporary = path.to_path_buf().into_os_string();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write()
        .inspect_err(|_| drop(fs::remove_file(&temporary)))
        .with_context(|| format!("writing {}", path.display()))
}

/// Finds out before a run whether a file can be written at its end, without touching what is there.
///
/// # Errors
/// Why it can't, and what to name instead.
pub fn probe(flag: &str, path: &Path) -> anyhow::Result<()> {
    let remedy = || {
        format!(
            "{flag} {}: can't be written: name a file in a folder that exists and can be written",
            path.display()
        )
    };
    if path.is_dir() {
        return Err(anyhow::anyhow!("it is a folder")).with_context(remedy);
    }
    let folder = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let trial = folder.join(format!(".trial-{}", std::process::id()));
    File::create(&trial)
        .and_then(|_| fs::remove_file(&trial))
        .with_context(remedy)
}

/// RFC 3339 in UTC, to the millisecond.
#[must_use]
pub fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// RFC 3339 of a Unix time in nanoseconds.
#[must_use]
pub fn timestamp_of(unix_ns: u64) -> String {
    timestamp(SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_of_a_level_gets_the_next_number() {
        let out = tempfile::tempdir().unwrap();
        let first = Folder::reserve(out.path(), "host", "quick", "rust", "100").unwrap();
        let second = Folder::reserve(out.path(), "host", "quick", "rust", "100").unwrap();
        assert!(
            first.path().ends_with("quick/rust/100/1")
                && second.path().ends_with("quick/rust/100/2")
        );
        second.release();
        assert!(!second.path().exists());
    }

    #[test]
    fn a_run_that_did_not_begin_leaves_no_empty_folder_behind() {
        let out = tempfile::tempdir().unwrap();
        let reserve = || Folder::reserve(out.path(), "host", "quick", "rust", "100").unwrap();
        let (first, second) = (reserve(), reserve());
        first.release();
        assert!(second.path().exists());
        second.release();
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_single_run_stays_out_of_the_folder_of_a_suite() {
        let out = tempfile::tempdir().unwrap();
        let reserve = || Folder::reserve(out.path(), "host", "quick", "rust", "100").unwrap();
        let first = reserve();
        let plan = first.path().ancestors().nth(3).unwrap();
        fs::write(plan.join(SUITE), "{}").unwrap();
        assert!(reserve().path().ends_with("quick.2/rust/100/1"));
        fs::write(plan.with_file_name("quick.2").join(SUITE), "{}").unwrap();
        assert!(reserve().path().ends_with("quick.3/rust/100/1"));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named_with_the_flag() {
        let out = tempfile::tempdir().unwrap();
        let file = out.path().join("file");
        fs::write(&file, "").unwrap();
        let error = format!(
            "{:#}",
            Folder::reserve(&file, "host", "p", "d", "1").unwrap_err()
        );
        assert!(
            error.contains("--out") && error.contains("can be written"),
            "{error}"
        );
        let error = format!("{:#}", probe("--output", &file.join("x.json")).unwrap_err());
        assert!(
            error.contains("--output") && error.contains("x.json"),
            "{error}"
        );
    }

    #[test]
    fn a_folder_that_is_named_is_taken_unless_it_holds_a_result() {
        let out = tempfile::tempdir().unwrap();
        let cell = out.path().join("rust/100/1");
        assert_eq!(Folder::at(&cell).unwrap().path(), cell);
        fs::write(cell.join("daemon.log"), "of a run that was cut short").unwrap();
        Folder::at(&cell).unwrap();
        fs::write(cell.join(RESULT), "{").unwrap();
        let error = format!("{:#}", Folder::at(&cell).unwrap_err());
        assert!(
            error.contains("--into") && error.contains("already"),
            "{error}"
        );
        let error = format!("{:#}", read_result(&cell.join(RESULT)).unwrap_err());
        assert!(error.contains("no whole result"), "{error}");
        let error = format!("{:#}", Folder::at(Path::new("/proc/nowhere")).unwrap_err());
        assert!(error.contains("--into /proc/nowhere"), "{error}");
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("result.json");
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1);
    }
}
