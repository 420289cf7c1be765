//! The lock by which one daemon at a time serves a database.

use std::fs::{File, metadata};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use issue_store::{file_beside, open_or_create};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::database_files::file_id;

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
        let path = file_beside(database, ".daemon");
        loop {
            let file = open_or_create(&path)
                .with_context(|| format!("cannot open the lock file {}", path.display()))?;
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
            if file_id(lock.metadata()) != file_id(metadata(&path)) {
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
}
