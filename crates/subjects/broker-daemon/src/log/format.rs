//! The format of a segment: a header, then batches of records. All numbers are little-endian.
//!
//! ```text
//! segment  magic[8] version u32 salt u32 number u64 first_id u64 previous_len u64 crc u32   then batches
//! batch    magic u32 len u32 durable u64 digest u32 crc u32                                 then len bytes of records
//! record   len u32 crc u32                                                                  then kind u8, content
//! ```
//!
//! A batch is one flush and is valid completely or not at all. Its checksum begins with the random salt of the segment,
//! so that neither a message body nor a block of a removed file passes for a batch. Its digest is the checksum of the
//! checksums of its records. `durable` is the length of the segment that was already on disk when the batch was
//! written: an invalid batch before that offset is damage, and not the result of a crash. A record's own checksum has
//! no salt, so that compaction can copy records between segments unchanged.

use std::path::Path;

use crc32c::{crc32c, crc32c_append};

use super::error::Error;

/// A message to publish.
#[derive(Debug, Clone, Copy)]
pub struct NewMessage<'a> {
    /// Publication time, in milliseconds since 1970: after a restart, a time to live counts from it.
    pub published_ms: u64,
    /// The exchange, at most 255 bytes.
    pub exchange: &'a [u8],
    /// The routing key, at most 255 bytes.
    pub routing_key: &'a [u8],
    /// The payload of the content header (AMQP 0-9-1 §4.2.6.1), which the log does not interpret.
    pub properties: &'a [u8],
    /// The body, at most [`MAX_BODY`](super::MAX_BODY) bytes.
    pub body: &'a [u8],
}

pub(super) const VERSION: u32 = 1;
/// Bytes of the header of a segment.
pub(super) const SEGMENT_HEADER: usize = 44;
/// Bytes of the header of a batch.
pub(super) const BATCH_HEADER: usize = 24;
/// Bytes before the content of a record.
pub(super) const RECORD_HEADER: usize = 8;
const SEGMENT_MAGIC: &[u8; 8] = b"DROVERWL";
/// The bytes that each batch begins with.
pub(super) const BATCH_MAGIC: [u8; 4] = *b"\xd5BAT";

const PUBLISH: u8 = 1;
const SETTLE: u8 = 2;
const HELD: u8 = 3;
const CLEAR: u8 = 4;
const PUT: u8 = 5;
const DELETE: u8 = 6;

/// Splits the first `N` bytes off.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_le_bytes)
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_le_bytes)
}

fn split<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(first)
}

/// Returns the numbers in a slice of a record.
pub(super) fn u32s(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().copied().map(u32::from_le_bytes)
}

/// Returns the ids in a slice of a record.
pub(super) fn u64s(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes)
}

