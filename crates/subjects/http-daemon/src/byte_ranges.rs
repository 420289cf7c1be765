//! Several ranges of a file in one answer, as `multipart/byteranges` (RFC 9110, 14.6).

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::mem;
use std::ops::Range;

use hyper::body::Bytes;

use crate::files::{Content, Facts};

/// The rest of the answer: each part is a head and bytes of the file.
#[derive(Debug)]
pub(crate) struct ByteRanges {
    content: Content,
    parts: VecDeque<(Bytes, Range<u64>)>,
    /// The bytes of the current part that are not sent yet.
    current: Range<u64>,
    end: Bytes,
    /// Number of bytes that are announced but not sent yet.
    pub(crate) left: u64,
}

impl ByteRanges {
    /// Creates the parts of a file; the second value is the content type of the answer.
    pub(crate) fn new(content: Content, facts: &Facts, ranges: Vec<Range<u64>>) -> (Self, String) {
        // No file has it in it, unless somebody can guess it.
        let boundary = format!("{:020}", RandomState::new().build_hasher().finish());
        let head = |range: Range<u64>| {
            let head = format!(
                "\r\n--{boundary}\r\nContent-Type: {}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
                facts.kind,
                range.start,
                range.end - 1,
                facts.length
            );
            (Bytes::from(head), range)
        };
        let parts: VecDeque<_> = ranges.into_iter().map(head).collect();
        let end = Bytes::from(format!("\r\n--{boundary}--\r\n"));
        let lengths = parts
            .iter()
            .map(|(head, range)| head.len() as u64 + range.end - range.start);
        let parts = Self {
            left: lengths.sum::<u64>() + end.len() as u64,
            content,
            parts,
            current: 0..0,
            end,
        };
        (parts, format!("multipart/byteranges; boundary={boundary}"))
    }

    /// Returns the next bytes; empty after the last.
    ///
    /// # Errors
    /// An I/O error, or a file that has become shorter.
    pub(crate) fn next(&mut self) -> io::Result<Bytes> {
        let bytes = if !self.current.is_empty() {
            self.content.read(&mut self.current)?
        } else if let Some((head, range)) = self.parts.pop_front() {
            self.current = range;
            head
        } else {
            mem::take(&mut self.end)
        };
        self.left -= bytes.len() as u64;
        Ok(bytes)
    }
}
