//! A reader of server-sent events (WHATWG HTML, "Server-sent events"), over the pieces of a body.
//!
//! [`first`] reads the first record of some bytes and keeps nothing. [`Reader`] reads a stream in pieces: it keeps 16 bytes,
//! and a buffer while a record is cut. Both give the same records for every split.
//!
//! A record is the lines up to an empty one. Its data are bytes: they are not required to be UTF-8.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr2_iter};

#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod tests;

/// Maximum length of a record that a [`Reader`] keeps, in bytes.
pub const RECORD_LIMIT: usize = 16 * 1024 * 1024;

/// The byte order mark, which may begin a stream.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A record longer than [`RECORD_LIMIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// The fields of a record. Comments, and the fields `id` and `retry`, are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// The values of all `data` fields, with a line feed between two. A record without one is not an event.
    pub data: Option<Cow<'a, [u8]>>,
    /// The value of the last `event` field.
    pub event: Option<&'a [u8]>,
    /// True if a line is neither a comment nor a field of the standard, which ignores such lines.
    pub has_unknown: bool,
}

/// Returns true if a `Content-Type` names an event stream.
#[must_use]
pub fn is_event_stream(content_type: &[u8]) -> bool {
    let name = content_type.split(|byte| *byte == b';').next();
    name.is_some_and(|name| name.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

/// Returns the length of the byte order mark at the beginning of a stream: 0 if there is none, `None` if more bytes
/// decide.
#[inline]
#[must_use]
pub fn mark_length(stream: &[u8]) -> Option<usize> {
    if stream.starts_with(BYTE_ORDER_MARK) {
        Some(BYTE_ORDER_MARK.len())
    } else if BYTE_ORDER_MARK.starts_with(stream) {
        None
    } else {
        Some(0)
    }
}

/// Reads the first record of some bytes. Returns its fields, as far as their lines are whole, and its length with the empty
/// line; `None` if it is cut.
///
/// The line feed of a CR LF that ended the record before may come first: that is an empty record.
#[inline]
#[must_use]
pub fn first(bytes: &[u8]) -> (Record<'_>, Option<usize>) {
    let mut record = Record::default();
    let mut at = 0;
    while let Some(length) = line_length(&bytes[at..]) {
        let (line, end) = bytes[at..].split_at(length);
        at += length + if end.starts_with(b"\r\n") { 2 } else { 1 };
        if line.is_empty() {
            return (record, Some(at));
        }
        record.take(line);
    }
    (record, None)
}

/// Returns the length of the first line, without its end. The line that ends a record is empty: a search would cost more.
#[inline]
fn line_length(text: &[u8]) -> Option<usize> {
    match text.first() {
        Some(b'\n' | b'\r') => Some(0),
        _ => memchr2(b'\n', b'\r', text),
    }
}

impl<'a> Record<'a> {
    #[inline]
    fn take(&mut self, line: &'a [u8]) {
        match line.strip_prefix(b"data:") {
            Some(value) => self.data(without_space(value)),
            None => self.other(line),
        }
    }

    #[inline]
    fn data(&mut self, value: &'a [u8]) {
        match &mut self.data {
            None => self.data = Some(Cow::Borrowed(value)),
            Some(lines) => {
                let lines = lines.to_mut();
                lines.push(b'\n');
                lines.extend_from_slice(value);
            }
        }
    }

    fn other(&mut self, line: &'a [u8]) {
        let colon = memchr(b':', line).unwrap_or(line.len());
        let value = without_space(line.get(colon + 1..).unwrap_or_default());
        match &line[..colon] {
            b"" | b"id" | b"retry" => {}
            b"event" => self.event = Some(value),
            b"data" => self.data(value),
            _ => self.has_unknown = true,
        }
    }
}

fn without_space(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}

/// The reader of one stream.
#[derive(Debug, Default)]
pub struct Reader {
    /// True after the beginning, where a byte order mark may be.
    has_begun: bool,
    /// The beginning of a record that is cut.
    #[expect(
        clippy::box_collection,
        reason = "a Vec is 24 bytes, and few streams hold one"
    )]
    held: Option<Box<Vec<u8>>>,
}

impl Reader {
    /// Takes a piece of the stream, and passes each record with data to `take`.
    ///
    /// # Errors
    /// A record is too long, or the error of `take`. The reader must not be used afterwards.
    #[inline]
    pub fn take<E: From<TooLong>>(
        &mut self,
        piece: &[u8],
        take: impl FnMut(&Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(mut held) = self.held.take() else {
            let used = self.take_whole(piece, take)?;
            if used < piece.len() {
                self.held = Some(Box::new(piece[used..].to_vec()));
            }
            return Ok(());
        };
        let seam = held.len();
        held.extend_from_slice(piece);
        // A long record in many pieces is not read again for each.
        if !self.has_begun || has_empty_line(&held, seam) {
            let used = self.take_whole(&held, take)?;
            held.drain(..used);
        }
        if held.len() > RECORD_LIMIT {
            return Err(TooLong.into());
        }
        self.held = Some(held).filter(|held| !held.is_empty());
        Ok(())
    }

    /// Passes the whole records to `take`. Returns their length.
    #[inline]
    fn take_whole<E: From<TooLong>>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&Record<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut used = 0;
        if !self.has_begun {
            let Some(length) = mark_length(bytes) else {
                return Ok(0);
            };
            self.has_begun = true;
            used = length;
        }
        while used < bytes.len() {
            let (record, length) = first(&bytes[used..]);
            let Some(length) = length else { break };
            if length > RECORD_LIMIT {
                return Err(TooLong.into());
            }
            used += length;
            if record.data.is_some() {
                take(&record)?;
            }
        }
        Ok(used)
    }

    /// Returns true if the stream would end within an event, or within a line: a browser discards that.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.held.as_ref().is_some_and(|held| {
            let is_line = held.ends_with(b"\n") || held.ends_with(b"\r");
            !is_line || first(held).0.data.is_some()
        })
    }
}

/// Returns true if an empty line ends behind the first `seam` bytes of a record, which do not have one.
fn has_empty_line(record: &[u8], seam: usize) -> bool {
    let mut ends = memchr2_iter(b'\n', b'\r', &record[seam..]);
    ends.any(|at| match &record[..=seam + at] {
        [.., b'\r', b'\n'] => false,
        [.., b'\r' | b'\n', _] => true,
        _ => false,
    })
}
