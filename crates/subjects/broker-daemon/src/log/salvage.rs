//! Salvage: builds a log from the readable part of a damaged one. The damaged segments are moved aside unchanged.
//!
//! Readable content is written to a new log, in a folder beside the segments. The folder's name tells the progress, so
//! a crash in the middle loses nothing, and opening the folder continues there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use memchr::memmem;

use super::error::Error;
use super::folder::{Folder, io_error};
use super::format::{
    BATCH_HEADER, BATCH_MAGIC, BatchHeader, NewMessage, RECORD_HEADER, Record, Records,
    SEGMENT_HEADER, SegmentHeader, u32s, u64s,
};
use super::recover::recover;
use super::stored::Stored;
use super::{Log, LogOptions, State};
use crate::message::unix_ms;

/// Folder of the new log while it is written.
const UNFINISHED: &str = "salvage-unfinished";
/// Folder of the complete new log; next, the damaged segments are moved aside.
const WHOLE: &str = "salvage-whole";
/// Folder of the new log once the damaged segments are aside; next, it takes their place.
const READY: &str = "salvage-ready";
/// Folder for damaged segments; the time is appended.
const ASIDE: &str = "damaged-";

/// The result of salvaging a damaged log.
#[derive(Debug)]
pub struct Salvage {
    /// Each segment, in the order of the log.
    pub segments: Vec<SalvagedSegment>,
    /// Messages that some queue still held.
    pub messages: usize,
    /// Exchanges, queues and bindings.
    pub definitions: usize,
    /// The folder with the original segments.
    pub aside: PathBuf,
}

/// The readable part of a segment.
#[derive(Debug, Default)]
pub struct SalvagedSegment {
    /// Its name in the folder of the log.
    pub file: PathBuf,
    /// Records of messages.
    pub messages: usize,
    /// Other records: settlements and definitions.
    pub others: usize,
    /// The first unreadable byte and a description of the damage; `None` if all of it was read.
    pub damage: Option<(u64, &'static str)>,
    /// Unreadable bytes.
    pub lost_bytes: u64,
}

impl fmt::Display for SalvagedSegment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        let (messages, others) = (self.messages, self.others);
        write!(
            out,
            "{file}: read {messages} messages and {others} other records"
        )?;
        match self.damage {
            None => Ok(()),
            Some((offset, what)) => write!(
                out,
                "; {} bytes are unreadable, the first at byte {offset} ({what})",
                self.lost_bytes
            ),
        }
    }
}

/// Opens a folder whose log may be damaged. If it is, keeps the readable part: definitions, and messages with the
/// queues that held them as far as known. Moves the damaged segments aside. Returns `None` if nothing is damaged.
/// Messages whose settlement or deletion is in an unreadable part may reappear.
///
/// # Errors
/// Another process has the folder open; a segment is of another version; or a system call fails.
pub fn salvage(dir: &Path, options: LogOptions) -> Result<Option<Salvage>, Error> {
    let folder = Folder::open(dir)?;
    finish(&folder)?;
    match recover(&folder, options.segment_bytes) {
        Ok(_) => return Ok(None),
        Err(Error::Corrupt { .. } | Error::Missing { .. } | Error::NotALog { .. }) => {}
        Err(other) => return Err(other),
    }
    let mut found = Found::default();
    let mut segments: Vec<SalvagedSegment> = Vec::new();
    let mut due = None;
    for number in folder.segments()? {
        for missing in due.unwrap_or(number)..number {
            segments.push(SalvagedSegment {
                file: folder.segment(missing),
                damage: Some((0, "it is missing")),
                ..SalvagedSegment::default()
            });
        }
        due = Some(number + 1);
        segments.push(found.segment(&folder.segment(number))?);
    }
    found.clear();
    let unfinished = dir.join(UNFINISHED);
    remove(&unfinished)?;
    if let Err(error) = found.write(&unfinished, options) {
        remove(&unfinished)?;
        return Err(error);
    }
    let io = |source| io_error("moving salvaged segments", &unfinished)(source);
    fs::rename(&unfinished, dir.join(WHOLE)).map_err(io)?;
    folder.sync()?;
    let aside = finish(&folder)?.expect("a salvage is unfinished");
    Ok(Some(Salvage {
        segments,
        messages: found.messages.len(),
        definitions: found.meta.len(),
        aside,
    }))
}