/// Converts the length of a field, which callers keep below 4 GiB.
fn length(len: usize) -> u32 {
    u32::try_from(len).expect("a field of a record has less than 4 GiB")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// The initial value of the checksums of its batches.
    pub(super) salt: u32,
    /// The number of the segment, which is one more than the number of the one before.
    pub(super) number: u64,
    /// The id of the first message published in it. Messages with smaller ids were moved here.
    pub(super) first_id: u64,
    /// The length of the segment before, in bytes; 0 if this is the first of all.
    pub(super) previous_len: u64,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SEGMENT_HEADER);
        out.extend_from_slice(SEGMENT_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.salt.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.first_id.to_le_bytes());
        out.extend_from_slice(&self.previous_len.to_le_bytes());
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Parses the header from the first bytes of a file, which may be shorter than a header.
    pub(super) fn decode(mut bytes: &[u8], file: &Path) -> Result<Self, Error> {
        let whole = bytes;
        let corrupt = |what| Error::Corrupt {
            file: file.to_owned(),
            offset: 0,
            what,
        };
        let short = || corrupt("the header is cut short");
        if take(&mut bytes).ok_or_else(short)? != *SEGMENT_MAGIC {
            return Err(Error::NotALog {
                file: file.to_owned(),
            });
        }
        let version = take_u32(&mut bytes).ok_or_else(short)?;
        if version != VERSION {
            return Err(Error::Version {
                file: file.to_owned(),
                found: version,
            });
        }
        let header = Self {
            salt: take_u32(&mut bytes).ok_or_else(short)?,
            number: take_u64(&mut bytes).ok_or_else(short)?,
            first_id: take_u64(&mut bytes).ok_or_else(short)?,
            previous_len: take_u64(&mut bytes).ok_or_else(short)?,
        };
        let crc = take_u32(&mut bytes).ok_or_else(short)?;
        if crc != crc32c(&whole[..SEGMENT_HEADER - 4]) {
            return Err(corrupt("the header fails its checksum"));
        }
        Ok(header)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchHeader {
    /// Bytes of its records.
    pub(super) len: usize,
    /// The length of the segment on disk before the batch was written.
    pub(super) durable: u64,
    digest: u32,
}

impl BatchHeader {
    /// Parses the header of a batch of this segment, or of any segment if the salt is unknown; `None` if the bytes are
    /// not such a header.
    pub(super) fn decode(bytes: &[u8], salt: Option<u32>) -> Option<Self> {
        let (mut bytes, whole) = (bytes, bytes);
        if take(&mut bytes)? != BATCH_MAGIC {
            return None;
        }
        let header = Self {
            len: take_u32(&mut bytes)? as usize,
            durable: take_u64(&mut bytes)?,
            digest: take_u32(&mut bytes)?,
        };
        let crc = take_u32(&mut bytes)?;
        let is_sound = |salt| crc == crc32c_append(salt, &whole[..BATCH_HEADER - 4]);
        salt.is_none_or(is_sound).then_some(header)
    }

    /// Returns true if these are the records of this batch, each of them intact.
    pub(super) fn matches(&self, records: &[u8]) -> bool {
        digest(records) == Some(self.digest)
    }
}

/// Completes the header of a batch, for which its first bytes are reserved, and the checksums of its records.
pub(super) fn seal(batch: &mut [u8], salt: u32, durable: u64) {
    let (header, records) = batch.split_at_mut(BATCH_HEADER);
    let mut digest = 0;
    let mut at = 0;
    while at < records.len() {
        let (crc_at, content_at) = (at + 4, at + RECORD_HEADER);
        let len = u32::from_le_bytes(records[at..crc_at].try_into().expect("four bytes"));
        let end = content_at + len as usize;
        let crc = crc32c(&records[content_at..end]).to_le_bytes();
        records[crc_at..content_at].copy_from_slice(&crc);
        digest = crc32c_append(digest, &crc);
        at = end;
    }
    header[..4].copy_from_slice(&BATCH_MAGIC);
    header[4..8].copy_from_slice(&length(records.len()).to_le_bytes());
    header[8..16].copy_from_slice(&durable.to_le_bytes());
    header[16..20].copy_from_slice(&u32::to_le_bytes(digest));
    let crc = crc32c_append(salt, &header[..BATCH_HEADER - 4]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
}

/// An iterator over the records of a batch: the offset and the content of each. It ends before a truncated record.
#[derive(Debug)]
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let mut rest = self.bytes.get(at..)?;
        let len = take_u32(&mut rest)? as usize;
        take_u32(&mut rest)?;
        let content = rest.get(..len)?;
        self.at = at + RECORD_HEADER + len;
        Some((at, content))
    }
}

/// Returns the checksum of the checksums of records; `None` unless these are whole records, each of them intact.
pub(super) fn digest(records: &[u8]) -> Option<u32> {
    let mut digest = 0;
    let mut end = 0;
    for (at, content) in Records::new(records) {
        let crc = &records[at + 4..at + RECORD_HEADER];
        if crc != crc32c(content).to_le_bytes() {
            return None;
        }
        digest = crc32c_append(digest, crc);
        end = at + RECORD_HEADER + content.len();
    }
    (end == records.len()).then_some(digest)
}

