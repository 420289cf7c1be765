//! Opening a log: reads all segments, and restores the state that was on disk when the last process ended.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::error::Error;
use super::folder::{Folder, io_error};
use super::format::{Record, SegmentHeader, u64s};
use super::index::{Holders, Index};
use super::scan::{Change, Scan, read_header};
use super::stored::{Recovered, Stored};

/// The restored content of a folder.
pub(super) struct Recovery {
    pub(super) recovered: Recovered,
    pub(super) index: Index,
    pub(super) meta: BTreeMap<String, Vec<u8>>,
}

/// A segment to read.
pub(super) struct Source {
    pub(super) header: SegmentHeader,
    /// Bytes of the file to read; the newest segment may turn out to have fewer valid ones.
    pub(super) len: u64,
    pub(super) newest: bool,
}

/// Reads the folder. Removes an empty newest segment, and truncates the remains of a batch that had not been synced
/// before a crash.
pub(super) fn recover(folder: &Folder, least_weight: u64) -> Result<Recovery, Error> {
    let empty = remove_empty(folder)?;
    let sources = sources(folder)?;
    let mut replay = Replay::new(least_weight);
    let mut cut_bytes = 0;
    for (source, scan) in sources.iter().zip(scan_all(folder, &sources)?) {
        if scan.len < source.len {
            cut_bytes = source.len - scan.len;
            cut(folder, source.header.number, scan.len)?;
        }
        folder.trim(source.header.number, scan.len)?;
        replay.segment(&source.header, scan);
    }
    let mut recovery = replay.end(cut_bytes);
    recovery.recovered.empty = empty;
    Ok(recovery)
}

/// Removes the newest segment if its file is empty: it was created and never written, so nothing in it was promised to
/// a client. If the segment before it is missing, that one was removed because of the content of this one, so it is
/// damage.
fn remove_empty(folder: &Folder) -> Result<Option<PathBuf>, Error> {
    let numbers = folder.segments()?;
    let (newest, before) = match numbers[..] {
        [.., before, newest] => (newest, before),
        [only] => (only, 0),
        [] => return Ok(None),
    };
    let path = folder.segment(newest);
    let metadata = fs::metadata(&path).map_err(io_error("reading a segment", &path))?;
    if metadata.len() > 0 || before + 1 != newest {
        return Ok(None);
    }
    folder.remove(newest)?;
    Ok(Some(path))
}

/// Reads the headers, and derives the minimum length of each file.
fn sources(folder: &Folder) -> Result<Vec<Source>, Error> {
    let numbers = folder.segments()?;
    let mut sources: Vec<Source> = Vec::with_capacity(numbers.len());
    for number in numbers {
        let path = folder.segment(number);
        let (header, len) = read_header(&path, number)?;
        if let Some(previous) = sources.last_mut() {
            let due = previous.header.number + 1;
            if number != due {
                return Err(Error::Missing {
                    file: folder.segment(due),
                });
            }
            if previous.len < header.previous_len {
                return Err(Error::Corrupt {
                    file: folder.segment(previous.header.number),
                    offset: previous.len,
                    what: "the file is shorter than it was",
                });
            }
            previous.len = header.previous_len;
            previous.newest = false;
        }
        sources.push(Source {
            header,
            len,
            newest: true,
        });
    }
    Ok(sources)
}

/// Reads and checks all segments, on all cores.
fn scan_all(folder: &Folder, sources: &[Source]) -> Result<Vec<Scan>, Error> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut scans = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(at) else {
                return scans;
            };
            let path = folder.segment(source.header.number);
            scans.push((at, Scan::read(&path, source)));
        }
    };
    let helpers = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(sources.len())
        .saturating_sub(1);
    let mut scans = thread::scope(|scope| {
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
        let mut scans = work();
        for helper in helpers {
            scans.extend(helper.join().expect("reading a segment does not panic"));
        }
        scans
    });
    scans.sort_unstable_by_key(|(at, _)| *at);
    scans.into_iter().map(|(_, scan)| scan).collect()
}

/// Truncates the newest segment to its intact part, durably: the bytes after it must not be taken for damage later.
fn cut(folder: &Folder, number: u64, len: u64) -> Result<(), Error> {
    let path = folder.segment(number);
    File::options()
        .write(true)
        .open(&path)
        .and_then(|file| {
            file.set_len(len)?;
            file.sync_all()
        })
        .map_err(io_error("truncating an unfinished write", &path))
}

/// Applies the records of the segments, oldest first.
#[derive(Default)]
struct Replay {
    index: Index,
    meta: BTreeMap<String, Vec<u8>>,
    /// Messages by segment, as the entries of the index.
    published: Vec<Vec<Stored>>,
    moved: HashMap<u64, Stored>,
    /// Cleared queues, each with the last id that this concerns.
    cleared: HashMap<u32, u64>,
}

impl Replay {
    fn new(least_weight: u64) -> Self {
        Self {
            index: Index::new(least_weight),
            ..Self::default()
        }
    }

    fn segment(&mut self, header: &SegmentHeader, scan: Scan) {
        self.index
            .push_segment(header.number, header.first_id, scan.len, scan.entries);
        self.published.push(scan.published);
        for change in scan.changes {
            self.apply(change);
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Moved { stored, entry } => {
                self.index.set_moved(stored.id, entry);
                self.moved.insert(stored.id, stored);
            }
            Change::Other(content) => match Record::decode(&content) {
                // Messages are no other records, and a record that cannot be decoded was refused when it was read.
                None | Some(Record::Publish(_)) => {}
                Some(Record::Held { id, queues }) => {
                    self.index.set_holders(id, Holders::left(queues));
                }
                Some(Record::Settle { queue, ids }) => {
                    for id in u64s(ids) {
                        self.index.settle(queue, id);
                    }
                }
                Some(Record::Clear { queue, up_to }) => {
                    self.cleared.insert(queue, up_to);
                }
                Some(Record::Put { key, value }) => {
                    self.meta.insert(key.to_owned(), value.to_owned());
                }
                Some(Record::Delete { key }) => {
                    self.meta.remove(key);
                }
            },
        }
    }

    /// Settles a message in queues that hold it and were cleared after it. Returns the remaining queues.
    fn after_clearing(&mut self, id: u64, holders: Holders) -> Holders {
        let was_cleared = |queue: &u32| self.cleared.get(queue).is_some_and(|up_to| id <= *up_to);
        if self.cleared.is_empty() || !holders.as_slice().iter().any(was_cleared) {
            return holders;
        }
        for queue in holders.as_slice().iter().filter(|queue| was_cleared(queue)) {
            self.index.settle(*queue, id);
        }
        self.index.holders(id).clone()
    }

    fn end(mut self, cut_bytes: u64) -> Recovery {
        let published = mem::take(&mut self.published).into_iter().flatten();
        let moved = mem::take(&mut self.moved).into_values();
        let mut messages: Vec<Stored> = Vec::new();
        for mut stored in published.chain(moved) {
            let holders = self.index.holders(stored.id).clone();
            stored.holders = self.after_clearing(stored.id, holders);
            if !stored.queues().is_empty() {
                messages.push(stored);
            }
        }
        messages.sort_by_key(|stored| stored.id);
        // A moved message exists twice until its old segment is removed.
        messages.dedup_by_key(|stored| stored.id);
        Recovery {
            recovered: Recovered {
                meta: self.meta.clone().into_iter().collect(),
                messages,
                cut_bytes,
                empty: None,
            },
            index: self.index,
            meta: self.meta,
        }
    }
}
