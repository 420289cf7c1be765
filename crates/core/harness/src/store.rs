//! Stores results: `<out>/<date>-<host>/<plan>/<daemon>/<level>/<n>/result.json`, and further files beside it. The
//! level of a single run has the ID of its load (`100-3f2a91c0`), so that the numbers count repetitions of one load.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use load::redact;
use measure::result::{RunResult, SCHEMA};
use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

/// Name of the file with everything about a run.
pub const RESULT: &str = "result.json";
/// Name of the file with the seconds of a part of a divided run: one second a line, as JSON.
pub const SECONDS: &str = "seconds.jsonl";
/// Name of the file with the ledgers of a part of a divided run, if others end its operations.
pub const LEDGERS: &str = "ledgers.jsonl";
/// Name of the file with the SHA-256 of each other file of a part of a divided run, as `sha256sum` prints them.
pub(crate) const SUMS: &str = "SHA256SUMS";
/// Name of the file with everything about a suite; its folder is the suite's.
pub const SUITE: &str = "suite.json";

/// The folder of one run, reserved before the run begins.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Ancestor below which empty folders are removed.
    below: PathBuf,
    /// The lock of a folder that several runs could name. The kernel releases it with the process.
    _lock: Option<File>,
}

impl Folder {
    /// Reserves the next free number below `<out>/<date>-<host>/<plan>/<daemon>/<level>/`. If a suite has the plan's
    /// folder, it uses `<plan>.2` and so on.
    ///
    /// # Errors
    /// A folder that can't be created. The error names the flag for another folder.
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
        // An `out` that is created here goes too. The empty path is the working folder.
        let exists = out.ancestors().find(|folder| folder.is_dir());
        let below = exists.unwrap_or(Path::new(""));
        let mut number: u32 = 1;
        loop {
            let path = parent.join(number.to_string());
            // Repeated in each round, because a run that is released meanwhile removes its empty folders.
            fs::create_dir_all(&parent).with_context(remedy)?;
            match fs::create_dir(&path) {
                Ok(()) => {
                    return Ok(Self {
                        path,
                        below: below.to_owned(),
                        _lock: None,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(remedy),
            }
        }
    }

    /// Takes exactly this folder, and creates it if necessary.
    ///
    /// # Errors
    /// A folder that can't be written, that already holds a result, or that another run has taken.
    pub fn at(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let remedy =
            || format!("--into {shown}: can't be written: name a folder that can be created");
        fs::create_dir_all(path).with_context(remedy)?;
        ensure!(
            !path.join(RESULT).exists(),
            "--into {shown}: holds a {RESULT} already: name another folder, or move that file away"
        );
        temporary_in(path).with_context(remedy)?;
        let lock = File::open(path).with_context(remedy)?;
        // Some file systems have no locks.
        ensure!(
            !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
            "--into {shown}: another run writes to this folder: name another one, or wait for its end"
        );
        Ok(Self {
            path: path.to_owned(),
            below: path.parent().unwrap_or(path).to_owned(),
            _lock: Some(lock),
        })
    }

    /// Takes the folder of a divided run, for the result that is merged from its parts. A result that was merged
    /// before, perhaps of fewer parts, is replaced.
    #[must_use]
    pub fn of_merged(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            below: path.to_owned(),
            _lock: None,
        }
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates an empty file in the folder and replaces an existing one of that name. A link is replaced, not
    /// followed.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn create(&self, name: &str) -> anyhow::Result<File> {
        let path = self.path.join(name);
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        removed
            .and_then(|()| File::create_new(&path))
            .with_context(|| format!("creating {}", path.display()))
    }

    /// Writes the result and returns its path.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn write_result(&self, result: &RunResult) -> anyhow::Result<PathBuf> {
        let path = self.path.join(RESULT);
        write_whole(&path, serde_json::to_string(result)?.as_bytes())?;
        Ok(path)
    }

    /// Writes the result of a part of a divided run and returns its path. Its seconds get a file of their own, one on
    /// each line, so that the lines of many parts can be merged side by side. The merge compares the sums.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn write_part(&self, result: &RunResult) -> anyhow::Result<PathBuf> {
        let mut rows = Vec::new();
        for second in &result.seconds {
            serde_json::to_writer(&mut rows, second)?;
            rows.push(b'\n');
        }
        write_whole(&self.path.join(SECONDS), &rows)?;
        let mut result = result.clone();
        result.seconds = Vec::new();
        let path = self.path.join(RESULT);
        let text = serde_json::to_string(&result)?;
        write_sums(&self.path, text.as_bytes())?;
        write_whole(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Writes the ledgers of a part of a divided run, one in each line.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn write_ledgers(&self, ledgers: &[String]) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        for ledger in ledgers {
            lines.extend(ledger.as_bytes());
            lines.push(b'\n');
        }
        write_whole(&self.path.join(LEDGERS), &lines)
    }