/// Begins a record with `len` bytes of fields; its checksum is added when the batch is sealed.
fn begin(out: &mut Vec<u8>, kind: u8, len: usize) {
    out.reserve(RECORD_HEADER + 1 + len);
    out.extend_from_slice(&length(1 + len).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
}

/// Appends a record with any content.
#[cfg(any(test, fuzzing))]
pub(super) fn append_content(out: &mut Vec<u8>, content: &[u8]) {
    if let Some((kind, rest)) = content.split_first() {
        append(out, *kind, &[rest]);
    }
}

/// Appends a record.
fn append(out: &mut Vec<u8>, kind: u8, fields: &[&[u8]]) {
    begin(out, kind, fields.iter().map(|field| field.len()).sum());
    for field in fields {
        out.extend_from_slice(field);
    }
}

fn short(field: &[u8]) -> u8 {
    u8::try_from(field.len()).expect("a short string of AMQP has at most 255 bytes")
}

/// Appends a message.
pub(super) fn publish(out: &mut Vec<u8>, id: u64, queues: &[u32], message: &NewMessage<'_>) {
    let mut head = [0; 26];
    head[..8].copy_from_slice(&id.to_le_bytes());
    head[8..16].copy_from_slice(&message.published_ms.to_le_bytes());
    head[16..20].copy_from_slice(&length(queues.len()).to_le_bytes());
    head[20..24].copy_from_slice(&length(message.properties.len()).to_le_bytes());
    head[24] = short(message.exchange);
    head[25] = short(message.routing_key);
    let rest = [
        message.exchange,
        message.routing_key,
        message.properties,
        message.body,
    ];
    let len = head.len() + 4 * queues.len() + rest.iter().map(|part| part.len()).sum::<usize>();
    begin(out, PUBLISH, len);
    out.extend_from_slice(&head);
    for queue in queues {
        out.extend_from_slice(&queue.to_le_bytes());
    }
    for part in rest {
        out.extend_from_slice(part);
    }
}

/// Appends a record that a message has left a queue.
pub(super) fn settle(out: &mut Vec<u8>, queue: u32, id: u64) {
    append(out, SETTLE, &[&queue.to_le_bytes(), &id.to_le_bytes()]);
}

/// Adds one more message to the record of settlements that begins at `at`, which must be the last record.
pub(super) fn settle_more(out: &mut Vec<u8>, at: usize, id: u64) {
    out.extend_from_slice(&id.to_le_bytes());
    let len = length(out.len() - at - RECORD_HEADER);
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

/// Appends a record that only these queues, of those listed in the message's record, still hold it.
pub(super) fn held(out: &mut Vec<u8>, id: u64, queues: &[u32]) {
    let queues: Vec<u8> = queues
        .iter()
        .flat_map(|queue| queue.to_le_bytes())
        .collect();
    append(out, HELD, &[&id.to_le_bytes(), &queues]);
}

/// Appends a record that all messages up to this id have left a queue.
pub(super) fn clear(out: &mut Vec<u8>, queue: u32, up_to: u64) {
    append(out, CLEAR, &[&queue.to_le_bytes(), &up_to.to_le_bytes()]);
}

/// Appends a record with the value of a key.
pub(super) fn put(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    let len = length(key.len()).to_le_bytes();
    append(out, PUT, &[&len, key.as_bytes(), value]);
}

/// Appends a record that a key is deleted.
pub(super) fn delete(out: &mut Vec<u8>, key: &str) {
    append(out, DELETE, &[key.as_bytes()]);
}

/// A parsed record. Its slices refer to the content.
#[derive(Debug)]
pub(super) enum Record<'a> {
    Publish(Publish<'a>),
    Settle { queue: u32, ids: &'a [u8] },
    Held { id: u64, queues: &'a [u8] },
    Clear { queue: u32, up_to: u64 },
    Put { key: &'a str, value: &'a [u8] },
    Delete { key: &'a str },
}

/// A parsed message. Its parts are contiguous, with the body at the end of the content.
#[derive(Debug)]
pub(super) struct Publish<'a> {
    pub(super) id: u64,
    pub(super) published_ms: u64,
    pub(super) queues: &'a [u8],
    /// Lengths of exchange, routing key, properties and body.
    pub(super) lengths: [usize; 4],
}

impl<'a> Record<'a> {
    /// Parses the content of a record. `None` if it is invalid, which only a bug can cause if its checksum is valid.
    pub(super) fn decode(content: &'a [u8]) -> Option<Self> {
        let (kind, mut rest) = content.split_first()?;
        Some(match *kind {
            PUBLISH => Self::Publish(Publish::decode(rest)?),
            SETTLE => Self::Settle {
                queue: take_u32(&mut rest)?,
                ids: rest,
            },
            HELD => Self::Held {
                id: take_u64(&mut rest)?,
                queues: rest,
            },
            CLEAR => Self::Clear {
                queue: take_u32(&mut rest)?,
                up_to: take_u64(&mut rest)?,
            },
            PUT => {
                let len = take_u32(&mut rest)? as usize;
                Self::Put {
                    key: str::from_utf8(split(&mut rest, len)?).ok()?,
                    value: rest,
                }
            }
            DELETE => Self::Delete {
                key: str::from_utf8(rest).ok()?,
            },
            _ => return None,
        })
    }
}

impl<'a> Publish<'a> {
    fn decode(mut rest: &'a [u8]) -> Option<Self> {
        let id = take_u64(&mut rest)?;
        let published_ms = take_u64(&mut rest)?;
        let queues = take_u32(&mut rest)? as usize;
        let properties = take_u32(&mut rest)? as usize;
        let [exchange, routing_key] = take(&mut rest)?.map(usize::from);
        let queues = split(&mut rest, queues.checked_mul(4)?)?;
        let body = rest
            .len()
            .checked_sub(exchange + routing_key + properties)?;
        Some(Self {
            id,
            published_ms,
            queues,
            lengths: [exchange, routing_key, properties, body],
        })
    }
}