/// Completes a salvage that a crash may have interrupted: moves the damaged segments aside, and the new ones into their
/// place. Returns the folder of the damaged ones; `None` if there was nothing to do.
pub(super) fn finish(folder: &Folder) -> Result<Option<PathBuf>, Error> {
    let whole = folder.path().join(WHOLE);
    let ready = folder.path().join(READY);
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
        io_error("moving salvaged segments", path)
    }
    let mut moved = None;
    if whole.exists() {
        let aside = folder.path().join(format!("{ASIDE}{}", unix_ms()));
        fs::create_dir(&aside).map_err(io(&aside))?;
        for number in folder.segments()? {
            let from = folder.segment(number);
            let to = aside.join(from.file_name().expect("a segment has a name"));
            fs::rename(&from, to).map_err(io(&from))?;
        }
        folder.sync()?;
        fs::rename(&whole, &ready).map_err(io(&whole))?;
        folder.sync()?;
        moved = Some(aside);
    }
    if ready.exists() {
        for entry in fs::read_dir(&ready).map_err(io(&ready))? {
            let from = entry.map_err(io(&ready))?.path();
            if from.extension().is_some_and(|end| end == "log") {
                let to = folder.path().join(from.file_name().expect("it was listed"));
                fs::rename(&from, to).map_err(io(&from))?;
            }
        }
        folder.sync()?;
        remove(&ready)?;
    }
    Ok(moved)
}

fn remove(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let doing = "removing the remains of an interrupted salvage";
            Err(io_error(doing, dir)(error))
        }
        _ => Ok(()),
    }
}

/// The combined content of the readable records.
#[derive(Default)]
struct Found {
    meta: BTreeMap<String, Vec<u8>>,
    /// Messages and the queues that hold them, by id.
    messages: BTreeMap<u64, (Stored, BTreeSet<u32>)>,
    /// Deleted queues, each with the last id that this concerns.
    cleared: HashMap<u32, u64>,
}

impl Found {
    /// Reads a segment as far as possible.
    fn segment(&mut self, path: &Path) -> Result<SalvagedSegment, Error> {
        let mut bytes = Vec::new();
        // Everything before a disk error has been read.
        let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
        let header = SegmentHeader::decode(&bytes, path);
        if let Err(version @ Error::Version { .. }) = header {
            return Err(version);
        }
        let salt = header.ok().map(|header| header.salt);
        let mut segment = SalvagedSegment {
            file: path.to_owned(),
            ..SalvagedSegment::default()
        };
        let lost = |segment: &mut SalvagedSegment, from: usize, to: usize, what| {
            segment.damage.get_or_insert((from as u64, what));
            segment.lost_bytes += (to - from) as u64;
        };
        let mut at = SEGMENT_HEADER.min(bytes.len());
        if salt.is_none() {
            lost(&mut segment, 0, at, "the header is damaged");
        }
        while at < bytes.len() {
            let rest = &bytes[at..];
            let header = BatchHeader::decode(rest, salt).filter(|header| {
                let records = rest.get(BATCH_HEADER..BATCH_HEADER + header.len);
                // Without the salt, only the records identify a batch.
                salt.is_some() || records.is_some_and(|records| header.matches(records))
            });
            let Some(header) = header else {
                let next = salt.and_then(|salt| next_batch(rest, salt));
                let end = at + next.unwrap_or(rest.len());
                // Reserved space that was never written is no loss.
                if bytes[at..end].iter().any(|byte| *byte != 0) {
                    lost(&mut segment, at, end, "no batch begins here");
                }
                at = end;
                continue;
            };
            let records = &rest[BATCH_HEADER..rest.len().min(BATCH_HEADER + header.len)];
            // The first batch has all definitions.
            if at == SEGMENT_HEADER && header.matches(records) {
                self.meta.clear();
            }
            let sound = self.batch(records, &mut segment);
            at += BATCH_HEADER;
            if sound < header.len {
                let end = at + records.len();
                lost(&mut segment, at, end, "records fail their checksums");
                segment.lost_bytes -= sound.min(records.len()) as u64;
            }
            at += records.len();
        }
        if read.is_err() {
            let end = bytes.len();
            lost(&mut segment, end, end, "the disk can't read further");
        }
        Ok(segment)
    }

