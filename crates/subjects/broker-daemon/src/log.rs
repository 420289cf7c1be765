//! The write-ahead log: persistent messages, durable definitions, and the tickets that allow confirms.
//!
//! Everything that must survive the process is a record in one log, which is a sequence of segments (files). The broker
//! collects the records of a turn and hands them to a writer thread with [`Log::flush`]. The thread writes everything
//! handed over in the meantime and syncs once for all of it. Tickets tell which records are synced. Opening the folder
//! again yields every message that was synced and not settled.
//!
//! - A flush is atomic, and flushes are ordered: after a crash, a flush is there completely or not at all, and so are
//!   all earlier ones.
//! - Disk use is bounded by about three times the live messages plus two segments (see `index.rs`).
//! - Damage is an error with file and offset, and never a silent loss (`scan.rs` tells damage from a torn write).

mod error;
mod folder;
mod format;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod index;
mod recover;
mod salvage;
mod scan;
mod stored;
mod writer;

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

pub use self::error::Error;
use self::folder::{Folder, io_error};
pub use self::format::NewMessage;
use self::format::{BATCH_HEADER, SEGMENT_HEADER};
use self::index::{Holders, Index, IndexEntry};
pub use self::salvage::{Salvage, SalvagedSegment, salvage};
pub use self::stored::{Recovered, Stored};
use self::writer::{Batch, NewSegment, Shared, Writer};

/// The maximum body size of [`Log::publish`], in bytes.
pub const MAX_BODY: usize = 1 << 30;
/// A turn with more records than this is handed over in parts.
const MAX_GATHERED: usize = 16 << 20;
/// Minimum amount that compaction moves at once, so that it ends even if little is written.
const MIN_MOVE: u64 = 256 << 10;
/// Segments weigh at least this fraction of a full one when the log is checked for sparseness.
const LEAST_WEIGHT: u64 = 16;

/// The settings of a log.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// The size at which a segment ends, in bytes; at most 1 GiB. Twice this size is reserved on the disk.
    pub segment_bytes: u64,
    /// Bytes on their way to the disk above which the log is congested ([`Log::congested`]).
    pub in_flight_bytes: u64,
}

/// Minimum size of a segment on any disk: definitions and compaction need some room.
const LEAST_SEGMENT: u64 = 1 << 20;
/// A segment is at most this fraction of the space that the log may take. Two segments are reserved.
const SPACE_PARTS: u64 = 32;

impl LogOptions {
    /// Returns the default options, with segments that fit the disk of the folder: 64 MiB with 2 GiB free, less on
    /// smaller disks, and at least 1 MiB. Space that the log already uses counts as free, so that a log which fills its
    /// disk keeps its segment size. Creates the folder if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be created, or the free space cannot be determined.
    pub fn fitting(dir: &Path) -> Result<Self, Error> {
        folder::make(dir)?;
        let space = folder::space(dir).map_err(io_error("reading the free space", dir))?;
        let most = Self::default();
        let segment_bytes = (space / SPACE_PARTS).clamp(LEAST_SEGMENT, most.segment_bytes);
        Ok(Self {
            segment_bytes,
            // If the disk turns out to be full, everything on its way must fit into the reserved space.
            in_flight_bytes: most.in_flight_bytes.min(segment_bytes / 4),
        })
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            in_flight_bytes: 16 << 20,
        }
    }
}

/// The state of the log.
#[derive(Debug, Clone)]
pub enum State {
    /// Messages are accepted.
    Running,
    /// There is less space than for two segments. Callers must refuse persistent messages and durable declarations.
    /// Settling continues, since it frees space. Records gathered so far are written, and their ticket reached, once
    /// there is space again.
    Full,
    /// A write or a sync failed. [`Log::synced`] stays valid, but advances no further.
    Failed(Arc<Error>),
}

/// Disk usage of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all segments.
    pub disk_bytes: u64,
    /// Bytes of the records of messages that some queue holds.
    pub live_bytes: u64,
    /// Number of segments.
    pub segments: usize,
    /// Bytes on their way to the disk.
    pub in_flight_bytes: u64,
}

/// An open log. Only [`Log::open`] and [`Log::close`] wait for the disk.
#[derive(Debug)]
pub struct Log {
    dir: PathBuf,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    options: LogOptions,
    index: Index,
    meta: BTreeMap<String, Vec<u8>>,
    /// Room for the header of a batch, followed by the records of this turn; or empty.
    gathered: Vec<u8>,
    /// The segment that begins with this turn's batch.
    segment: Option<NewSegment>,
    /// Set if the next batch begins a segment.
    turn_over: bool,
    /// Initial size of the last segment. It does not count toward its end: the definitions may be larger than a
    /// segment.
    head: u64,
    /// Queue and position of the last record, if that is a settlement.
    settling: Option<(u32, usize)>,
    /// The ticket of the last batch handed over.
    ticket: u64,
}

