//! Reads the lines that a file has got since the last reading.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

/// Bytes that one reading takes at most; the next continues.
const MOST: u64 = 4 << 20;

/// A growing file of lines.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    offset: u64,
    /// The begin of a line whose end was not written yet.
    partial: Vec<u8>,
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            partial: Vec::new(),
        }
    }

    /// Returns the lines since the last reading; none if the file is absent.
    pub(super) fn lines(&mut self) -> Vec<String> {
        // An absent file has no lines yet. What was read before an error is read again.
        if let Ok(read) = self.read() {
            self.offset += read;
        }
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        let text = String::from_utf8_lossy(&whole);
        text.lines().map(str::to_owned).collect()
    }

    fn read(&mut self) -> io::Result<u64> {
        let mut file = File::open(&self.path)?;
        // A shorter file is a new one.
        if file.metadata()?.len() < self.offset {
            self.offset = 0;
            self.partial.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let read = file.take(MOST).read_to_end(&mut self.partial)?;
        Ok(read as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_line_is_read_once_and_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.lines(), Vec::<String>::new(), "no file yet");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(tail.lines(), ["one"]);
        file.write_all(b"o\nthree\n").unwrap();
        assert_eq!(tail.lines(), ["two", "three"]);
        assert_eq!(tail.lines(), Vec::<String>::new());
        std::fs::write(&path, "new\n").unwrap();
        assert_eq!(tail.lines(), ["new"]);
    }
}
