//! Rows of an access log in the common or combined format, as nginx and Apache write them.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use super::Position;

/// The names of the columns.
pub(super) const COLUMNS: [&str; 8] = [
    "host",
    "time",
    "method",
    "path",
    "status",
    "bytes",
    "referer",
    "user_agent",
];

/// Reads rows in order. Lines that are not requests for a path are skipped: a server also logs what it could not read.
#[derive(Debug)]
pub(super) struct LogRows {
    pub(super) reader: BufReader<File>,
    /// The position of the next line.
    pub(super) position: Position,
    line: Vec<u8>,
    fields: [Vec<u8>; COLUMNS.len()],
    /// Number of lines that were skipped, and the first one of them.
    pub(super) skipped: u64,
    pub(super) first_skipped: u64,
}

impl LogRows {
    pub(super) fn new(reader: BufReader<File>) -> Self {
        Self {
            reader,
            position: Position { byte: 0, line: 1 },
            line: Vec::new(),
            fields: Default::default(),
            skipped: 0,
            first_skipped: 0,
        }
    }

    pub(super) fn next(&mut self) -> Result<bool, String> {
        loop {
            self.line.clear();
            let read = self.reader.read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| error.to_string())?;
            if read == 0 {
                return Ok(false);
            }
            let line = self.position.line;
            self.position = Position {
                byte: self.position.byte + read as u64,
                line: line + 1,
            };
            let text = self.line.trim_ascii_end();
            if parse(text, &mut self.fields).is_some() {
                return Ok(true);
            }
            if !text.is_empty() {
                self.skipped += 1;
                if self.first_skipped == 0 {
                    self.first_skipped = line;
                }
            }
        }
    }

    pub(super) fn field(&self, column: usize) -> &[u8] {
        &self.fields[column]
    }
}

/// Parses `HOST - USER [TIME] "METHOD PATH HTTP/1.1" STATUS BYTES "REFERER" "USER AGENT"`; the common format ends after the
/// bytes, and other formats that go on after the combined one are read as that.
fn parse(line: &[u8], fields: &mut [Vec<u8>; COLUMNS.len()]) -> Option<()> {
    fields.iter_mut().for_each(Vec::clear);
    let [host, time, method, path, status, bytes, referer, user_agent] = fields;
    let (first, rest) = split(line, b" ")?;
    host.extend_from_slice(first);
    // The name of a user may have spaces in it.
    let (_, rest) = split(rest, b" [")?;
    let (at, rest) = split(rest, b"] \"")?;
    time.extend_from_slice(at);
    let mut request = Vec::new();
    let rest = unquote(rest, &mut request)?.strip_prefix(b" ")?;
    let (verb, target) = split(&request, b" ")?;
    let end = target.iter().rposition(|byte| *byte == b' ');
    let end = end.filter(|end| target[end + 1..].starts_with(b"HTTP/"))?;
    let is_method = !verb.is_empty() && verb.iter().all(u8::is_ascii_uppercase);
    if !is_method || !target.starts_with(b"/") {
        return None;
    }
    method.extend_from_slice(verb);
    path.extend_from_slice(&target[..end]);
    let (code, rest) = split(rest, b" ").unwrap_or((rest, b""));
    status.extend_from_slice(code);
    let (size, rest) = split(rest, b" \"").unwrap_or((rest, b""));
    bytes.extend_from_slice(size);
    if !rest.is_empty() {
        let rest = unquote(rest, referer)?;
        if let Some(rest) = rest.strip_prefix(b" \"") {
            unquote(rest, user_agent)?;
        }
    }
    Some(())
}

/// Returns the text before and after a separator.
fn split<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let mut windows = text.windows(separator.len());
    let index = windows.position(|window| window == separator)?;
    Some((&text[..index], &text[index + separator.len()..]))
}

/// Reads a text up to its closing quote, without the escapes `\"`, `\\` and `\xHH` that servers write. Returns the rest.
fn unquote<'a>(mut text: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (first, rest) = text.split_first()?;
        text = rest;
        match first {
            b'"' => return Some(text),
            b'\\' => {
                let hex = text.strip_prefix(b"x").and_then(|hex| hex.get(..2));
                let byte = hex.and_then(|hex| std::str::from_utf8(hex).ok());
                let byte = byte.and_then(|hex| u8::from_str_radix(hex, 16).ok());
                let (byte, length) = match byte {
                    Some(byte) => (byte, 3),
                    None => (*text.first()?, 1),
                };
                out.push(byte);
                text = &text[length..];
            }
            byte => out.push(*byte),
        }
    }
}
