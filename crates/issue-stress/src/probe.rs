//! The cost of a sync on the disk, beside which durable writes are judged.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use load::clock;
use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};

/// The bytes that are written before each sync: a page of SQLite.
const PAGE: [u8; 4096] = [7; 4096];
/// The pages of the file.
const PAGES: u64 = 256;
/// linux/magic.h
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

/// A file whose pages are written in place and synced, as in PostgreSQL's `pg_test_fsync`.
#[derive(Debug)]
pub(crate) struct Probe {
    file: File,
    writes: u64,
}

impl Probe {
    /// Creates the file in a folder; it has no name, so that nothing is left of it.
    ///
    /// # Errors
    /// The folder is not on a disk, or cannot be written to.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let kind = statfs(folder)?.filesystem_type();
        if [TMPFS_MAGIC, RAMFS_MAGIC].contains(&kind) {
            let problem = format!(
                "{} is in memory, where a sync costs nothing: set TMPDIR to a folder on a disk",
                folder.display()
            );
            return Err(io::Error::other(problem));
        }
        let file = tempfile::tempfile_in(folder)?;
        for page in 0..PAGES {
            file.write_all_at(&PAGE, page * PAGE.len() as u64)?;
        }
        file.sync_all()?;
        Ok(Self { file, writes: 0 })
    }

    /// Writes a page and syncs it. Returns the nanoseconds that it took.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn sync(&mut self) -> io::Result<u64> {
        let begun = clock::now();
        let page = self.writes % PAGES;
        self.writes += 1;
        self.file.write_all_at(&PAGE, page * PAGE.len() as u64)?;
        self.file.sync_data()?;
        Ok(clock::now() - begun)
    }
}
