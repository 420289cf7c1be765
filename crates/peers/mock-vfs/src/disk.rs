//! The files, and what a loss of power leaves of them.

use std::collections::BTreeMap;
use std::ops::Range;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::locks::{Locks, NONE, PENDING, RESERVED, Region, SHARED, Shared, SharedRequest};

/// Bytes that a disk writes at once.
const SECTOR: usize = 512;

/// The reason why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskError {
    /// The power is gone, or the file was opened before it was.
    PowerLost,
    /// The sync failed.
    Sync,
    /// The disk is full.
    Full,
}

/// The files of a file system.
#[derive(Debug)]
pub(crate) struct Disk {
    files: BTreeMap<String, File>,
    random: StdRng,
    /// Increases with each crash: files that were opened before it do not work any more.
    generation: u64,
    pub(crate) operations: u64,
    pub(crate) syncs: u64,
    /// The operation at which the power is lost.
    pub(crate) fails_at: Option<u64>,
    has_power: bool,
    /// The numbers of the syncs that fail, counted as `syncs`.
    pub(crate) failing_syncs: Range<u64>,
    /// Bytes that the disk takes beyond those that it holds.
    pub(crate) room: Option<u64>,
    /// Regions of shared memory of before a crash: connections that are not dropped yet hold pointers to them.
    former_regions: Vec<Region>,
}

/// A file.
#[derive(Debug, Default)]
struct File {
    /// The content that programs see.
    content: Vec<u8>,
    /// The content that survives a loss of power, unless the file does not exist on the disk.
    synced: Option<Vec<u8>>,
    /// The changes since the last sync.
    changes: Vec<Change>,
    is_deleted: bool,
    /// Its first sync is one of the directory too, as SQLite does on Unix.
    is_new: bool,
    locks: Locks,
    shared: Shared,
}

