//! The folder of a log: its lock, the names of its segments, and durable changes to them.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;

use super::error::Error;

const LOCK: &str = "lock";
/// Name of a segment until its header is written.
const NEW: &str = "new";
const SUFFIX: &str = ".log";
/// Bytes after the end of a file that its last block may take; more than these were reserved.
const LAST_BLOCK: u64 = 64 << 10;
/// Unit of `st_blocks`, independent of the file system's block size.
const STAT_BLOCK: u64 = 512;

/// A folder that only this process writes to.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The open directory, used for the lock and to sync names.
    folder: File,
    lock: File,
}

/// Returns a function that converts a system error, adding the action and the path.
pub(super) fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// Creates the folder if it does not exist, readable only by its owner.
pub(super) fn make(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io_error("creating the folder of the log", path))
}

/// Truncates a file to `len` bytes and frees the space reserved after it.
pub(super) fn give_back(file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)?;
    if let Some(allocated) = reserved_behind(&file.metadata()?, len) {
        // tmpfs keeps reserved space when the length stays the same. Other file systems have freed it already.
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let ends = |number| i64::try_from(number).unwrap_or(i64::MAX);
        // If the file system does not support this, only space is wasted.
        let _ = fallocate(file.as_fd(), hole, ends(len), ends(allocated));
    }
    Ok(())
}

/// Returns how many bytes a file takes on the disk, if more of them lie after `len` than its last block.
fn reserved_behind(metadata: &fs::Metadata, len: u64) -> Option<u64> {
    let allocated = metadata.blocks() * STAT_BLOCK;
    (allocated > len + LAST_BLOCK).then_some(allocated)
}

/// Returns the free bytes on the disk of this folder.
///
/// # Errors
/// The system call fails.
pub(super) fn free(path: &Path) -> io::Result<u64> {
    let found = statvfs(path)?;
    Ok(found.blocks_available() * found.fragment_size())
}

/// Returns how many bytes the log in this folder may grow to: the free space plus its segments.
///
/// # Errors
/// The system call fails.
pub(super) fn space(path: &Path) -> io::Result<u64> {
    let free = free(path)?;
    let mut own = 0;
    for entry in fs::read_dir(path)? {
        own += entry?.metadata()?.blocks() * STAT_BLOCK;
    }
    Ok(free + own)
}

impl Folder {
    /// Creates the folder if it does not exist, readable only by its owner, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        make(path)?;
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

    /// Returns the path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a segment.
    pub(super) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}{SUFFIX}"))
    }

    /// Returns the numbers of all segments, ascending.
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

    /// Creates a segment with this beginning. When it returns, the file has its name and both are on disk, so a crash
    /// leaves no segment without a header. It may be called again after a failure.
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

    /// Syncs changes to the names in the folder.
    pub(super) fn sync(&self) -> Result<(), Error> {
        let synced = self.folder.sync_all();
        synced.map_err(io_error("syncing the folder of the log", &self.path))
    }

    /// Frees the space that a killed process had reserved after the end of a segment.
    pub(super) fn trim(&self, number: u64, len: u64) -> Result<(), Error> {
        let path = self.segment(number);
        let trim = || {
            if reserved_behind(&fs::metadata(&path)?, len).is_some() {
                give_back(&File::options().write(true).open(&path)?, len)?;
            }
            Ok(())
        };
        let doing = "freeing the space reserved after a segment";
        trim().map_err(io_error(doing, &path))
    }

    /// Removes a segment. It is gone from the disk when this returns, so that no removed segment reappears that is
    /// older than an existing one: it would bring back messages settled in newer, removed segments.
    pub(super) fn remove(&self, number: u64) -> Result<(), Error> {
        let path = self.segment(number);
        fs::remove_file(&path)
            .and_then(|()| self.folder.sync_all())
            .map_err(io_error("removing a segment", &path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Explicit, because a child of this process that has not yet called exec also has the lock file open. If it
        // fails, the last process to close the file releases the lock.
        let _ = self.lock.unlock();
    }
}
