//! The write-ahead log: persistent messages, durable names, and the confirms that may be given for them.
//!
//! Everything that must outlive the process is a record in one log, which is a sequence of segments (files). The broker
//! gathers the records of a turn of its loop and hands them to a writer thread with [`Log::flush`]; the thread writes
//! what came together in the meantime and syncs once for all of it. What has been synced is known by its ticket.
//! Opening the folder again yields every message that was synced and not settled.
//!
//! - A flush is atomic, and flushes are ordered: after a crash there is all of one or nothing, and of those before it
//!   everything.
//! - Disk use is bounded by about three times the living messages and two segments (`index.rs` says how).
//! - Damage is an error with file and offset, never a loss in silence (`scan.rs` says what is told apart).

mod error;
mod folder;
mod format;
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
use self::format::{BATCH_HEADER, SEGMENT_HEADER};
use self::index::{Entry, Holders, Index};
pub use self::salvage::{Salvage, SalvagedSegment, salvage};
pub use self::stored::{Parts, Recovered, Stored};
use self::writer::{Batch, NewSegment, Shared, Writer};

/// The longest body that [`Log::publish`] takes, in bytes.
pub const MAX_BODY: usize = 1 << 30;
/// A turn that gathers more than this is handed over in parts.
const MAX_GATHERED: usize = 16 << 20;
/// The least that compaction moves at once, so that it ends where little is written.
const MIN_MOVE: u64 = 256 << 10;
/// Segments are counted as this part of a whole one at least when the log is judged sparse.
const LEAST_WEIGHT: u64 = 16;

/// How a log is kept.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// A segment ends when it has this many bytes; at most 1 GiB. Twice as many are reserved on the disk.
    pub segment_bytes: u64,
    /// More than these bytes on their way to the disk are too many ([`Log::congested`]).
    pub in_flight_bytes: u64,
}

/// The least that a segment is made for, however small the disk: definitions and compaction need some room.
const LEAST_SEGMENT: u64 = 1 << 20;
/// A segment is at most this part of the space that the log may take. Two of them are reserved.
const SPACE_PARTS: u64 = 32;

impl Options {
    /// Returns the default options, with segments that fit the disk of the folder: 64 MiB where 2 GiB are free, less
    /// on smaller ones, and 1 MiB at least. Space that the log has already counts as free, so that a log which fills its
    /// disk keeps its size of segments. Makes the folder if there is none.
    ///
    /// # Errors
    /// The folder can't be made, or the system can't tell how much is free.
    pub fn fitting(dir: &Path) -> Result<Self, Error> {
        folder::make(dir)?;
        let space = folder::space(dir).map_err(io_error("asking for the free space", dir))?;
        let most = Self::default();
        let segment_bytes = (space / SPACE_PARTS).clamp(LEAST_SEGMENT, most.segment_bytes);
        Ok(Self {
            segment_bytes,
            // What is on its way when the disk turns out to be full must find room in what is reserved.
            in_flight_bytes: most.in_flight_bytes.min(segment_bytes / 4),
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            in_flight_bytes: 16 << 20,
        }
    }
}

/// A message to publish.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// When it was published, in milliseconds since 1970: what a time to live counts from after a restart.
    pub published_ms: u64,
    /// The exchange, at most 255 bytes.
    pub exchange: &'a [u8],
    /// The routing key, at most 255 bytes.
    pub routing_key: &'a [u8],
    /// The payload of the content header (AMQP 0-9-1 §4.2.6.1), which the log does not look into.
    pub properties: &'a [u8],
    /// The body, at most [`MAX_BODY`] bytes.
    pub body: &'a [u8],
}

/// Whether the log takes what is published.
#[derive(Debug, Clone)]
pub enum State {
    /// It does.
    Running,
    /// There is less space than for two segments. Persistent messages and durable declarations are to be refused;
    /// settling goes on, since it is what makes space. What was gathered is written, and its ticket reached, when
    /// there is space again.
    Full,
    /// A write or a sync failed. What [`Log::synced`] has reached stays true, and it goes no further.
    Failed(Arc<Error>),
}