    /// Releases the number if nothing was written, and removes empty folders around it.
    pub fn release(&self) {
        let mut folders = self
            .path
            .ancestors()
            .take_while(|folder| *folder != self.below);
        // A folder with content stays, and so do those around it, as intended.
        while folders
            .next()
            .is_some_and(|folder| fs::remove_dir(folder).is_ok())
        {}
    }
}

/// Returns the names that the folder of a plan may have on a day: `quick`, `quick.2`, `quick.3`, …
pub fn numbered(plan: &str) -> impl Iterator<Item = String> + '_ {
    let more = (2..).map(move |number: u32| format!("{plan}.{number}"));
    std::iter::once(plan.to_owned()).chain(more)
}

/// Saves a result that cannot be written to its folder, below the system's temporary directory; returns its path.
///
/// # Errors
/// The error of the file system there.
pub fn rescue(result: &RunResult) -> anyhow::Result<PathBuf> {
    let folder = std::env::temp_dir();
    // A name that nobody can have taken before.
    let mut file = tempfile::Builder::new()
        .prefix(&format!("drover-result-{}-", result.run_id))
        .suffix(".json")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(&folder)
        .with_context(|| format!("writing to {}", folder.display()))?;
    file.write_all(serde_json::to_string(result)?.as_bytes())?;
    file.as_file().sync_all()?;
    let (_, path) = file.keep()?;
    Ok(path)
}

/// Opens a file of a folder that others may have prepared. A pipe without a writer would keep the reader waiting, and a
/// device never ends.
///
/// # Errors
/// The error of the file system, or something else than a file.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    // Without the flag, opening a pipe waits for its writer.
    let options = options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        let problem = "it is not a regular file: name one, or remove it from the folder";
        Err(io::Error::other(problem))
    }
}

/// Reads a file as [`open()`] opens it.
///
/// # Errors
/// As [`open()`], or the file cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Reads a result.
///
/// # Errors
/// A file that can't be read or is not a complete result. The error has its path and the problem.
pub fn read_result(path: &Path) -> anyhow::Result<RunResult> {
    let text = read(path).with_context(|| format!("reading {}", path.display()))?;
    let mut result: RunResult = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a complete result", path.display()))?;
    ensure!(
        result.schema == SCHEMA,
        "{} has schema {}, and this version reads {SCHEMA}: use the version that wrote it, or run again",
        path.display(),
        result.schema
    );
    result
        .check_intact()
        .with_context(|| format!("{} is not intact: restore it, or run again", path.display()))?;
    // An older result may have been stored with secrets.
    redact::result(&mut result);
    Ok(result)
}

/// Writes the sums of the files of a part of a divided run: of this result, which is written last, and the others.
///
/// # Errors
/// The error of the file system.
pub fn write_sums(folder: &Path, result: &[u8]) -> anyhow::Result<()> {
    let mut sums = sum(RESULT, Sha256::digest(result));
    for name in [SECONDS, LEDGERS] {
        let path = folder.join(name);
        if path.exists() {
            sums += &sum(name, Sha256::digest(fs::read(path)?));
        }
    }
    write_whole(&folder.join(SUMS), sums.as_bytes())
}

/// Checks that a file of a part of a divided run is as the part wrote it.
///
/// # Errors
/// A file that is missing, was cut or was changed. The error has its path and the problem.
pub(crate) fn check_sum(folder: &Path, name: &str) -> anyhow::Result<()> {
    let reading = |path: &Path| format!("reading {}", path.display());
    let sums = folder.join(SUMS);
    let sums = read(&sums).with_context(|| reading(&sums))?;
    let path = folder.join(name);
    let digest = sha256(&path).with_context(|| reading(&path))?;
    ensure!(
        String::from_utf8_lossy(&sums).contains(&sum(name, digest)),
        "{} was cut or changed: its SHA-256 is not the one in {SUMS}",
        path.display()
    );
    Ok(())
}

/// Returns the SHA-256 of a file.
///
/// # Errors
/// The file can't be read.
pub(crate) fn sha256(path: &Path) -> io::Result<impl std::fmt::LowerHex + use<>> {
    let mut digest = Sha256::new();
    io::copy(&mut open(path)?, &mut digest)?;
    Ok(digest.finalize())
}

/// Returns the line of a file in the file with the sums.
fn sum(name: &str, digest: impl std::fmt::LowerHex) -> String {
    format!("{digest:x}  {name}\n")
}

/// Writes a file completely or not at all: to a temporary name beside it, synced, then renamed. A path that is not a
/// regular file, such as `/dev/stdout`, is written directly.
///
/// # Errors
/// The error of the file system.
pub fn write_whole(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        if is_special(path) {
            return OpenOptions::new()
                .append(true)
                .open(path)?
                .write_all(content);
        }
        let mut file = temporary_in(folder_of(path))?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().with_context(|| format!("writing {}", path.display()))
}

/// Creates an empty file with an unused name and the permissions that the umask leaves; it is removed when dropped.
fn temporary_in(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".drover-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

fn folder_of(path: &Path) -> &Path {
    let parent = path.parent();
    parent
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Returns true for a device, a pipe or a socket: a rename would replace it by a file.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir())
}

