//! The files of a database: notices that one was removed or replaced while they are open.

use std::fs::{Metadata, metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use issue_store::file_beside;

/// Files and folders keep the times of their changes with this accuracy, or a better one.
const TIME_STEP: Duration = Duration::from_secs(1);

/// The database, its write-ahead log, and the index of the log, with the files that SQLite has open.
///
/// SQLite goes on to write to a file that was removed. What is stored there ends with the process.
#[derive(Debug)]
pub struct DatabaseFiles {
    folder: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    /// Each path with the device and the number of its file. A file that is not there yet gets them when it is.
    files: [(PathBuf, Option<FileId>); 3],
    /// The folder, and its time of change, when the files were compared last. It is absent if the time was so recent that
    /// a later change may have the same one.
    folder: Option<(FileId, SystemTime)>,
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
        let mut files = ["", "-wal", "-shm"].map(|end| (file_beside(database, end), None));
        files[0].1 = file_id(metadata(database));
        let folder = None;
        Self {
            folder: database.with_file_name(""),
            known: Mutex::new(Known { files, folder }),
        }
    }

    /// Compares the files with those that are open, and notes new ones. While their folder has not changed, none of them
    /// was removed or replaced, and nothing else is looked at.
    ///
    /// # Errors
    /// A file was removed or replaced.
    pub(crate) fn check(&self) -> Result<(), FileChanged> {
        let mut known = self.lock();
        let folder = metadata(&self.folder).and_then(|found| Ok((id(&found), found.modified()?)));
        let folder = folder.ok();
        if folder.is_some() && folder == known.folder {
            return Ok(());
        }
        for (path, known) in &mut known.files {
            let change = match (&known, file_id(metadata(&*path))) {
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
        let is_old = |time: SystemTime| time.elapsed().is_ok_and(|age| age > TIME_STEP);
        known.folder = folder.filter(|(_, changed)| is_old(*changed));
        Ok(())
    }

    /// Forgets the log and its index, because SQLite may remove them when it closes a connection that has failed.
    pub(crate) fn forget_log(&self) {
        let mut known = self.lock();
        known.folder = None;
        known.files[1..].iter_mut().for_each(|(_, id)| *id = None);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the device and the inode of a file, if it is there.
pub(crate) fn file_id(found: io::Result<Metadata>) -> Option<FileId> {
    found.ok().as_ref().map(id)
}

fn id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}

#[cfg(test)]
mod tests {
    use std::fs::{File, remove_file, rename, write};

    use super::*;

    #[test]
    fn files_are_looked_at_only_if_their_folder_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("issues.db");
        let (log, other) = (file_beside(&database, "-wal"), folder.path().join("other"));
        for path in [&database, &log, &other] {
            write(path, "").unwrap();
        }
        let files = DatabaseFiles::new(&database);
        let set_time = |time| {
            File::open(folder.path())
                .unwrap()
                .set_modified(time)
                .unwrap()
        };
        let old = SystemTime::UNIX_EPOCH;
        set_time(old);
        files.check().unwrap();
        rename(&other, &log).unwrap();
        assert!(files.check().unwrap_err().to_string().contains("replaced"));
        set_time(old);
        files.check().unwrap();
        set_time(SystemTime::now());
        assert!(files.check().is_err());
        remove_file(&log).unwrap();
        assert!(files.check().unwrap_err().to_string().contains("removed"));
        files.forget_log();
        files.check().unwrap();
        // Two changes of a folder may have the same recent time.
        write(&log, "").unwrap();
        let now = SystemTime::now();
        set_time(now);
        files.check().unwrap();
        remove_file(&log).unwrap();
        set_time(now);
        assert!(files.check().is_err());
    }
}
