//! A database and the files beside it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Returns the path of a file beside a database: the path of the database with an end, such as `-wal`.
#[must_use]
pub fn file_beside(database: &Path, end: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(end);
    PathBuf::from(path)
}

/// Opens a file to read and write, and creates it with mode 0600 if it is missing.
///
/// # Errors
/// The file cannot be opened or created.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}
