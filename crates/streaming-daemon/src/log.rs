//! A log on stderr, limited to a few lines per second: a flood of bad handoffs must not become a flood of lines.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock;

const SECOND: u64 = 1_000_000_000;
const LINES_PER_SECOND: u64 = 5;

/// A log with a limit per second. The limit is approximate under contention: a few more lines do no harm.
#[derive(Debug, Default)]
pub(crate) struct Log {
    second: AtomicU64,
    lines: AtomicU64,
    suppressed: AtomicU64,
}

impl Log {
    /// Writes a line, unless the limit of this second is reached.
    pub(crate) fn warn(&self, message: impl Display) {
        let Some(suppressed) = self.admit(clock::now() / SECOND) else {
            return;
        };
        let note = match suppressed {
            0 => String::new(),
            count => format!(" ({count} earlier lines were left out)"),
        };
        // A closed stderr cannot be handled.
        let _ = writeln!(io::stderr(), "streaming-daemon: {message}{note}");
    }

    /// Returns the number of omitted lines before this one if a line may be written in this second, otherwise `None`.
    fn admit(&self, second: u64) -> Option<u64> {
        if self.second.swap(second, Relaxed) != second {
            self.lines.store(0, Relaxed);
        }
        if self.lines.fetch_add(1, Relaxed) >= LINES_PER_SECOND {
            self.suppressed.fetch_add(1, Relaxed);
            return None;
        }
        Some(self.suppressed.swap(0, Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_to_a_few_lines_and_counted() {
        let log = Log::default();
        let admitted = (0..100).filter(|_| log.admit(7).is_some()).count();
        assert_eq!(admitted, 5);
        assert_eq!(log.admit(8), Some(95));
        assert_eq!(log.admit(8), Some(0));
    }
}