/// What the log uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all segments.
    pub disk_bytes: u64,
    /// Bytes of the records of messages that some queue holds.
    pub live_bytes: u64,
    /// Segments.
    pub segments: usize,
    /// Bytes on their way to the disk.
    pub in_flight_bytes: u64,
}

/// An open log. Nothing but [`Log::open`] and [`Log::close`] waits for the disk.
#[derive(Debug)]
pub struct Log {
    dir: PathBuf,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    options: Options,
    index: Index,
    meta: BTreeMap<String, Vec<u8>>,
    /// Room for the header of a batch, and the records of this turn; or empty.
    gathered: Vec<u8>,
    /// The segment that this turn's batch begins.
    segment: Option<NewSegment>,
    /// The next batch begins a segment.
    turn_over: bool,
    /// The bytes that the last segment began with. They are no reason to begin another: there may be more definitions
    /// than a segment has room for.
    head: u64,
    /// Queue and place of the last record, if that settles.
    settling: Option<(u32, usize)>,
    /// The ticket of what was handed over last.
    ticket: u64,
}

impl Log {
    /// Locks the folder, which is made if there is none, reads what it holds, and starts the writer.
    ///
    /// `wake` is called, from the writer's thread, each time that [`Log::synced`], [`Log::congested`] or [`Log::state`]
    /// may say something new.
    ///
    /// # Errors
    /// Another process has the folder open; a segment is damaged, missing or not readable; the system refuses.
    pub fn open(
        dir: &Path,
        options: Options,
        wake: impl Fn() + Send + 'static,
    ) -> Result<(Self, Recovered), Error> {
        let options = Options {
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
        // Removes what is dead already.
        log.flush();
        Ok((log, recovery.recovered))
    }

    /// Keeps a value under a key: a durable exchange, queue or binding. All of them are written again at the head of
    /// each segment, so they are small.
    pub fn put_meta(&mut self, key: &str, value: &[u8]) {
        self.gather();
        format::put(&mut self.gathered, key, value);
        self.meta.insert(key.to_owned(), value.to_owned());
    }

    /// Forgets the key.
    pub fn delete_meta(&mut self, key: &str) {
        self.gather();
        format::delete(&mut self.gathered, key);
        self.meta.remove(key);
    }

    /// Writes a message, once, that is in these queues (one or more, none twice). Returns its id: ids ascend for as long
    /// as the folder exists, so a queue's order of publication is that of its ids.
    ///
    /// # Panics
    /// Without a queue, or where a part of the message is longer than it may be.
    pub fn publish(&mut self, queues: &[u32], message: &Message<'_>) -> u64 {
        assert!(
            !queues.is_empty(),
            "a message that no queue holds is not kept"
        );
        assert!(message.body.len() <= MAX_BODY, "a body has at most 1 GiB");
        self.gather();
        let id = self.index.next_id();
        let at = self.gathered.len();
        format::publish(&mut self.gathered, id, queues, message);
        self.index.publish(Entry {
            offset: self.offset(at),
            len: u32::try_from(self.gathered.len() - at).expect("a record has less than 4 GiB"),
            holders: Holders::of(queues),
        });
        id
    }

    /// The message is gone from that queue: acknowledged, dropped, expired, purged or dead-lettered. What isn't there
    /// is ignored.
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

    /// The queue is gone, with every message that it holds; `ids` are those, ready or unacknowledged, and give their
    /// space back. A message that is published later may be in a queue of the same key again.
    pub fn delete_queue(&mut self, queue: u32, ids: impl IntoIterator<Item = u64>) {
        self.gather();
        format::clear(&mut self.gathered, queue, self.index.next_id() - 1);
        for id in ids {
            self.index.settle(queue, id);
        }
    }

    /// The ticket of everything that was gathered until now: it is on disk as soon as [`Log::synced`] is as much.
    pub fn ticket(&self) -> u64 {
        self.ticket + u64::from(!self.gathered.is_empty())
    }

    /// Hands what was gathered to the writer, and cleans up: call it at the end of every turn.
    pub fn flush(&mut self) {
        if let State::Failed(_) = self.state() {
            self.gathered.clear();
            return;
        }
        // Before, so that compaction finds living messages in the oldest; and after, since it leaves none.
        let mut remove = self.index.remove_dead();
        let (moves, after) = self.compact();
        remove.append(&mut self.index.remove_dead());
        if self.gathered.is_empty() && remove.is_empty() {
            return;
        }
        self.settling = None;
        self.ticket += 1;
        let moved: u64 = moves.iter().map(|span| u64::from(span.len)).sum();
        let mut batch = Batch {
            ticket: self.ticket,
            segment: self.segment.take(),
            bytes: mem::take(&mut self.gathered),
            moves,
            after,
            remove,
            size: 0,
        };
        batch.size = (batch.bytes.len() + batch.after.len()) as u64 + moved;
        if batch.size > 0 {
            self.index.grow(batch.size);
            let (_, len) = self.index.last().expect("what is written is in a segment");
            self.turn_over = len - self.head >= self.options.segment_bytes;
        }
        self.gathered = self.shared.hand_over(batch);
    }

    /// The ticket up to which everything is on disk.
    pub fn synced(&self) -> u64 {
        self.shared.synced.load(Ordering::Acquire)
    }

    /// Whether so much is on its way to the disk that publishers are to be read no further for now. Never once the log
    /// has failed: nothing is on its way then.
    pub fn congested(&self) -> bool {
        self.shared.failure.get().is_none()
            && self.usage().in_flight_bytes > self.options.in_flight_bytes
    }

    /// Whether it takes what is published.
    pub fn state(&self) -> State {
        match self.shared.failure.get() {
            Some(error) => State::Failed(Arc::clone(error)),
            None if self.shared.full.load(Ordering::Relaxed) => State::Full,
            None => State::Running,
        }
    }

    /// Returns whether a message of so many bytes finds room beside what is on its way. What is reserved takes small
    /// ones; for large ones the disk is asked, since one that finds it full would hold up what is to be settled behind it.
    pub fn has_room(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        bytes <= self.options.segment_bytes / 2
            || folder::free(&self.dir).is_ok_and(|free| free > bytes + self.usage().in_flight_bytes)
    }

    /// What it uses.
    pub fn usage(&self) -> Usage {
        Usage {
            disk_bytes: self.index.disk_bytes(),
            live_bytes: self.index.live_bytes(),
            segments: self.index.segments(),
            in_flight_bytes: self.shared.in_flight.load(Ordering::Relaxed)
                + self.gathered.len() as u64,
        }
    }

    /// Writes and syncs what is left, and marks a clean end. Dropping the log does the same and says nothing.
    ///
    /// # Errors
    /// The log has failed, or the disk is full: not everything that was gathered is on disk.
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
            // A writer that panicked has said so.
            let _ = writer.join();
        }
    }

    /// Makes ready for a record: room for the header, in a segment that has begun.
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
        let first_id = self.index.next_id();
        let bytes = (SEGMENT_HEADER + snapshot.len()) as u64;
        self.index.push_segment(number, first_id, bytes, Vec::new());
        self.head = bytes;
        self.segment = Some(NewSegment {
            number,
            first_id,
            snapshot,
        });
    }

    /// Where a record lies in its segment that begins at `at` of what is gathered.
    fn offset(&self, at: usize) -> u32 {
        let (_, begin) = self.index.last().expect("a segment has begun");
        u32::try_from(begin + at as u64).expect("a segment has less than 4 GiB")
    }

    /// Moves living messages out of the oldest segment where too much around them is dead.
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
