//! HPACK (RFC 7541): a decoder with its dynamic table, and the encodings of fields of requests.
//!
//! It is written here because of the cost. The head of a response of nginx has seven fields, of which the status and the
//! length are needed. Reading it takes 1,200 instructions here, 30,500 with `httlib-hpack` 0.1.3, and 1.6 million with
//! `loona-hpack` 0.4.3: they decode and copy each field. Here a value is handed on as it came, and is decoded if the
//! caller needs it, or once the table is used. The Huffman code is the crate `octets`.
//!
//! The dynamic table keeps its default size. With a size of 0 a decoder would need no state, but a server that uses the
//! table would then write every field of every response as a literal: it would be measured with work that it does not
//! have with other clients.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::frame::Fault;

/// The size of the dynamic table in bytes (§4.2), which is not changed here.
pub(super) const TABLE_SIZE: usize = 4096;
/// The size of an entry beyond its name and value (§4.1).
const OVERHEAD: usize = 32;
/// The most entries that the table can hold: after as many new ones, no older one is left.
const MOST_ENTRIES: usize = TABLE_SIZE / OVERHEAD;
/// Limit of an integer: more than any length or index here.
const MAX_INTEGER: usize = 1 << 24;

/// Kinds of field representations by their first bits, with the number of bits of the integer that follows (§6).
#[derive(Debug, Clone, Copy)]
pub(super) struct Representation(u8, u32);

pub(super) const INDEXED: Representation = Representation(0x80, 7);
pub(super) const INSERTED: Representation = Representation(0x40, 6);
pub(super) const RESIZED: Representation = Representation(0x20, 5);
pub(super) const LITERAL: Representation = Representation(0x00, 4);
const PLAIN: Representation = Representation(0x00, 7);

/// A string as it came (§5.2).
#[derive(Debug, Clone, Copy)]
pub(super) enum Encoded<'a> {
    Plain(&'a [u8]),
    Huffman(&'a [u8]),
}

impl<'a> Encoded<'a> {
    /// Decodes the string, without a copy if it is plain.
    pub(super) fn decode(self) -> Result<Cow<'a, [u8]>, Fault> {
        match self {
            Self::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Huffman(bytes) => {
                let decoded = octets::Octets::with_slice(bytes).get_huffman_decoded();
                decoded.map(Cow::Owned).map_err(|_| Fault::Compression)
            }
        }
    }
}

/// The name and the value of a field in the dynamic table.
type Entry = (Cow<'static, [u8]>, Box<[u8]>);

/// The state of a connection's decoder.
///
/// Fields that are added to the table wait as they came until the table is used: nginx adds all fields of all its
/// responses, and never uses one.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    limit: usize,
    /// Fields that were added since, the oldest first, and the number of those in the second part.
    added: [Vec<u8>; 2],
    count: usize,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            limit: TABLE_SIZE,
            added: [Vec::new(), Vec::new()],
            count: 0,
        }
    }

    /// Decodes a whole block. Hands each field to a function: its name, its value, and whether the name is a literal.
    #[inline]
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(&[u8], Encoded<'_>, bool) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut rest = block;
        let mut may_resize = true;
        while let Some(&first) = rest.first() {
            if first & INDEXED.0 != 0 {
                let index = self.index(&mut rest, INDEXED)?;
                let (name, value) = self.entry(index)?;
                each(name, Encoded::Plain(value), false)?;
            } else if first & INSERTED.0 != 0 {
                let field = rest;
                let index = self.index(&mut rest, INSERTED)?;
                let name = self.name(index, &mut rest)?;
                let value = string(&mut rest)?;
                each(&name, value, index == 0)?;
                if index < NEWEST {
                    self.add(&field[..field.len() - rest.len()]);
                } else {
                    let name = Cow::Owned(name.into_owned());
                    self.insert(name, value.decode()?.into());
                }
            } else if first & RESIZED.0 != 0 {
                let limit = integer(&mut rest, RESIZED)?;
                if !may_resize || limit > TABLE_SIZE {
                    return Err(Fault::Compression);
                }
                self.settle()?;
                self.limit = limit;
                self.evict(0);
                continue;
            } else {
                let index = self.index(&mut rest, LITERAL)?;
                let name = self.name(index, &mut rest)?;
                each(&name, string(&mut rest)?, index == 0)?;
            }
            may_resize = false;
        }
        Ok(())
    }

    /// Decodes an index. If it is in the dynamic table, that is up to date afterwards.
    #[inline]
    fn index(&mut self, rest: &mut &[u8], representation: Representation) -> Result<usize, Fault> {
        let index = integer(rest, representation)?;
        if index >= NEWEST {
            self.settle()?;
        }
        Ok(index)
    }

    /// Returns the name at an index, or the literal that follows if the index is 0.
    #[inline]
    fn name<'a, 'b: 'a>(
        &'a self,
        index: usize,
        rest: &mut &'b [u8],
    ) -> Result<Cow<'a, [u8]>, Fault> {
        match index {
            0 => string(rest)?.decode(),
            index => Ok(Cow::Borrowed(self.entry(index)?.0)),
        }
    }

    /// Keeps a field that is added to the table (§6.2.1), whose name does not depend on the table. Older ones than the
    /// table can hold are forgotten.
    fn add(&mut self, field: &[u8]) {
        self.added[1].extend_from_slice(field);
        self.count += 1;
        if self.count == MOST_ENTRIES {
            (self.count, self.size) = (0, 0);
            self.entries.clear();
            self.added.swap(0, 1);
            self.added[1].clear();
        }
    }

    /// Brings the table up to date.
    fn settle(&mut self) -> Result<(), Fault> {
        self.count = 0;
        for fields in std::mem::take(&mut self.added) {
            let mut rest = fields.as_slice();
            while !rest.is_empty() {
                let name = match integer(&mut rest, INSERTED)? {
                    0 => Cow::Owned(string(&mut rest)?.decode()?.into_owned()),
                    index => Cow::Borrowed(STATIC[index - 1].0.as_bytes()),
                };
                let value = string(&mut rest)?.decode()?.into();
                self.insert(name, value);
            }
        }
        Ok(())
    }

    fn insert(&mut self, name: Cow<'static, [u8]>, value: Box<[u8]>) {
        let size = size(&name, &value);
        self.evict(size);
        if size <= self.limit {
            self.size += size;
            self.entries.push_front((name, value));
        }
    }

    /// Removes the oldest entries until there is room for one of this size (§4.4).
    fn evict(&mut self, size: usize) {
        while self.size + size > self.limit
            && let Some((name, value)) = self.entries.pop_back()
        {
            self.size -= self::size(&name, &value);
        }
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Fault> {
        let index = index.checked_sub(1).ok_or(Fault::Compression)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(index - STATIC.len());
        let (name, value) = entry.ok_or(Fault::Compression)?;
        Ok((name, value))
    }
}

