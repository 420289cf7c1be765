//! The files of a database: notices that one was removed or replaced while they are open.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The database, its write-ahead log, and the index of the log, with the files that SQLite has open.
///
/// SQLite goes on to write to a file that was removed. What is stored there ends with the process.
#[derive(Debug)]
pub struct DatabaseFiles {
    /// Each path with the device and the number of its file. A file that is not there yet gets them when it is.
    known: Mutex<[(PathBuf, Option<FileId>); 3]>,
}

/// The device and the inode.
type FileId = (u64, u64);

/// A file was removed or replaced.
#[derive(Debug, thiserror::Error)]
#[error("{} was {change} while the daemon had it open: stop the daemon, put the file back, and start it again", path.display())]
pub(crate) struct FileChanged {
    path: PathBuf,
    change: &'static str,
}

impl DatabaseFiles {
    /// Notes the files of a database that are there.
    #[must_use]
    pub fn new(database: &Path) -> Self {
        let known = ["", "-wal", "-shm"].map(|end| {
            let mut path = database.as_os_str().to_owned();
            path.push(end);
            (PathBuf::from(path), None)
        });
        let files = Self {
            known: Mutex::new(known),
        };
        files.known.lock().unwrap_or_else(PoisonError::into_inner)[0].1 = id(database);
        files
    }

    /// Compares the files with those that are open, and notes new ones.
    ///
    /// # Errors
    /// A file was removed or replaced.
    pub(crate) fn check(&self) -> Result<(), FileChanged> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, known) in &mut *known {
            let change = match (&known, id(path)) {
                (None, found) => {
                    *known = found;
                    continue;
                }
                (Some(known), Some(found)) if *known == found => continue,
                (_, Some(_)) => "replaced",
                (_, None) => "removed",
            };
            return Err(FileChanged {
                path: path.clone(),
                change,
            });
        }
        Ok(())
    }

    /// Forgets the log and its index, because SQLite may remove them when it closes a connection that has failed.
    pub(crate) fn forget_log(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known[1..].iter_mut().for_each(|(_, id)| *id = None);
    }
}

fn id(path: &Path) -> Option<FileId> {
    let found = metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
