//! The writer: a thread that writes the batches handed over in the meantime, syncs once, and reports that.
//!
//! It makes one write after the other and one sync for all of them; during a sync, the next group collects. A failed
//! sync is never repeated: the kernel may have dropped the pages that it could not write, and report success for the
//! next sync (LWN 752063, "fsyncgate"), so the log stays failed. A full disk is retried: unwritten data is still in
//! memory, and is written to the same position.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::mem;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use super::error::Error;
use super::folder::{Folder, give_back, io_error};
use super::format::{self, BATCH_HEADER, SegmentHeader};
use super::index::Span;

/// Interval between retries while the disk is full.
const RETRY: Duration = Duration::from_millis(100);
/// Number of spare buffers kept for the next batches, and their maximum size: fresh memory costs a page fault per 4
/// KiB.
const SPARE_BUFFERS: usize = 8;
const SPARE_BYTES: usize = 4 << 20;

/// A segment to begin.
#[derive(Debug)]
pub(super) struct NewSegment {
    pub(super) number: u64,
    pub(super) first_id: u64,
    /// All definitions, as a batch that is not sealed.
    pub(super) snapshot: Vec<u8>,
}

/// The content of one flush.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) ticket: u64,
    /// The segment to begin first.
    pub(super) segment: Option<NewSegment>,
    /// Room for a header, followed by records; empty if there is nothing to write.
    pub(super) bytes: Vec<u8>,
    /// Records to copy after these, from older segments.
    pub(super) moves: Vec<Span>,
    /// Records after those.
    pub(super) after: Vec<u8>,
    /// Segments to remove once all of this is on disk.
    pub(super) remove: Vec<u64>,
}

impl Batch {
    /// Returns the bytes that it adds to the data on its way to the disk.
    pub(super) fn size(&self) -> u64 {
        let moved: u64 = self.moves.iter().map(|span| u64::from(span.len)).sum();
        (self.bytes.len() + self.after.len()) as u64 + moved
    }
}

/// State shared between the log and its writer.
#[derive(Debug, Default)]
pub(super) struct Shared {
    queue: Mutex<BatchQueue>,
    arrived: Condvar,
    pub(super) synced: AtomicU64,
    pub(super) in_flight: AtomicU64,
    pub(super) full: AtomicBool,
    pub(super) failure: OnceLock<Arc<Error>>,
}

#[derive(Debug, Default)]
struct BatchQueue {
    batches: Vec<Batch>,
    spare: Vec<Vec<u8>>,
    closing: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BatchQueue> {
        self.queue.lock().expect("no code panics under the lock")
    }

    /// Hands a batch over, and returns an empty buffer for the next one.
    pub(super) fn hand_over(&self, batch: Batch) -> Vec<u8> {
        self.in_flight.fetch_add(batch.size(), Ordering::Relaxed);
        let mut queue = self.lock();
        queue.batches.push(batch);
        let spare = queue.spare.pop().unwrap_or_default();
        drop(queue);
        self.arrived.notify_one();
        spare
    }

    /// Lets the writer end once it has written everything.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.arrived.notify_one();
    }

    /// Waits for a while, or until a batch is handed over.
    fn wait_a_while(&self) {
        let waited = self.arrived.wait_timeout(self.lock(), RETRY);
        drop(waited.expect("no code panics under the lock"));
    }
}

/// The segment being written.
struct Current {
    number: u64,
    file: File,
    salt: u32,
    /// Offset of the next batch.
    end: u64,
    /// Length that is on disk.
    durable: u64,
}

/// The thread's state.
pub(super) struct Writer<W> {
    pub(super) folder: Arc<Folder>,
    pub(super) shared: Arc<Shared>,
    pub(super) segment_bytes: u64,
    /// The length of the segment that was the newest at the start.
    pub(super) previous_len: u64,
    pub(super) wake: W,
}