/// A change that was not synced.
#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl Disk {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            files: BTreeMap::new(),
            random: StdRng::seed_from_u64(seed),
            generation: 0,
            operations: 0,
            syncs: 0,
            fails_at: None,
            has_power: true,
            failing_syncs: 0..0,
            room: None,
            former_regions: Vec::new(),
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Counts an operation of a file that was opened in a generation.
    fn operate(&mut self, generation: u64) -> Result<(), DiskError> {
        self.operations += 1;
        if self.fails_at.is_some_and(|at| self.operations >= at) {
            self.has_power = false;
        }
        if self.has_power && generation == self.generation {
            Ok(())
        } else {
            Err(DiskError::PowerLost)
        }
    }

    fn file(&mut self, generation: u64, name: &str) -> Result<&mut File, DiskError> {
        self.operate(generation)?;
        // A handle keeps a file alive only until its deletion; SQLite deletes no open file.
        self.files.get_mut(name).ok_or(DiskError::PowerLost)
    }

    pub(crate) fn exists(&mut self, name: &str) -> Result<bool, DiskError> {
        self.operate(self.generation)?;
        Ok(self.files.get(name).is_some_and(|file| !file.is_deleted))
    }

    /// Opens a file. Returns false if it does not exist and is not to be created.
    pub(crate) fn open(&mut self, name: &str, creates: bool) -> Result<bool, DiskError> {
        self.operate(self.generation)?;
        let exists = self.files.get(name).is_some_and(|file| !file.is_deleted);
        if !exists && creates {
            let file = self.files.entry(name.to_owned()).or_default();
            // What the deleted file had on the disk stays there until the deletion, or the new content, is synced.
            file.is_deleted = false;
            file.is_new = true;
            file.content.clear();
            file.changes.push(Change::Truncate(0));
        }
        Ok(exists || creates)
    }

    /// Deletes a file. Returns false if it does not exist.
    pub(crate) fn delete(&mut self, name: &str, syncs: bool) -> Result<bool, DiskError> {
        self.operate(self.generation)?;
        let Some(file) = self.files.get_mut(name).filter(|file| !file.is_deleted) else {
            return Ok(false);
        };
        file.is_deleted = true;
        if file.synced.is_none() {
            self.files.remove(name);
        }
        if syncs {
            self.sync_names();
        }
        Ok(true)
    }

    /// Reads. Bytes beyond the end are zero; returns false if there were such.
    pub(crate) fn read(
        &mut self,
        generation: u64,
        name: &str,
        offset: usize,
        buffer: &mut [u8],
    ) -> Result<bool, DiskError> {
        let content = &self.file(generation, name)?.content;
        let rest = content.get(offset..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        buffer[length..].fill(0);
        Ok(length == buffer.len())
    }

    pub(crate) fn write(
        &mut self,
        generation: u64,
        name: &str,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), DiskError> {
        let room = self.room;
        let file = self.file(generation, name)?;
        let grows = (offset + bytes.len()).saturating_sub(file.content.len()) as u64;
        if room.is_some_and(|room| grows > room) {
            return Err(DiskError::Full);
        }
        let change = Change::Write {
            offset,
            bytes: bytes.to_owned(),
        };
        change.apply(&mut file.content);
        file.changes.push(change);
        self.room = room.map(|room| room - grows);
        Ok(())
    }

    pub(crate) fn truncate(
        &mut self,
        generation: u64,
        name: &str,
        length: usize,
    ) -> Result<(), DiskError> {
        let file = self.file(generation, name)?;
        let change = Change::Truncate(length);
        change.apply(&mut file.content);
        file.changes.push(change);
        Ok(())
    }

    pub(crate) fn sync(&mut self, generation: u64, name: &str) -> Result<(), DiskError> {
        self.file(generation, name)?;
        self.syncs += 1;
        let fails = self.failing_syncs.contains(&self.syncs);
        let Some(file) = self.files.get_mut(name) else {
            return Err(DiskError::PowerLost);
        };
        if fails {
            // Linux marks the pages as clean although they are not on the disk: a later sync does not write them.
            file.synced.get_or_insert_default();
            let lost = std::mem::take(&mut file.changes);
            let kept = lost.into_iter().filter(|_| self.random.random());
            let synced = file.synced.get_or_insert_default();
            kept.for_each(|change| change.apply(synced));
            return Err(DiskError::Sync);
        }
        let changes = std::mem::take(&mut file.changes);
        let synced = file.synced.get_or_insert_default();
        changes.into_iter().for_each(|change| change.apply(synced));
        if std::mem::take(&mut file.is_new) {
            self.sync_names();
        }
        Ok(())
    }

    /// Syncs the directory: which files exist, not what they contain.
    fn sync_names(&mut self) {
        self.syncs += 1;
        self.files.retain(|_, file| !file.is_deleted);
        for file in self.files.values_mut() {
            file.synced.get_or_insert_default();
        }
    }

    pub(crate) fn length(&mut self, generation: u64, name: &str) -> Result<usize, DiskError> {
        Ok(self.file(generation, name)?.content.len())
    }

    /// Loses the power: what was synced stays, and of the rest what chance leaves. Open files do not work any more.
    pub(crate) fn crash(&mut self) {
        self.generation += 1;
        self.has_power = true;
        self.fails_at = None;
        self.failing_syncs = 0..0;
        for file in self.files.values_mut() {
            self.former_regions.append(&mut file.shared.regions);
            file.crash(&mut self.random);
        }
        self.files.retain(|_, file| file.synced.is_some());
    }

    /// Raises the lock of a handle. Returns false if another one's lock is in the way.
    pub(crate) fn lock(
        &mut self,
        handle: u64,
        generation: u64,
        name: &str,
        level: i32,
    ) -> Result<bool, DiskError> {
        let held = &mut self.file(generation, name)?.locks.held;
        let others = held.iter().filter(|(other, _)| **other != handle);
        let highest = others.map(|(_, level)| *level).max().unwrap_or(NONE);
        let fits = match level {
            SHARED => highest < PENDING,
            RESERVED | PENDING => highest < RESERVED,
            _ => highest == NONE,
        };
        if fits {
            held.insert(handle, level);
        }
        Ok(fits)
    }

    /// Returns a file for what a program that loses its power may still do.
    fn file_without_power(&mut self, generation: u64, name: &str) -> Option<&mut File> {
        let is_current = generation == self.generation;
        self.files.get_mut(name).filter(|_| is_current)
    }

    /// Lowers the lock of a handle.
    pub(crate) fn unlock(&mut self, handle: u64, generation: u64, name: &str, level: i32) {
        if let Some(file) = self.file_without_power(generation, name) {
            match level {
                NONE => {
                    file.locks.held.remove(&handle);
                }
                _ => {
                    file.locks.held.insert(handle, level);
                }
            }
        }
    }

    /// Returns true if a handle holds a lock for writing.
    pub(crate) fn is_reserved(&mut self, generation: u64, name: &str) -> Result<bool, DiskError> {
        let held = &self.file(generation, name)?.locks.held;
        Ok(held.values().any(|level| *level >= RESERVED))
    }

    /// Returns the address of a region of shared memory, or `None` if it does not exist and is not to be created.
    pub(crate) fn region(
        &mut self,
        generation: u64,
        name: &str,
        index: usize,
        creates: bool,
    ) -> Result<Option<*mut u64>, DiskError> {
        let regions = &mut self.file(generation, name)?.shared.regions;
        while creates && regions.len() <= index {
            regions.push(Shared::new_region());
        }
        Ok(regions.get_mut(index).map(|region| region.as_mut_ptr()))
    }

    /// Locks or unlocks entries of shared memory. Returns false if another handle's lock is in the way.
    pub(crate) fn lock_shared(
        &mut self,
        handle: u64,
        generation: u64,
        name: &str,
        entries: Range<usize>,
        request: SharedRequest,
    ) -> Result<bool, DiskError> {
        let locks = &mut self.file(generation, name)?.shared.locks[entries];
        if !locks.iter().all(|lock| lock.allows(handle, request)) {
            return Ok(false);
        }
        locks
            .iter_mut()
            .for_each(|lock| lock.change(handle, request));
        Ok(true)
    }

    /// Removes the locks of a handle that is closed.
    pub(crate) fn release(&mut self, handle: u64, generation: u64, name: &str) {
        self.unlock(handle, generation, name, NONE);
        if let Some(file) = self.file_without_power(generation, name) {
            for lock in &mut file.shared.locks {
                lock.change(handle, SharedRequest::Unlock);
            }
        }
    }

    /// Removes the shared memory of a database that nobody uses any more.
    pub(crate) fn remove_shared(&mut self, generation: u64, name: &str) {
        if let Some(file) = self.file_without_power(generation, name) {
            file.shared = Shared::default();
        }
    }

    pub(crate) fn random_bytes(&mut self, bytes: &mut [u8]) {
        bytes
            .iter_mut()
            .for_each(|byte| *byte = self.random.random());
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Truncate(length) => content.resize(*length, 0),
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
        }
    }

    /// Splits a write at the borders of sectors.
    fn into_sectors(self) -> Vec<Self> {
        let Self::Write { offset, bytes } = self else {
            return vec![self];
        };
        let mut sectors = Vec::new();
        let mut begin = 0;
        while begin < bytes.len() {
            let to_border = SECTOR - (offset + begin) % SECTOR;
            let end = (begin + to_border).min(bytes.len());
            sectors.push(Self::Write {
                offset: offset + begin,
                bytes: bytes[begin..end].to_owned(),
            });
            begin = end;
        }
        sectors
    }

    /// Keeps only the beginning of a sector.
    fn tear(self, random: &mut StdRng) -> Self {
        match self {
            Self::Write { offset, mut bytes } => {
                bytes.truncate(random.random_range(0..=bytes.len()));
                Self::Write { offset, bytes }
            }
            truncate @ Self::Truncate(_) => truncate,
        }
    }
}

