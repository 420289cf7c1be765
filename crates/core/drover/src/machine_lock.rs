//! Allows one suite at a time on a machine, because two suites distort each other's figures.
//!
//! The lock is one file for all users. The kernel releases it with its process, however that ends (flock(2)). The
//! process that holds it has written its id into the file.

use std::fs::{self, File, Permissions, TryLockError};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use harness::output;
use harness::progress::StepLine;
use harness::signals::Signals;
use load::clock;
use nix::fcntl::OFlag;
use subject::daemon::Step;

use crate::estimate;

/// Not in `TMPDIR`, which differs between users.
const FILE: &str = "/tmp/drover-suite.lock";
/// Time between two attempts to take the lock of a machine on which another suite runs.
const WAIT_INTERVAL: Duration = Duration::from_millis(500);

/// An error: another suite holds the lock.
#[derive(Debug, thiserror::Error)]
#[error(
    "another drover run is active on this machine ({0}): two suites at once disturb each other's figures\n  \
     leave --no-wait out to start after it, or add --force to run anyway"
)]
struct Busy(String);

/// Takes the lock of this machine, which lasts as long as the returned file is open.
///
/// # Errors
/// Another suite holds the lock, or its file cannot be opened.
pub(crate) fn acquire() -> anyhow::Result<File> {
    take(Path::new(FILE))
}

/// Takes the lock of this machine once the suite that holds it has ended; shows who is waited for. Returns `None` after
/// a signal.
///
/// # Errors
/// The file of the lock cannot be opened.
pub(crate) async fn wait(signals: &mut Signals) -> anyhow::Result<Option<File>> {
    let mut line = StepLine::new(false);
    let mut is_explained = false;
    let mut on_step = |step: &Step<'_>| {
        line.show(step);
        if !std::mem::replace(&mut is_explained, true) {
            output::note(
                "  Ctrl-C ends the wait; --no-wait would end at once, --force would run beside it and disturb both",
            );
        }
    };
    tokio::select! {
        lock = wait_for(Path::new(FILE), &mut on_step) => lock.map(Some),
        () = signals.next() => Ok(None),
    }
}

async fn wait_for(path: &Path, on_step: &mut dyn FnMut(&Step<'_>)) -> anyhow::Result<File> {
    let begin = clock::now();
    loop {
        let Busy(holder) = match take(path) {
            Ok(lock) => return Ok(lock),
            Err(error) => error.downcast()?,
        };
        on_step(&Step {
            what: "waiting for another drover run",
            command: None,
            elapsed: Duration::from_nanos(clock::now().saturating_sub(begin)),
            detail: &holder,
        });
        tokio::time::sleep(WAIT_INTERVAL).await;
    }
}

fn take(path: &Path) -> anyhow::Result<File> {
    let failed = || {
        let path = path.display();
        format!("taking the lock of suites, {path} (--force runs without it)")
    };
    let mut options = File::options();
    // A link at a path that any user can create may lead to a file of this user.
    options.read(true).write(true);
    options.custom_flags(OFlag::O_NOFOLLOW.bits());
    let file = match options.open(path) {
        Ok(file) => file,
        // Not at the first attempt: in a folder such as /tmp, O_CREAT fails for the file of another user.
        Err(_) => {
            let file = options.create(true).open(path).with_context(failed)?;
            // Other users write their process id too, whatever the umask of this one.
            let everyone = Permissions::from_mode(0o666);
            file.set_permissions(everyone).with_context(failed)?;
            file
        }
    };
    // A second name would be a file of this user that another one has linked here, and what follows empties it.
    let found = file.metadata().with_context(failed)?;
    ensure!(
        found.is_file() && found.nlink() == 1,
        "{}: is not a file of its own: remove it, or run with --force",
        path.display()
    );
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Busy(holder(&file)).into()),
        Err(TryLockError::Error(error)) => return Err(error).with_context(failed),
    }
    file.set_len(0).with_context(failed)?;
    let pid = std::process::id().to_string();
    file.write_all_at(pid.as_bytes(), 0).with_context(failed)?;
    Ok(file)
}

/// Describes the process that holds the lock, for a sentence: `pid 123, for 2m03s: drover run latency`.
fn holder(file: &File) -> String {
    let mut text = [0; 10];
    let length = file.read_at(&mut text, 0).unwrap_or_default();
    let pid: Option<u32> = str::from_utf8(&text[..length])
        .ok()
        .and_then(|text| text.parse().ok());
    // Empty for a moment, after the lock was taken.
    let Some(pid) = pid else {
        return "pid unknown".to_owned();
    };
    let mut holder = format!("pid {pid}");
    let modified = file.metadata().and_then(|file| file.modified());
    if let Some(age) = modified.ok().and_then(|time| time.elapsed().ok()) {
        holder += &format!(", for {}", estimate::format_time(age));
    }
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    if !words.is_empty() {
        holder += &format!(": {}", words.trim());
    }
    holder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_linked_to_the_lock_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (own, lock) = (folder.path().join("own"), folder.path().join("lock"));
        fs::write(&own, "precious").unwrap();
        fs::hard_link(&own, &lock).unwrap();
        let error = take(&lock).unwrap_err().to_string();
        assert!(error.contains("not a file of its own"), "{error}");
        fs::remove_file(&lock).unwrap();
        std::os::unix::fs::symlink(&own, &lock).unwrap();
        take(&lock).unwrap_err();
        assert_eq!(fs::read_to_string(&own).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_suite_starts_when_the_other_has_ended_and_names_it_until_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut first = Some(take(&path).unwrap());
        let error = take(&path).unwrap_err().to_string();
        let holder = format!("pid {}, for ", std::process::id());
        assert!(
            error.contains(&format!("({holder}")) && error.contains("--no-wait"),
            "{error}"
        );
        let mut seen = Vec::new();
        let mut on_step = |step: &Step<'_>| {
            seen.push(format!("{}: {}", step.what, step.detail));
            if seen.len() == 2 {
                first.take();
            }
        };
        let lock = wait_for(&path, &mut on_step).await.unwrap();
        assert_eq!(seen.len(), 2);
        let line = format!("waiting for another drover run: {holder}");
        assert!(seen.iter().all(|step| step.starts_with(&line)), "{seen:?}");
        let mode = lock.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "suites of all users take it");
    }
}