/// Checks before a run that a file can be written at its end, without touching an existing one.
///
/// # Errors
/// The reason why it can't, and what to name instead.
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
    if is_special(path) {
        return Ok(());
    }
    temporary_in(folder_of(path)).with_context(remedy)?;
    Ok(())
}

/// Formats a time as RFC 3339 in UTC, to the millisecond.
#[must_use]
pub fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// Formats a Unix time in nanoseconds as RFC 3339.
#[must_use]
pub fn timestamp_of(unix_ns: u64) -> String {
    timestamp(SystemTime::UNIX_EPOCH + Duration::from_nanos(unix_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness_testing::assert_contains;

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
        let created = out.path().join("created").join("here");
        let run = Folder::reserve(&created, "host", "quick", "rust", "100").unwrap();
        run.release();
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
        assert_contains(&error, &["--out", "can be written"]);
        let error = format!("{:#}", probe("--output", &file.join("x.json")).unwrap_err());
        assert_contains(&error, &["--output", "x.json"]);
    }

    #[test]
    fn a_folder_that_is_named_is_taken_unless_it_holds_a_result() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("rust/100/1");
        assert_eq!(Folder::at(&folder).unwrap().path(), folder);
        fs::write(folder.join("daemon.log"), "of a run that was cut short").unwrap();
        Folder::at(&folder).unwrap();
        fs::write(folder.join(RESULT), "{").unwrap();
        let error = format!("{:#}", Folder::at(&folder).unwrap_err());
        assert_contains(&error, &["--into", "already"]);
        let error = format!("{:#}", read_result(&folder.join(RESULT)).unwrap_err());
        assert!(error.contains("not a complete result"), "{error}");
        let old = RunResult {
            schema: 1,
            ..RunResult::default()
        };
        let text = serde_json::to_string(&old).unwrap();
        fs::write(folder.join(RESULT), text).unwrap();
        let error = format!("{:#}", read_result(&folder.join(RESULT)).unwrap_err());
        assert!(error.contains("has schema 1"), "{error}");
        let error = format!("{:#}", Folder::at(Path::new("/proc/nowhere")).unwrap_err());
        assert!(error.contains("--into /proc/nowhere"), "{error}");
    }

    /// Returns a folder with a file of somebody else, and links to that file with these names.
    fn with_links(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        fs::write(&own, "precious").unwrap();
        for name in names {
            std::os::unix::fs::symlink(&own, folder.path().join(name)).unwrap();
        }
        (folder, own)
    }

    #[test]
    fn no_link_that_somebody_has_laid_is_followed() {
        let pid = std::process::id();
        let (trial, replaced) = (format!(".trial-{pid}"), format!("result.json.{pid}"));
        let (folder, own) = with_links(&[&trial, &replaced, "resources.csv", "link.json"]);
        let at = |name: &str| folder.path().join(name);
        let run = Folder::at(folder.path()).unwrap();
        run.create("resources.csv").unwrap();
        probe("--output", &at("result.json")).unwrap();
        write_whole(&at("result.json"), b"new").unwrap();
        write_whole(&at("link.json"), b"new").unwrap();
        assert_eq!(fs::read_to_string(&own).unwrap(), "precious");
        assert!(at("resources.csv").symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read_to_string(at("link.json")).unwrap(), "new");
        for left in [&trial, &replaced] {
            assert!(at(left).is_symlink(), "{left} is not ours to remove");
        }
    }

    #[test]
    fn results_have_the_permissions_that_any_new_file_has() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            let file = fs::metadata(folder.path().join(name)).unwrap();
            file.permissions().mode()
        };
        fs::write(folder.path().join("plain"), "").unwrap();
        write_whole(&folder.path().join("whole"), b"").unwrap();
        assert_eq!(mode("whole"), mode("plain"));
    }

    #[test]
    fn a_pipe_or_a_device_that_somebody_has_laid_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        nix::unistd::mkfifo(&at(RESULT), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at(SUMS)).unwrap();
        fs::write(at(SECONDS), "a").unwrap();
        let error = format!("{:#}", read_result(&at(RESULT)).unwrap_err());
        assert!(error.contains("not a regular file"), "{error}");
        let error = format!("{:#}", check_sum(folder.path(), SECONDS).unwrap_err());
        assert!(error.contains(SUMS), "{error}");
        assert_eq!(read(&at(SECONDS)).unwrap(), b"a");
    }

    #[test]
    fn a_pipe_is_written_and_stays_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        probe("--output", &pipe).unwrap();
        let writer = {
            let pipe = pipe.clone();
            std::thread::spawn(move || write_whole(&pipe, b"through"))
        };
        assert_eq!(fs::read_to_string(&pipe).unwrap(), "through");
        writer.join().unwrap().unwrap();
        assert!(!pipe.symlink_metadata().unwrap().is_file());
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
