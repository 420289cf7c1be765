//! A log on stderr that is limited to a few lines per second: a flood of bad clients must not become a flood of lines.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tokio::time::Instant;

/// Lines that may wait for a stderr that is not read; further ones are dropped.
const WAITING: usize = 64;

/// Writes lines to stderr from a thread of its own, so that a reader that stops reading delays nobody. Lines are dropped
/// while too many wait, and those that wait at the end of the process. A process that forks must do so before the first
/// line.
#[derive(Debug, Default)]
pub struct StderrLines(OnceLock<SyncSender<Vec<u8>>>);

/// Takes each piece that is written for a line.
impl Write for &StderrLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The channel is full or has no thread: the line is dropped.
        let _ = self.0.get_or_init(start_writer).try_send(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log that never blocks its callers.
///
/// The limit is approximate under contention: a few more lines do no harm.
#[derive(Debug)]
pub struct RateLimitedLog {
    program: &'static str,
    lines_per_second: u64,
    started: Instant,
    /// The second since the start in which lines are counted.
    second: AtomicU64,
    lines: AtomicU64,
    suppressed: AtomicU64,
    stderr: StderrLines,
}

impl RateLimitedLog {
    /// Creates a log whose lines begin with the name of the program.
    #[must_use]
    pub fn new(program: &'static str, lines_per_second: u64) -> Self {
        Self {
            program,
            lines_per_second,
            started: Instant::now(),
            second: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
            stderr: StderrLines::default(),
        }
    }

    /// Writes a line, unless the limit of this second is reached.
    pub fn warn(&self, message: impl Display) {
        if let Some(line) = self.admit(self.started.elapsed().as_secs(), message) {
            let _ = (&self.stderr).write_all(line.as_bytes());
        }
    }

    fn admit(&self, second: u64, message: impl Display) -> Option<String> {
        if self.second.swap(second, Relaxed) != second {
            self.lines.store(0, Relaxed);
        }
        if self.lines.fetch_add(1, Relaxed) >= self.lines_per_second {
            self.suppressed.fetch_add(1, Relaxed);
            return None;
        }
        let program = self.program;
        Some(match self.suppressed.swap(0, Relaxed) {
            0 => format!("{program}: {message}\n"),
            count => format!("{program}: {message} ({count} earlier lines were left out)\n"),
        })
    }
}

/// Quotes a client's text for a log line: without control characters, and truncated.
#[must_use]
pub fn quote(text: &str) -> String {
    let short: String = text.chars().take(64).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{dots}")
}

fn start_writer() -> SyncSender<Vec<u8>> {
    let (writer, lines) = sync_channel::<Vec<u8>>(WAITING);
    // Without a thread, lines are dropped; the daemon continues.
    let _ = thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || {
            for line in lines {
                let _ = io::stderr().write_all(&line);
            }
        });
    writer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_to_a_few_lines_and_counted() {
        let log = RateLimitedLog::new("test-daemon", 5);
        let admitted = (0..100)
            .filter(|_| log.admit(7, "refused").is_some())
            .count();
        assert_eq!(admitted, 5);
        assert_eq!(
            log.admit(8, "refused").unwrap(),
            "test-daemon: refused (95 earlier lines were left out)\n"
        );
        assert_eq!(log.admit(8, "refused").unwrap(), "test-daemon: refused\n");
    }

    #[test]
    fn texts_of_clients_cannot_forge_lines() {
        assert_eq!(quote("a\nb\u{1b}"), r#""a\nb\u{1b}""#);
        assert!(quote(&"x".repeat(1000)).len() < 80);
    }
}
