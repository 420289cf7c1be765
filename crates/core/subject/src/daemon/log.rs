//! Keeps a daemon's output in a bounded file, and reads it from its end.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::unistd::{Whence, lseek};

/// Bytes at the end that are searched for the last lines.
const TAIL: u64 = 64 << 10;
/// Bytes that are kept when a log has grown too long.
const KEPT: u64 = 1 << 20;
/// Characters after which a message cuts a line.
const LONGEST_LINE: usize = 500;
/// Bytes that are searched at once: the rest waits until other tasks have had their turn.
const MOST_SEARCHED: u64 = 4 << 20;
/// The unit of [`MetadataExt::blocks`].
const BLOCK: u64 = 512;
/// Interval between checks of the length: at 1 GB/s a log may grow 250 MB above the limit.
const TRIM_EVERY: Duration = Duration::from_millis(250);

/// The output of a daemon or a build, standard output and error in the order in which they were written.
#[derive(Debug, Clone)]
pub(super) struct Log {
    path: PathBuf,
}

impl Log {
    /// Creates an empty file. It is opened for appending, so that it can be shortened while another process writes to
    /// it.
    pub(super) fn create(path: PathBuf) -> io::Result<(Self, File)> {
        // Shortened by hand: O_TRUNC and O_APPEND exclude each other in `OpenOptions`. Symbolic links are refused.
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)?;
        file.set_len(0)?;
        Ok((Self { path }, file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens what is left of it.
    pub(super) fn open(&self) -> io::Result<File> {
        let file = File::open(&self.path)?;
        seek_data(&file, 0)?;
        Ok(file)
    }

    /// Returns its length in bytes, dropped ones included, or 0 if it cannot be read.
    pub(super) fn length(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Opens the file for another writer, which continues at its end.
    pub(super) fn reopen(&self) -> io::Result<File> {
        OpenOptions::new().append(true).open(&self.path)
    }

    /// Returns the last non-empty lines, joined, or nothing if the file cannot be read.
    pub(super) fn last_lines(&self, lines: usize) -> String {
        let tail = self.tail(TAIL).unwrap_or_default();
        let text = String::from_utf8_lossy(&tail);
        let mut last = VecDeque::new();
        for line in text
            .lines()
            .rev()
            .filter(|line| !line.trim().is_empty())
            .take(lines)
        {
            last.push_front(cut(line));
        }
        Vec::from(last).join("\n")
    }

    /// Shortens the file whenever it is longer than `limit`, until the future is dropped.
    pub(super) async fn keep_below(self, limit: u64) {
        loop {
            tokio::time::sleep(TRIM_EVERY).await;
            // A full disk or a removed directory must not end the run; the next round tries again.
            let _ = self.trim(limit);
        }
    }

    /// Drops all but the end of the file. The space is given back where it is, as a hole: reading the end and writing it
    /// again would lose what comes in between, which may be the line by which a daemon says that it is ready. Where a
    /// file system has no holes (NFS before 4.2), all is dropped.
    fn trim(&self, limit: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&self.path)?;
        let metadata = file.metadata()?;
        if metadata.blocks() * BLOCK <= limit {
            return Ok(());
        }
        let dropped = metadata.len().saturating_sub(KEPT.min(limit / 2));
        let dropped = dropped - dropped % metadata.blksize();
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        if fallocate(&file, hole, 0, dropped as i64).is_err() {
            return file.set_len(0);
        }
        let notice = format!(
            "[{dropped} bytes above this line were dropped: the log is kept below {limit}]\n"
        );
        // In the place of the oldest line that is left.
        file.write_all_at(notice.as_bytes(), dropped)
    }

    fn tail(&self, most: u64) -> io::Result<Vec<u8>> {
        let file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        let mut tail = vec![0; length.min(most) as usize];
        let read = file.read_at(&mut tail, length.saturating_sub(most))?;
        tail.truncate(read);
        Ok(tail)
    }
}

/// Searches a growing file for a text, each byte once.
#[derive(Debug)]
pub(super) struct LogScanner {
    path: PathBuf,
    offset: u64,
    /// The end of the last chunk, in which the text may begin.
    carried: Vec<u8>,
}

impl LogScanner {
    pub(super) fn new(log: &Log) -> Self {
        Self {
            path: log.path.clone(),
            offset: 0,
            carried: Vec::new(),
        }
    }

    /// Searches only what is written after the first `offset` bytes.
    pub(super) fn after(log: &Log, offset: u64) -> Self {
        Self {
            offset,
            ..Self::new(log)
        }
    }

    /// Returns true if the text occurs in what was written since the last call, or in the first 4 MiB of that.
    pub(super) fn finds(&mut self, text: &str) -> io::Result<bool> {
        let file = File::open(&self.path)?;
        let offset = if file.metadata()?.len() < self.offset {
            0
        } else {
            seek_data(&file, self.offset)?
        };
        if offset != self.offset {
            (self.offset, self.carried) = (offset, Vec::new());
        }
        let mut chunk = vec![0; TAIL as usize];
        let end = self.offset + MOST_SEARCHED;
        while self.offset < end {
            let length = file.read_at(&mut chunk, self.offset)?;
            if length == 0 {
                return Ok(false);
            }
            self.offset += length as u64;
            self.carried.extend_from_slice(&chunk[..length]);
            if self
                .carried
                .windows(text.len().max(1))
                .any(|window| window == text.as_bytes())
            {
                return Ok(true);
            }
            let surplus = self.carried.len().saturating_sub(text.len());
            self.carried.drain(..surplus);
        }
        Ok(false)
    }
}

/// Moves to the first byte from the offset on that was not dropped, or to the end, and returns its place.
fn seek_data(file: &File, offset: u64) -> io::Result<u64> {
    match lseek(file, offset as i64, Whence::SeekData) {
        // At the end, or in a hole that reaches to it.
        Err(Errno::ENXIO) => Ok(offset),
        place => Ok(place? as u64),
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LONGEST_LINE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    fn log() -> (tempfile::TempDir, Log, File) {
        let directory = tempfile::tempdir().unwrap();
        let (log, file) = Log::create(directory.path().join("log")).unwrap();
        (directory, log, file)
    }

    #[test]
    fn the_last_lines_are_whole_cut_where_endless_and_skip_empty_ones() {
        let (_directory, log, mut file) = log();
        assert_eq!(log.last_lines(3), "");
        writeln!(file, "one\ntwo\n\n{}\nfour", "é".repeat(600)).unwrap();
        assert_eq!(log.last_lines(1), "four");
        assert_eq!(
            log.last_lines(3),
            format!("two\n{}…\nfour", "é".repeat(500))
        );
        assert_eq!(log.last_lines(20).lines().count(), 4);
    }

    #[test]
    fn a_link_in_the_place_of_a_log_is_refused_and_what_it_leads_to_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("own");
        std::fs::write(&own, "precious").unwrap();
        let link = directory.path().join("build.log");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        Log::create(link).unwrap_err();
        assert_eq!(std::fs::read_to_string(own).unwrap(), "precious");
    }

    #[test]
    fn a_long_log_keeps_its_end_and_its_writer() {
        let (_directory, log, mut file) = log();
        for line in 0..100_000 {
            writeln!(file, "line {line}").unwrap();
        }
        let read = || {
            let mut text = String::new();
            log.open().unwrap().read_to_string(&mut text).unwrap();
            text
        };
        log.trim(1 << 30).unwrap();
        assert!(read().starts_with("line 0\n"));
        log.trim(64 << 10).unwrap();
        writeln!(file, "after").unwrap();
        let text = read();
        assert!(
            text.len() < 64 << 10
                && text.starts_with('[')
                && text.contains("were dropped")
                && text.ends_with("line 99999\nafter\n"),
            "{text}"
        );
    }

    #[test]
    fn no_output_is_lost_while_a_log_is_shortened() {
        let (_directory, log, mut file) = log();
        let writer = std::thread::spawn(move || {
            for round in 0..200 {
                writeln!(file, "{:4096}\nround {round:03}", "").unwrap();
            }
        });
        while !writer.is_finished() {
            log.trim(64 << 10).unwrap();
        }
        writer.join().unwrap();
        assert_eq!(log.last_lines(1), "round 199");
        assert_eq!(log.length(), 200 * (4096 + 11));
    }

    #[test]
    fn a_text_is_found_across_chunks_and_after_the_log_was_shortened() {
        let (_directory, log, mut file) = log();
        let mut scanner = LogScanner::new(&log);
        file.write_all(&vec![b'x'; TAIL as usize - 4]).unwrap();
        file.write_all(b"list").unwrap();
        assert!(!scanner.finds("listening").unwrap());
        file.write_all(b"ening").unwrap();
        assert!(scanner.finds("listening").unwrap());
        let mut scanner = LogScanner::new(&log);
        assert!(!scanner.finds("ready").unwrap());
        file.set_len(0).unwrap();
        file.write_all(b"ready").unwrap();
        assert!(scanner.finds("ready").unwrap());
    }
}
