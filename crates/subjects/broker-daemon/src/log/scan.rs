//! Reading one segment: checks every relevant byte, and tells a torn write after a crash from damage.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use memchr::memmem;

use super::error::Error;
use super::folder::io_error;
use super::format::{
    BATCH_HEADER, BATCH_MAGIC, BatchHeader, RECORD_HEADER, Record, Records, SEGMENT_HEADER,
    SegmentHeader,
};
use super::index::{Holders, IndexEntry};
use super::recover::Source;
use super::stored::Stored;

/// Bytes read at once, unless a batch is longer: small enough to be in the cache when the messages are copied out.
const CHUNK: usize = 256 << 10;

/// The content of a segment in two parts: the messages published in it, and everything else.
pub(super) struct Scan {
    /// The length of its intact part.
    pub(super) len: u64,
    pub(super) entries: Vec<IndexEntry>,
    /// The messages, one for each entry.
    pub(super) published: Vec<Stored>,
    /// Changes in the order of the log. All of them come after the messages that they concern.
    pub(super) changes: Vec<Change>,
}

/// A record that changes earlier state.
pub(super) enum Change {
    Moved {
        stored: Stored,
        entry: IndexEntry,
    },
    /// The content of any other record.
    Other(Box<[u8]>),
}

/// Reads the header of a segment and the length of its file.
pub(super) fn read_header(path: &Path, number: u64) -> Result<(SegmentHeader, u64), Error> {
    let read = || -> io::Result<(Vec<u8>, u64)> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER);
        file.take(SEGMENT_HEADER as u64).read_to_end(&mut bytes)?;
        Ok((bytes, len))
    };
    let (bytes, len) = read().map_err(io_error("reading a segment", path))?;
    let header = SegmentHeader::decode(&bytes, path)?;
    if header.number != number {
        return Err(Error::Corrupt {
            file: path.to_owned(),
            offset: 0,
            what: "the header has the number of another segment",
        });
    }
    Ok((header, len))
}

/// The reason why reading a segment stopped.
enum Stop {
    /// There is no intact batch at this offset.
    Unsound(u64, &'static str),
    Io(io::Error),
}

impl Scan {
    /// Reads and checks a segment.
    pub(super) fn read(path: &Path, source: &Source) -> Result<Self, Error> {
        let mut scan = Self {
            len: SEGMENT_HEADER as u64,
            entries: Vec::new(),
            published: Vec::new(),
            changes: Vec::new(),
        };
        let io = || io_error("reading a segment", path);
        let mut file = File::open(path).map_err(io())?;
        match scan.batches(&mut file, source) {
            Ok(()) => Ok(scan),
            Err(Stop::Io(error)) => Err(io()(error)),
            Err(Stop::Unsound(offset, what)) => {
                // The first batch, with the definitions, was on disk before the file had its name.
                let later = offset > SEGMENT_HEADER as u64;
                if source.newest
                    && later
                    && !synced_beyond(&mut file, source, offset).map_err(io())?
                {
                    return Ok(scan);
                }
                Err(Error::Corrupt {
                    file: path.to_owned(),
                    offset,
                    what,
                })
            }
        }
    }

    /// Reads batches to the end of the file. `len` is the end of the last intact one.
    fn batches(&mut self, file: &mut File, source: &Source) -> Result<(), Stop> {
        file.seek(SeekFrom::Start(self.len)).map_err(Stop::Io)?;
        let mut chunk = Vec::new();
        let mut want = CHUNK;
        // Invariant: `len + chunk.len()` bytes of the file have been read.
        while self.len < source.len {
            let unread = source.len - self.len - chunk.len() as u64;
            chunk.reserve_exact(want.max(CHUNK).saturating_sub(chunk.len()));
            let room = (chunk.capacity() - chunk.len()) as u64;
            let read = file
                .take(room.min(unread))
                .read_to_end(&mut chunk)
                .map_err(Stop::Io)?;
            let before = self.len;
            want = self.chunk(&chunk, source)?;
            let done = usize::try_from(self.len - before).expect("it was in memory");
            chunk.drain(..done);
            if want > 0 && read == 0 {
                return Err(Stop::Unsound(self.len, "a batch is cut short"));
            }
        }
        Ok(())
    }

    /// Parses the whole batches of a chunk. Returns how many bytes a chunk must have for the next one.
    fn chunk(&mut self, mut chunk: &[u8], source: &Source) -> Result<usize, Stop> {
        loop {
            let Some((head, rest)) = chunk.split_at_checked(BATCH_HEADER) else {
                return Ok(if chunk.is_empty() { 0 } else { BATCH_HEADER });
            };
            let unsound = |what| Stop::Unsound(self.len, what);
            let header = BatchHeader::decode(head, Some(source.header.salt))
                .ok_or_else(|| unsound("no batch begins here"))?;
            let size = BATCH_HEADER + header.len;
            if self.len + size as u64 > source.len {
                return Err(unsound("a batch is longer than the file"));
            }
            let Some(records) = rest.get(..header.len) else {
                return Ok(size);
            };
            if !header.matches(records) {
                return Err(unsound("a batch fails its checksum"));
            }
            self.batch(records, source.header.first_id)
                .ok_or(Stop::Unsound(self.len, "a record is invalid"))?;
            chunk = &chunk[size..];
            self.len += size as u64;
        }
    }

    /// Parses the records of an intact batch.
    fn batch(&mut self, batch: &[u8], first_id: u64) -> Option<()> {
        for (at, content) in Records::new(batch) {
            let change = match Record::decode(content)? {
                Record::Publish(publish) => {
                    let offset = self.len + (BATCH_HEADER + at) as u64;
                    let entry = IndexEntry {
                        offset: u32::try_from(offset).ok()?,
                        len: u32::try_from(RECORD_HEADER + content.len()).ok()?,
                        holders: Holders::read(publish.queues),
                    };
                    let stored = Stored::new(&publish, content);
                    if publish.id >= first_id {
                        if publish.id - first_id != self.entries.len() as u64 {
                            return None;
                        }
                        self.entries.push(entry);
                        self.published.push(stored);
                        continue;
                    }
                    Change::Moved { stored, entry }
                }
                _ => Change::Other(content.into()),
            };
            self.changes.push(change);
        }
        Some(())
    }
}

/// Returns true if a batch after `offset` was written when the bytes at `offset` had been synced. These bytes are then
/// damaged; otherwise they were never complete, and no client was told that they were on disk.
fn synced_beyond(file: &mut File, source: &Source, offset: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(offset))?;
    let mut rest = Vec::new();
    file.take(source.len - offset).read_to_end(&mut rest)?;
    let found = memmem::find_iter(&rest, &BATCH_MAGIC).any(|at| {
        BatchHeader::decode(&rest[at..], Some(source.header.salt))
            .is_some_and(|header| header.durable > offset)
    });
    Ok(found)
}