impl File {
    fn crash(&mut self, random: &mut StdRng) {
        self.locks = Locks::default();
        self.shared = Shared::default();
        let changes = std::mem::take(&mut self.changes);
        // A deletion that was not synced may be undone, and a file that was not synced may not exist.
        let is_gone = match (self.is_deleted, &self.synced) {
            (true, _) => random.random(),
            (false, None) => random.random(),
            (false, Some(_)) => false,
        };
        self.is_deleted = false;
        if is_gone {
            self.synced = None;
            return;
        }
        // All survive, or none, or some: a commit of many sectors would otherwise never be whole.
        let kept = match random.random_range(0..4) {
            0 => 0.0,
            1 => 1.0,
            _ => random.random(),
        };
        let mut sectors: Vec<Change> = changes.into_iter().flat_map(Change::into_sectors).collect();
        if random.random() {
            sectors.shuffle(random);
        }
        let mut content = self.synced.take().unwrap_or_default();
        for sector in sectors {
            if random.random_bool(kept) {
                sector.apply(&mut content);
            } else if random.random_bool(0.1) {
                sector.tear(random).apply(&mut content);
            }
        }
        self.content.clone_from(&content);
        self.synced = Some(content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk_with(content: &[u8]) -> Disk {
        let mut disk = Disk::new(1);
        assert!(disk.open("f", true).unwrap());
        disk.write(0, "f", 0, content).unwrap();
        disk.sync(0, "f").unwrap();
        disk
    }

    fn content(disk: &Disk) -> &[u8] {
        &disk.files["f"].content
    }

    #[test]
    fn synced_bytes_survive_and_others_may() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut disk = disk_with(&[1; 1024]);
            disk.random = StdRng::seed_from_u64(seed);
            disk.write(0, "f", 0, &[2; 512]).unwrap();
            disk.write(0, "f", 512, &[3; 512]).unwrap();
            disk.crash();
            assert_eq!(content(&disk).len(), 1024);
            seen.insert((content(&disk)[0], content(&disk)[1023]));
        }
        // Any of the two, both, and none.
        assert_eq!(seen, [(1, 1), (1, 3), (2, 1), (2, 3)].into());
    }

