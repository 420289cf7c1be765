//! The queue for the write lock: processes wait in the kernel, in their order, and none polls.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::error::Error;

/// The file that writers lock.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    file: Option<File>,
}

/// The write lock. It is released when this is dropped, also by the death of the process.
#[derive(Debug)]
pub(crate) struct WriteLock<'a> {
    lock: Option<Flock<File>>,
    home: &'a mut Option<File>,
}

impl LockFile {
    /// Opens the lock file of a database, and creates it if it is missing.
    pub(crate) fn open(database: &Path) -> Result<Self, Error> {
        let mut name = database.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        match file {
            Ok(file) => Ok(Self {
                path,
                file: Some(file),
            }),
            Err(cause) => Err(Error::Lock { path, cause }),
        }
    }

    /// Waits for the write lock.
    pub(crate) fn lock(&mut self) -> Result<WriteLock<'_>, Error> {
        let file = self.file.take().expect("a lock gives the file back");
        let mut file = file;
        loop {
            match Flock::lock(file, FlockArg::LockExclusive) {
                Ok(lock) => {
                    return Ok(WriteLock {
                        lock: Some(lock),
                        home: &mut self.file,
                    });
                }
                Err((back, nix::errno::Errno::EINTR)) => file = back,
                Err((back, errno)) => {
                    self.file = Some(back);
                    let cause = io::Error::from(errno);
                    let path = self.path.clone();
                    return Err(Error::Lock { path, cause });
                }
            }
        }
    }
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        // Unlocking an open file does not fail; closing it would unlock it too.
        if let Some(Ok(file)) = self.lock.take().map(Flock::unlock) {
            *self.home = Some(file);
        }
    }
}