impl Log {
    /// Locks the folder, which is created if it does not exist, reads its content, and starts the writer.
    ///
    /// The writer's thread calls `wake` each time that [`Log::synced`], [`Log::congested`] or [`Log::state`] may have
    /// changed.
    ///
    /// # Errors
    /// Another process has the folder open; a segment is damaged, missing or unreadable; or a system call fails.
    pub fn open(
        dir: &Path,
        options: LogOptions,
        wake: impl Fn() + Send + 'static,
    ) -> Result<(Self, Recovered), Error> {
        let options = LogOptions {
            segment_bytes: options.segment_bytes.min(1 << 30),
            ..options
        };
        let folder = Arc::new(Folder::open(dir)?);
        salvage::finish(&folder)?;
        let recovery = recover::recover(&folder, options.segment_bytes / LEAST_WEIGHT)?;
        let shared = Arc::new(Shared::default());
        let writer = Writer {
            folder,
            shared: Arc::clone(&shared),
            segment_bytes: options.segment_bytes,
            previous_len: recovery.index.last().map_or(0, |(_, len)| len),
            wake,
        };
        let writer = thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn(|| writer.run())
            .map_err(io_error("starting the writer of the log", dir))?;
        let mut log = Self {
            dir: dir.to_owned(),
            shared,
            writer: Some(writer),
            options,
            index: recovery.index,
            meta: recovery.meta,
            gathered: Vec::new(),
            segment: None,
            turn_over: true,
            head: 0,
            settling: None,
            ticket: 0,
        };
        // Removes segments without live messages.
        log.flush();
        Ok((log, recovery.recovered))
    }

    /// Stores a value under a key: a durable exchange, queue or binding. All of them are written again at the head of
    /// each segment, so they must be small.
    pub fn put_meta(&mut self, key: &str, value: &[u8]) {
        self.gather();
        format::put(&mut self.gathered, key, value);
        self.meta.insert(key.to_owned(), value.to_owned());
    }

    /// Deletes a key.
    pub fn delete_meta(&mut self, key: &str) {
        self.gather();
        format::delete(&mut self.gathered, key);
        self.meta.remove(key);
    }

    /// Writes a message once for all of these queues (one or more, without repetitions). Returns its id. Ids ascend for
    /// as long as the folder exists, so a queue's order of publication is the order of its ids.
    ///
    /// # Panics
    /// Panics without a queue, or if a part of the message exceeds its maximum length.
    pub fn publish(&mut self, queues: &[u32], message: &NewMessage<'_>) -> u64 {
        assert!(!queues.is_empty(), "a message needs at least one queue");
        assert!(message.body.len() <= MAX_BODY, "a body has at most 1 GiB");
        self.gather();
        let id = self.index.next_id;
        let at = self.gathered.len();
        format::publish(&mut self.gathered, id, queues, message);
        self.index.publish(IndexEntry {
            offset: self.offset(at),
            len: u32::try_from(self.gathered.len() - at).expect("a record has less than 4 GiB"),
            holders: Holders::new(queues),
        });
        id
    }

    /// Records that a message has left a queue: acknowledged, dropped, expired, purged or dead-lettered. Unknown
    /// messages are ignored.
    pub fn settle(&mut self, queue: u32, id: u64) {
        if !self.index.settle(queue, id) {
            return;
        }
        let settling = self.settling.take();
        self.gather();
        let at = match settling {
            Some((last, at)) if last == queue && at < self.gathered.len() => {
                format::settle_more(&mut self.gathered, at, id);
                at
            }
            _ => {
                let at = self.gathered.len();
                format::settle(&mut self.gathered, queue, id);
                at
            }
        };
        self.settling = Some((queue, at));
    }

    /// Records that a queue is deleted with all of its messages. `ids` are these messages, ready or unacknowledged,
    /// whose space is freed. Messages published later may use a queue of the same number again.
    pub fn delete_queue(&mut self, queue: u32, ids: impl IntoIterator<Item = u64>) {
        self.gather();
        format::clear(&mut self.gathered, queue, self.index.next_id - 1);
        for id in ids {
            self.index.settle(queue, id);
        }
    }

    /// Returns the ticket of everything gathered until now: it is on disk as soon as [`Log::synced`] is at least as
    /// large.
    pub fn ticket(&self) -> u64 {
        self.ticket + u64::from(!self.gathered.is_empty())
    }