    /// Adds the intact records of a batch. Returns their length in bytes.
    fn batch(&mut self, records: &[u8], segment: &mut SalvagedSegment) -> usize {
        let mut sound = 0;
        for (at, content) in Records::new(records) {
            let crc = &records[at + 4..at + RECORD_HEADER];
            if crc != crc32c::crc32c(content).to_le_bytes() {
                continue;
            }
            let Some(record) = Record::decode(content) else {
                continue;
            };
            sound += RECORD_HEADER + content.len();
            match record {
                Record::Publish(_) => segment.messages += 1,
                _ => segment.others += 1,
            }
            self.record(record, content);
        }
        sound
    }

    fn record(&mut self, record: Record<'_>, content: &[u8]) {
        match record {
            Record::Publish(publish) => {
                // A moved message is there already, with its settlements since.
                let new = || {
                    (
                        Stored::new(&publish, content),
                        u32s(publish.queues).collect(),
                    )
                };
                self.messages.entry(publish.id).or_insert_with(new);
            }
            Record::Held { id, queues } => {
                if let Some((_, holders)) = self.messages.get_mut(&id) {
                    *holders = u32s(queues).collect();
                }
            }
            Record::Settle { queue, ids } => {
                for id in u64s(ids) {
                    if let Some((_, holders)) = self.messages.get_mut(&id) {
                        holders.remove(&queue);
                    }
                }
            }
            Record::Clear { queue, up_to } => {
                self.cleared.insert(queue, up_to);
            }
            Record::Put { key, value } => {
                self.meta.insert(key.to_owned(), value.to_owned());
            }
            Record::Delete { key } => {
                self.meta.remove(key);
            }
        }
    }

    /// Removes messages of deleted queues, and messages that no queue holds.
    fn clear(&mut self) {
        let cleared = &self.cleared;
        self.messages.retain(|id, (_, holders)| {
            holders.retain(|queue| cleared.get(queue).is_none_or(|up_to| id > up_to));
            !holders.is_empty()
        });
    }

    /// Writes everything to a new log.
    fn write(&self, dir: &Path, options: LogOptions) -> Result<(), Error> {
        let (wake, woken) = mpsc::channel();
        let (mut log, _) = Log::open(dir, options, move || {
            // Once the log is closed, the receiver may be gone.
            let _ = wake.send(());
        })?;
        for (key, value) in &self.meta {
            log.put_meta(key, value);
        }
        for (stored, holders) in self.messages.values() {
            let queues: Vec<u32> = holders.iter().copied().collect();
            log.publish(
                &queues,
                &NewMessage {
                    published_ms: stored.published_ms,
                    exchange: stored.exchange(),
                    routing_key: stored.routing_key(),
                    properties: stored.properties(),
                    body: stored.body(),
                },
            );
            while log.congested() {
                log.flush();
                if matches!(log.state(), State::Full) || woken.recv().is_err() {
                    break;
                }
            }
        }
        log.close().map_err(|error| {
            Arc::into_inner(error).unwrap_or_else(|| {
                io_error("writing salvaged records", dir)(io::Error::other("the log failed"))
            })
        })
    }
}

/// Returns the offset of the next batch after the first byte.
fn next_batch(bytes: &[u8], salt: u32) -> Option<usize> {
    let mut found = memmem::find_iter(&bytes[1..], &BATCH_MAGIC).map(|at| at + 1);
    found.find(|at| BatchHeader::decode(&bytes[*at..], Some(salt)).is_some())
}
