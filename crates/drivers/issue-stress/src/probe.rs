//! The cost of a sync on the disk, beside which durable writes are judged, and the number of syncs that reach the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
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

/// Returns the flushes that the disk of a folder has completed since the machine started, whoever asked for them; none
/// if the kernel does not count them (Documentation/block/stat.rst). A disk without a volatile cache is not flushed.
pub(crate) fn disk_flushes(folder: &Path) -> Option<u64> {
    const FIELD: usize = 15;
    let device = std::fs::metadata(folder).ok()?.dev();
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let device = format!("/sys/dev/block/{major}:{minor}");
    // The counts of a partition are its disk's.
    let disk = if Path::new(&device).join("partition").exists() {
        format!("{device}/../stat")
    } else {
        format!("{device}/stat")
    };
    let stat = std::fs::read_to_string(disk).ok()?;
    stat.split_whitespace().nth(FIELD)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    #[test]
    fn each_sync_of_the_probe_is_timed_and_flushes_are_counted_up() {
        let folder = std::env::temp_dir();
        let mut probe = match Probe::new(&folder) {
            Ok(probe) => probe,
            Err(error) => {
                assert!(error.to_string().contains("TMPDIR"), "{error}");
                return;
            }
        };
        let before = disk_flushes(&folder);
        for _ in 0..300 {
            assert!(probe.sync().unwrap() > 0);
        }
        // Other programs may sync too, and a disk without a volatile cache needs no flush.
        if let (Some(before), Some(after)) = (before, disk_flushes(&folder)) {
            assert!(after >= before, "{before} to {after}");
        }
    }
}
