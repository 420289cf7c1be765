//! Lines on stderr for whoever runs the broker: a few per second, however many clients give rise to them.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Lines per second. What is more is counted, and the next second says how many those were.
const MOST: u32 = 10;
/// Lines that may wait for a stderr that nobody reads; further ones are left out.
const WAITING: usize = 64;

/// Says what operators want to know, and never waits for them.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    second: u64,
    said: u32,
    left_out: u64,
    /// To the thread that writes, which is started with the first line.
    writer: Option<SyncSender<String>>,
}

impl Notes {
    /// Says a line at a time in milliseconds.
    pub(crate) fn say(&mut self, now: u64, line: impl Display) {
        let Some(line) = self.admit(now, line) else {
            return;
        };
        let writer = self.writer.get_or_insert_with(start);
        // Full, or without a thread: nobody reads.
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
                format!("broker-daemon: {count} more lines like these\nbroker-daemon: {line}\n")
            }
        })
    }
}

fn start() -> SyncSender<String> {
    let (writer, lines) = sync_channel::<String>(WAITING);
    // Without a thread nothing is said; the broker works on.
    let _ = thread::Builder::new()
        .name("notes".to_owned())
        .spawn(move || {
            for line in lines {
                let _ = io::stderr().write_all(line.as_bytes());
            }
        });
    writer
}

/// What a client sent as it may stand in a line: quoted, without control characters, and not long.
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
        assert!(next.contains("990 more"), "{next}");
    }

    #[test]
    fn what_clients_send_cannot_forge_lines() {
        assert_eq!(quote("a\nb\u{1b}"), r#""a\nb\u{1b}""#);
        assert!(quote(&"x".repeat(1000)).len() < 80);
    }
}
