//! The lock by which one daemon at a time serves a database.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// The lock, held until this is dropped or the process ends. The file stays, as its removal would let two daemons lock
/// two files of the same name.
#[derive(Debug)]
pub(crate) struct InstanceLock {
    _lock: Flock<File>,
}

impl InstanceLock {
    /// Locks a database for a daemon.
    ///
    /// # Errors
    /// Another daemon serves it; the error says which one.
    pub(crate) fn acquire(database: &Path, socket: &Path) -> anyhow::Result<Self> {
        let path = lock_path(database);
        loop {
            let file = open(&path)?;
            let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => lock,
                Err((mut file, Errno::EWOULDBLOCK)) => {
                    let mut holder = String::new();
                    // The text only serves the message.
                    let _ = file.read_to_string(&mut holder);
                    bail!(
                        "{}: another daemon serves it ({}): use that one, or stop it first",
                        database.display(),
                        holder.trim()
                    );
                }
                Err((_, Errno::EINTR)) => continue,
                Err((_, errno)) => {
                    return Err(errno).with_context(|| format!("cannot lock {}", path.display()));
                }
            };
            // The path may have got another file while this waited for the lock of the old one.
            if !is_at(&lock, &path) {
                continue;
            }
            let holder = format!("pid {} at {}\n", std::process::id(), socket.display());
            lock.set_len(0)
                .and_then(|()| lock.rewind())
                .and_then(|()| lock.write_all(holder.as_bytes()))
                .with_context(|| format!("cannot write to {}", path.display()))?;
            return Ok(Self { _lock: lock });
        }
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".daemon");
    PathBuf::from(name)
}

fn open(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot open the lock file {}", path.display()))
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(own), Ok(found)) => (own.dev(), own.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_daemon_is_refused_until_the_first_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (database, socket) = (folder.path().join("issues.db"), Path::new("/run/a.sock"));
        let first = InstanceLock::acquire(&database, socket).unwrap();
        let error = InstanceLock::acquire(&database, socket)
            .unwrap_err()
            .to_string();
        let holder = format!("pid {} at /run/a.sock", std::process::id());
        assert!(
            error.contains(&holder) && error.contains("stop it first"),
            "{error}"
        );
        drop(first);
        InstanceLock::acquire(&database, socket).unwrap();
    }

    #[test]
    fn a_lock_of_a_file_that_was_removed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("issues.db.daemon");
        let file = open(&path).unwrap();
        assert!(is_at(&file, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path));
        let _other = open(&path).unwrap();
        assert!(!is_at(&file, &path));
    }
}