/// Returns true for an error caused by a lack of space, which may pass.
fn no_space(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(
        kind,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Returns true for an error caused by a lack of space or descriptors, which may pass.
fn is_shortage(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    no_space(error) || matches!(code, Some(Errno::EMFILE | Errno::ENFILE))
}

/// Syncs a file, which must still have a name: what only this process can reach is lost with it.
fn sync(file: &File) -> io::Result<()> {
    file.sync_data()?;
    match file.metadata()?.nlink() {
        0 => Err(io::Error::other(
            "it was removed while the broker had it open: stop the broker, put the file back",
        )),
        _ => Ok(()),
    }
}

impl<W: Fn()> Writer<W> {
    /// Runs until the log is closed or has failed.
    pub(super) fn run(self) {
        // A panic is a failure like any other: the broker learns of it, and waits for no ticket for ever.
        let served =
            catch_unwind(AssertUnwindSafe(|| self.serve(&mut None))).unwrap_or_else(|_| {
                let panicked = io::Error::other("the writer panicked");
                Err(io_error("writing the log", self.folder.path())(panicked))
            });
        if let Err(error) = served {
            // The first error is the one that counts, and there is no later one.
            let _ = self.shared.failure.set(Arc::new(error));
        }
        (self.wake)();
    }

    fn serve(&self, current: &mut Option<Current>) -> Result<(), Error> {
        while let Some(batches) = self.next(current)? {
            self.group(batches, current)?;
        }
        match current {
            Some(current) => self.end(current),
            None => Ok(()),
        }
    }

    /// Waits for batches; returns `None` at the end.
    fn next(&self, current: &mut Option<Current>) -> Result<Option<Vec<Batch>>, Error> {
        let mut marked = false;
        loop {
            let mut queue = self.shared.lock();
            if !queue.batches.is_empty() {
                return Ok(Some(mem::take(&mut queue.batches)));
            }
            if queue.closing {
                return Ok(None);
            }
            if let Some(current) = current
                && !mem::replace(&mut marked, true)
            {
                drop(queue);
                self.mark(current)?;
            } else if self.shared.full.load(Ordering::Relaxed) {
                drop(queue);
                self.shared.wait_a_while();
                self.reserve(current.as_ref());
            } else {
                let waited = self.shared.arrived.wait(queue);
                drop(waited.expect("no code panics under the lock"));
            }
        }
    }

    /// Writes batches, with one sync for all batches of a segment.
    fn group(&self, batches: Vec<Batch>, current: &mut Option<Current>) -> Result<(), Error> {
        let mut written = Vec::with_capacity(batches.len());
        for mut batch in batches {
            if let Some(segment) = batch.segment.take() {
                self.commit(current.as_mut(), &mut written)?;
                *current = Some(self.begin(segment, current.take())?);
            }
            if let Some(current) = current {
                self.write(&mut batch, current)?;
            }
            written.push(batch);
        }
        self.commit(current.as_mut(), &mut written)?;
        if self.shared.full.load(Ordering::Relaxed) {
            self.reserve(current.as_ref());
        }
        Ok(())
    }

    fn write(&self, batch: &mut Batch, current: &mut Current) -> Result<(), Error> {
        if batch.bytes.is_empty() {
            return Ok(());
        }
        self.copy_moved(batch)?;
        batch.bytes.append(&mut batch.after);
        format::seal(&mut batch.bytes, current.salt, current.durable);
        self.patiently(|| current.file.write_all_at(&batch.bytes, current.end))
            .map_err(|error| self.failed("writing to a segment", current, error))?;
        current.end += batch.bytes.len() as u64;
        Ok(())
    }

    /// Appends records of older segments. They are checked again, so that damage does not get a new checksum.
    fn copy_moved(&self, batch: &mut Batch) -> Result<(), Error> {
        let mut file: Option<(u64, File)> = None;
        for span in mem::take(&mut batch.moves) {
            let path = self.folder.segment(span.segment);
            let io = || io_error("reading a segment for its compaction", &path);
            let source = match file.take_if(|(number, _)| *number == span.segment) {
                Some((_, file)) => file,
                None => self.patiently(|| File::open(&path)).map_err(io())?,
            };
            let at = batch.bytes.len();
            batch.bytes.resize(at + span.len as usize, 0);
            let copied = &mut batch.bytes[at..];
            source
                .read_exact_at(copied, u64::from(span.offset))
                .map_err(io())?;
            if format::digest(copied).is_none() {
                return Err(Error::Corrupt {
                    file: path,
                    offset: u64::from(span.offset),
                    what: "a record fails its checksum",
                });
            }
            file = Some((span.segment, source));
        }
        Ok(())
    }

    /// Syncs and reports that, then removes segments that are no longer needed.
    fn commit(&self, current: Option<&mut Current>, written: &mut Vec<Batch>) -> Result<(), Error> {
        let Some(ticket) = written.last().map(|batch| batch.ticket) else {
            return Ok(());
        };
        if let Some(current) = current
            && current.end > current.durable
        {
            sync(&current.file)
                .map_err(|error| self.failed("syncing a segment", current, error))?;
            current.durable = current.end;
        }
        let size = written.iter().map(Batch::size).sum();
        self.shared.in_flight.fetch_sub(size, Ordering::Relaxed);
        self.shared.synced.store(ticket, Ordering::Release);
        (self.wake)();
        for batch in written.drain(..) {
            for number in &batch.remove {
                self.folder.remove(*number)?;
            }
            self.recycle(batch.bytes);
        }
        Ok(())
    }

    fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut queue = self.shared.lock();
        if queue.spare.len() < SPARE_BUFFERS && (1..=SPARE_BYTES).contains(&buffer.capacity()) {
            queue.spare.push(buffer);
        }
    }

    /// Begins a segment. Everything before it is complete and on disk.
    fn begin(&self, new: NewSegment, previous: Option<Current>) -> Result<Current, Error> {
        let mut previous_len = self.previous_len;
        if let Some(previous) = previous {
            previous_len = previous.end;
            give_back(&previous.file, previous.end)
                .map_err(|error| self.failed("ending a segment", &previous, error))?;
        }
        let salt = RandomState::new().hash_one(new.number) as u32;
        let header = SegmentHeader {
            salt,
            number: new.number,
            first_id: new.first_id,
            previous_len,
        };
        let mut beginning = header.encode();
        let mut snapshot = new.snapshot;
        format::seal(&mut snapshot, salt, 0);
        beginning.append(&mut snapshot);
        let path = self.folder.segment(new.number);
        let file = self
            .patiently(|| self.folder.create(new.number, &beginning))
            .map_err(io_error("beginning a segment", &path))?;
        let end = beginning.len() as u64;
        let current = Current {
            number: new.number,
            file,
            salt,
            end,
            durable: end,
        };
        self.reserve(Some(&current));
        Ok(current)
    }

    /// Writes a mark after the last batch that everything before is on disk, so that damage there is told from a torn
    /// write. Nothing waits for the mark, and the next batch overwrites it.
    fn mark(&self, current: &Current) -> Result<(), Error> {
        let mut mark = [0; BATCH_HEADER];
        format::seal(&mut mark, current.salt, current.durable);
        match current.file.write_all_at(&mark, current.end) {
            Err(error) if !no_space(&error) => {
                Err(self.failed("writing to a segment", current, error))
            }
            _ => Ok(()),
        }
    }

    /// Ends the log cleanly: the mark is on disk, and reserved space is freed.
    fn end(&self, current: &Current) -> Result<(), Error> {
        self.mark(current)?;
        give_back(&current.file, current.end + BATCH_HEADER as u64)
            .and_then(|()| current.file.sync_all())
            .map_err(|error| self.failed("ending a segment", current, error))
    }

    /// Reserves space after the end of the file, for its segment and another one. A full disk is then noticed while
    /// there is some space left for settling and compaction, which free space. If there is less, the log is full, and
    /// the rest is reserved. This also makes syncs cheaper: blocks are allocated once, and not per batch.
    fn reserve(&self, current: Option<&Current>) {
        let Some(current) = current else {
            return;
        };
        let reserve = |segments: u64| {
            let len = i64::try_from(segments * self.segment_bytes).unwrap_or(i64::MAX);
            let behind = FallocateFlags::FALLOC_FL_KEEP_SIZE;
            let reserved = fallocate(current.file.as_fd(), behind, 0, len);
            // A file system without reservation reports that it is full on a write.
            !matches!(reserved, Err(Errno::ENOSPC | Errno::EDQUOT))
        };
        let spacious = reserve(2);
        if !spacious {
            reserve(1);
        }
        self.set_full(!spacious);
    }

    fn set_full(&self, full: bool) {
        if self.shared.full.swap(full, Ordering::Relaxed) != full {
            (self.wake)();
        }
    }

    /// Repeats an operation that may fail for lack of space or descriptors until it succeeds, or the log is closed. The
    /// log is full meanwhile; the next reservation checks that again.
    fn patiently<T>(&self, mut write: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match write() {
                Err(error) if is_shortage(&error) && !self.shared.lock().closing => {
                    self.set_full(true);
                    self.shared.wait_a_while();
                }
                done => return done,
            }
        }
    }

    fn failed(&self, doing: &'static str, current: &Current, source: io::Error) -> Error {
        io_error(doing, &self.folder.segment(current.number))(source)
    }
}
