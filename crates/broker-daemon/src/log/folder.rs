//! The folder of a log: its lock, the names of its segments, and changes to it that last.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::error::Error;

const LOCK: &str = "lock";
/// What a segment is called until it can be read.
const NEW: &str = "new";
const SUFFIX: &str = ".log";

/// A folder that this process alone writes in.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Open for as long as it is locked, and to make names last.
    folder: File,
    lock: File,
}

/// An error of the system, with what was being done.
pub(super) fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

impl Folder {
    /// Makes the folder if there is none, readable by its owner alone, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(io_error("creating the folder of the log", path))?;
        let lock_path = path.join(LOCK);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(io_error("opening the lock file", &lock_path))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::Locked {
                dir: path.to_owned(),
            },
            TryLockError::Error(source) => io_error("locking the log", &lock_path)(source),
        })?;
        let folder = File::open(path).map_err(io_error("opening the folder of the log", path))?;
        Ok(Self {
            path: path.to_owned(),
            folder,
            lock,
        })
    }

    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a segment.
    pub(super) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}{SUFFIX}"))
    }

    /// The numbers of all segments, ascending.
    pub(super) fn segments(&self) -> Result<Vec<u64>, Error> {
        let listing = || -> io::Result<Vec<u64>> {
            let mut numbers = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let name = entry?.file_name();
                let number = name
                    .to_str()
                    .and_then(|name| name.strip_suffix(SUFFIX))
                    .and_then(|digits| u64::from_str_radix(digits, 16).ok());
                numbers.extend(number);
            }
            numbers.sort_unstable();
            Ok(numbers)
        };
        listing().map_err(io_error("listing the log", &self.path))
    }

    /// A segment with this beginning. It has its name, and both are on disk, when this returns: a crash leaves no
    /// segment without a header. May be called again after it failed.
    pub(super) fn create(&self, number: u64, beginning: &[u8]) -> io::Result<File> {
        let new = self.path.join(NEW);
        let mut file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&new)?;
        file.write_all(beginning)?;
        file.sync_all()?;
        fs::rename(&new, self.segment(number))?;
        self.folder.sync_all()?;
        Ok(file)
    }

    /// Removes a segment. It is gone from the disk when this returns, so that none comes back that is older than one
    /// which is still there: it would bring back what newer, removed ones settled.
    pub(super) fn remove(&self, number: u64) -> Result<(), Error> {
        let path = self.segment(number);
        fs::remove_file(&path)
            .and_then(|()| self.folder.sync_all())
            .map_err(io_error("removing a segment", &path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Said, since a child of this process that hasn't come to its exec yet has the lock file open too. If it can't
        // be, the last of them ends it.
        let _ = self.lock.unlock();
    }
}