/// Returns the size of an entry of the dynamic table (§4.1).
pub(super) fn size(name: &[u8], value: &[u8]) -> usize {
    name.len() + value.len() + OVERHEAD
}

/// Decodes an integer (§5.1).
#[inline]
fn integer(rest: &mut &[u8], representation: Representation) -> Result<usize, Fault> {
    let mask = (1 << representation.1) - 1;
    let (&first, mut bytes) = rest.split_first().ok_or(Fault::Compression)?;
    let mut value = usize::from(first & mask);
    if first & mask == mask {
        let mut shift = 0;
        loop {
            let (&byte, after) = bytes.split_first().ok_or(Fault::Compression)?;
            bytes = after;
            value += usize::from(byte & 0x7f) << shift;
            if value > MAX_INTEGER || shift > 21 {
                return Err(Fault::Compression);
            }
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
    }
    *rest = bytes;
    Ok(value)
}

#[inline]
fn string<'a>(rest: &mut &'a [u8]) -> Result<Encoded<'a>, Fault> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer(rest, PLAIN)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(Fault::Compression)?;
    *rest = after;
    Ok(if is_huffman {
        Encoded::Huffman(bytes)
    } else {
        Encoded::Plain(bytes)
    })
}

/// Appends an integer (§5.1).
pub(super) fn put_integer(out: &mut Vec<u8>, representation: Representation, value: usize) {
    let Representation(first, bits) = representation;
    let most = (1 << bits) - 1;
    if value < most {
        return out.push(first | value as u8);
    }
    out.push(first | most as u8);
    let mut left = value - most;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Appends the beginning of a literal: all but its value.
pub(super) fn put_name(out: &mut Vec<u8>, representation: Representation, name: &str) {
    match STATIC.iter().position(|(known, _)| *known == name) {
        Some(index) => put_integer(out, representation, index + 1),
        None => {
            put_integer(out, representation, 0);
            put_length(out, name.len());
            out.extend_from_slice(name.as_bytes());
        }
    }
}

/// Appends the length of a plain string, which follows.
pub(super) fn put_length(out: &mut Vec<u8>, length: usize) {
    put_integer(out, PLAIN, length);
}

/// Returns the index of a field that the static table has with its value.
pub(super) fn static_index(name: &str, value: &[u8]) -> Option<usize> {
    let is_field = |field: &(&str, &str)| field.0 == name && field.1.as_bytes() == value;
    let index = STATIC.iter().position(is_field)?;
    (!value.is_empty()).then_some(index + 1)
}

/// The index of the newest entry of the dynamic table (§2.3.3).
pub(super) const NEWEST: usize = STATIC.len() + 1;

/// The static table (§A).
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
