//! Log lines on stderr for the operator: a few per second, however many clients cause them.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Maximum lines per second. Further ones are counted, and the next second reports their number.
const MOST: u32 = 10;
/// Lines that may wait for a stderr that is not read; further ones are dropped.
const WAITING: usize = 64;

/// Writes log lines and never blocks.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    second: u64,
    said: u32,
    left_out: u64,
    /// The channel to the writer thread, which is started with the first line.
    writer: Option<SyncSender<String>>,
}

impl Notes {
    /// Writes a line, at a time in milliseconds.
    pub(crate) fn say(&mut self, now: u64, line: impl Display) {
        let Some(line) = self.admit(now, line) else {
            return;
        };
        let writer = self.writer.get_or_insert_with(start);
        // The channel is full or has no thread: the line is dropped.
        let _ = writer.try_send(line);
    }

    fn admit(&mut self, now: u64, line: impl Display) -> Option<String> {
        if self.second != now / 1000 {
            (self.second, self.said) = (now / 1000, 0);
        }
        if self.said == MOST {
            self.left_out += 1;
            return None;
        }
        self.said += 1;
        Some(match std::mem::take(&mut self.left_out) {
            0 => format!("broker-daemon: {line}\n"),
            count => {
                format!("broker-daemon: {count} similar lines suppressed\nbroker-daemon: {line}\n")
            }
        })
    }
}

fn start() -> SyncSender<String> {
    let (writer, lines) = sync_channel::<String>(WAITING);
    // Without a thread, lines are dropped; the broker continues.
    let _ = thread::Builder::new()
        .name("notes".to_owned())
        .spawn(move || {
            for line in lines {
                let _ = io::stderr().write_all(line.as_bytes());
            }
        });
    writer
}

/// Quotes a client's text for a log line: without control characters, and truncated.
pub(crate) fn quote(text: &str) -> String {
    let short: String = text.chars().take(64).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_counted_and_not_said() {
        let mut notes = Notes::default();
        let said = (0..1000)
            .filter_map(|_| notes.admit(5000, "refused"))
            .count();
        assert_eq!(said, 10);
        let next = notes.admit(6000, "refused").unwrap();
        assert!(next.contains("990 similar"), "{next}");
    }

    #[test]
    fn what_clients_send_cannot_forge_lines() {
        assert_eq!(quote("a\nb\u{1b}"), r#""a\nb\u{1b}""#);
        assert!(quote(&"x".repeat(1000)).len() < 80);
    }
}