    /// Hands gathered records to the writer, and cleans up. It must be called at the end of every turn.
    pub fn flush(&mut self) {
        if let State::Failed(_) = self.state() {
            self.gathered.clear();
            return;
        }
        // Before compaction, so that it finds live messages in the oldest segment; and after it, since it leaves none.
        let mut remove = self.index.remove_dead();
        let (moves, after) = self.compact();
        remove.append(&mut self.index.remove_dead());
        if self.gathered.is_empty() && remove.is_empty() {
            return;
        }
        self.settling = None;
        self.ticket += 1;
        let batch = Batch {
            ticket: self.ticket,
            segment: self.segment.take(),
            bytes: mem::take(&mut self.gathered),
            moves,
            after,
            remove,
        };
        let size = batch.size();
        if size > 0 {
            self.index.grow(size);
            let (_, len) = self.index.last().expect("written data is in a segment");
            self.turn_over = len - self.head >= self.options.segment_bytes;
        }
        self.gathered = self.shared.hand_over(batch);
    }

    /// Returns the ticket up to which everything is on disk.
    pub fn synced(&self) -> u64 {
        self.shared.synced.load(Ordering::Acquire)
    }

    /// Returns true if so much data is on its way to the disk that publishers must not be read for now. Always false
    /// once the log has failed: nothing is on its way then.
    pub fn congested(&self) -> bool {
        self.shared.failure.get().is_none()
            && self.usage().in_flight_bytes > self.options.in_flight_bytes
    }

    /// Returns the state of the log.
    pub fn state(&self) -> State {
        match self.shared.failure.get() {
            Some(error) => State::Failed(Arc::clone(error)),
            None if self.shared.full.load(Ordering::Relaxed) => State::Full,
            None => State::Running,
        }
    }

    /// Returns true if a message of `bytes` bytes has room beside the data on its way. Small messages fit into the
    /// reserved space. For large ones the disk is checked, since a message that finds it full would hold up the
    /// settlements behind it.
    pub fn has_room(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        bytes <= self.options.segment_bytes / 2
            || folder::free(&self.dir).is_ok_and(|free| free > bytes + self.usage().in_flight_bytes)
    }

    /// Returns the disk usage.
    pub fn usage(&self) -> Usage {
        Usage {
            disk_bytes: self.index.disk_bytes,
            live_bytes: self.index.live_bytes,
            segments: self.index.segments(),
            in_flight_bytes: self.shared.in_flight.load(Ordering::Relaxed)
                + self.gathered.len() as u64,
        }
    }

    /// Writes and syncs the remaining records, and marks a clean end. Dropping the log does the same but reports no
    /// error.
    ///
    /// # Errors
    /// The log has failed, or the disk is full: not everything gathered is on disk.
    pub fn close(mut self) -> Result<(), Arc<Error>> {
        self.end();
        match self.shared.failure.get() {
            Some(error) => Err(Arc::clone(error)),
            None => Ok(()),
        }
    }

    fn end(&mut self) {
        self.flush();
        self.shared.close();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has already reported that.
            let _ = writer.join();
        }
    }

    /// Prepares for a record: ensures room for the header, in an open segment.
    fn gather(&mut self) {
        self.settling = None;
        if self.gathered.len() > MAX_GATHERED {
            self.flush();
        }
        if !self.gathered.is_empty() {
            return;
        }
        self.gathered.resize(BATCH_HEADER, 0);
        if mem::take(&mut self.turn_over) {
            self.begin_segment();
        }
    }

    fn begin_segment(&mut self) {
        let mut snapshot = vec![0; BATCH_HEADER];
        for (key, value) in &self.meta {
            format::put(&mut snapshot, key, value);
        }
        let number = self.index.last().map_or(1, |(number, _)| number + 1);
        let first_id = self.index.next_id;
        let bytes = (SEGMENT_HEADER + snapshot.len()) as u64;
        self.index.push_segment(number, first_id, bytes, Vec::new());
        self.head = bytes;
        self.segment = Some(NewSegment {
            number,
            first_id,
            snapshot,
        });
    }

    /// Returns the offset in its segment of a record that begins at `at` of the gathered bytes.
    fn offset(&self, at: usize) -> u32 {
        let (_, begin) = self.index.last().expect("a segment is open");
        u32::try_from(begin + at as u64).expect("a segment has less than 4 GiB")
    }

    /// Moves live messages out of the oldest segment if the log holds too much dead data.
    fn compact(&mut self) -> (Vec<index::Span>, Vec<u8>) {
        let mut after = Vec::new();
        let idle = self.shared.in_flight.load(Ordering::Relaxed) < self.options.in_flight_bytes / 2;
        if !idle || !self.index.is_sparse(self.options.segment_bytes) {
            return (Vec::new(), after);
        }
        if self.gathered.is_empty() {
            self.gather();
        }
        let budget = MIN_MOVE.max(2 * self.gathered.len() as u64);
        let at = u64::from(self.offset(self.gathered.len()));
        let moves = self.index.move_oldest(budget, at, &mut after);
        (moves, after)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.writer.is_some() {
            self.end();
        }
    }
}