    #[test]
    fn a_sector_may_be_torn_and_its_neighbours_are_not_touched() {
        let torn = (0..500).filter(|seed| {
            let mut disk = disk_with(&[1; 1536]);
            disk.random = StdRng::seed_from_u64(*seed);
            disk.write(0, "f", 512, &[2; 512]).unwrap();
            disk.crash();
            let content = content(&disk);
            assert!(
                content[..512]
                    .iter()
                    .chain(&content[1024..])
                    .all(|byte| *byte == 1)
            );
            content[512] == 2 && content[1023] == 1
        });
        assert!(torn.count() > 5);
    }

    #[test]
    fn a_file_that_was_never_synced_may_not_exist() {
        let mut exists = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let mut disk = Disk::new(seed);
            disk.open("f", true).unwrap();
            disk.crash();
            exists.insert(disk.exists("f").unwrap());
        }
        assert_eq!(exists.len(), 2);
    }

    #[test]
    fn handles_of_before_the_crash_do_not_work() {
        let mut disk = disk_with(&[1]);
        disk.fails_at = Some(disk.operations + 2);
        disk.write(0, "f", 0, &[2]).unwrap();
        assert_eq!(disk.write(0, "f", 0, &[3]), Err(DiskError::PowerLost));
        disk.crash();
        assert_eq!(disk.length(0, "f"), Err(DiskError::PowerLost));
        assert_eq!(disk.length(1, "f"), Ok(1));
    }

    #[test]
    fn a_failed_sync_may_lose_data_for_good() {
        let lost = (0..50).filter(|seed| {
            let mut disk = disk_with(&[1; 512]);
            disk.random = StdRng::seed_from_u64(*seed);
            disk.write(0, "f", 0, &[2; 512]).unwrap();
            disk.failing_syncs = disk.syncs + 1..disk.syncs + 2;
            assert_eq!(disk.sync(0, "f"), Err(DiskError::Sync));
            // The next one says nothing.
            disk.sync(0, "f").unwrap();
            assert_eq!(content(&disk)[0], 2, "programs still see it");
            disk.crash();
            content(&disk)[0] == 1
        });
        assert!((10..40).contains(&lost.count()));
    }

    #[test]
    fn a_full_disk_takes_what_does_not_grow() {
        let mut disk = disk_with(&[1; 512]);
        disk.room = Some(100);
        disk.write(0, "f", 0, &[2; 512]).unwrap();
        assert_eq!(disk.write(0, "f", 512, &[2; 101]), Err(DiskError::Full));
        disk.write(0, "f", 512, &[2; 100]).unwrap();
    }
}
