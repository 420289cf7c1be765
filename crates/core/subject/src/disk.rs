//! The cost of a sync on the disk, beside which durable writes are judged, the number of syncs that reach the disk, and
//! the time for which others wait for it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use std::time::Duration;

use load::clock;
use measure::disturbance::{Disk, DiskSample};
use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};

/// The bytes that are written before each sync: a page of SQLite.
const PAGE: [u8; 4096] = [7; 4096];
/// The pages of the file.
const PAGES: u64 = 256;
/// linux/magic.h
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
/// Time for which the disk is watched while daemon and driver do nothing. A commit of the file system's journal, which
/// happens every few seconds, is a small part of it.
const IDLE: Duration = Duration::from_millis(400);
/// Syncs of a sample: ten of them lie beyond the 90th percentile.
const SYNCS: usize = 100;
/// Time after which a slow disk gets no further sync, nanoseconds.
const MOST_SYNCS_NS: u64 = 1_000_000_000;

/// A file whose pages are written in place and synced, as in PostgreSQL's `pg_test_fsync`.
#[derive(Debug)]
pub struct Probe {
    file: File,
    writes: u64,
}

impl Probe {
    /// Creates the file in a folder; it has no name, so that nothing is left of it.
    ///
    /// # Errors
    /// The folder is not on a disk, or cannot be written to.
    pub fn new(folder: &Path) -> io::Result<Self> {
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
    pub fn sync(&mut self) -> io::Result<u64> {
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
pub fn disk_flushes(folder: &Path) -> Option<u64> {
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

/// Samples the disk of the folder for temporary files before and after a load.
#[derive(Debug)]
pub struct Watch {
    before: DiskSample,
    /// Pressure after the first sample, and its time in nanoseconds of CLOCK_MONOTONIC.
    begun: (Option<u64>, u64),
}

impl Watch {
    /// Takes the sample before the load. Blocks for up to 1.5 s.
    #[must_use]
    pub fn open() -> Self {
        Self {
            before: sample(),
            begun: (pressure_us(), clock::now()),
        }
    }

    /// Takes the sample after the load. Blocks for up to 1.5 s.
    #[must_use]
    pub fn close(&self) -> Disk {
        let (begun_us, begun_ns) = self.begun;
        Disk {
            waits_pct: waits_pct(begun_us, pressure_us(), clock::now() - begun_ns),
            before: self.before,
            after: sample(),
        }
    }
}

/// Watches the disk while nothing of this run uses it, and then syncs.
fn sample() -> DiskSample {
    let (begun_us, begun_ns) = (pressure_us(), clock::now());
    std::thread::sleep(IDLE);
    DiskSample {
        waits_pct: waits_pct(begun_us, pressure_us(), clock::now() - begun_ns),
        sync_p90_ns: sync_p90_ns(&std::env::temp_dir()).ok(),
    }
}

/// Returns the 90th percentile of syncs in a folder, nanoseconds.
fn sync_p90_ns(folder: &Path) -> io::Result<u64> {
    let mut probe = Probe::new(folder)?;
    let until = clock::now() + MOST_SYNCS_NS;
    let mut syncs = vec![probe.sync()?];
    while syncs.len() < SYNCS && clock::now() < until {
        syncs.push(probe.sync()?);
    }
    syncs.sort_unstable();
    Ok(syncs[(syncs.len() * 9).div_ceil(10) - 1])
}

/// Returns the time for which at least one task of the machine has waited for a disk since the machine started,
/// microseconds (Documentation/accounting/psi.rst). `None` if the kernel does not count it.
fn pressure_us() -> Option<u64> {
    parse_pressure(&std::fs::read_to_string("/proc/pressure/io").ok()?)
}

fn parse_pressure(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let mut fields = some.split(' ');
    fields
        .find_map(|field| field.strip_prefix("total="))?
        .parse()
        .ok()
}

fn waits_pct(begun_us: Option<u64>, ended_us: Option<u64>, lasted_ns: u64) -> Option<f64> {
    let waited_us = ended_us?.saturating_sub(begun_us?);
    // The kernel's clock of the pressure runs on while the file is read.
    Some((100_000.0 * waited_us as f64 / lasted_ns.max(1) as f64).min(100.0))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_time_for_which_a_task_waited_for_a_disk_is_read() {
        let text = "some avg10=0.06 avg60=0.14 avg300=1.90 total=30280019\nfull avg10=0.06 avg60=0.07 avg300=1.07 total=19526386\n";
        assert_eq!(parse_pressure(text), Some(30_280_019));
        assert_eq!(parse_pressure("full avg10=0.00 total=5\n"), None);
        let second = 1_000_000_000;
        assert_eq!(waits_pct(Some(1_000), Some(61_000), second), Some(6.0));
        assert_eq!(waits_pct(Some(61_000), Some(1_000), second), Some(0.0));
        assert_eq!(waits_pct(None, Some(1_000), second), None);
    }

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
