//! Complaints on stderr, a few per second at most: a flood of bad handoffs must not become a flood of lines.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock;

const SECOND: u64 = 1_000_000_000;
const LINES_PER_SECOND: u64 = 5;

/// A log with a limit per second. Approximate under contention: a few lines more do no harm.
#[derive(Debug, Default)]
pub(crate) struct Log {
    second: AtomicU64,
    lines: AtomicU64,
    suppressed: AtomicU64,
}

impl Log {
    /// Writes a line, unless this second has had its share.
    pub(crate) fn warn(&self, message: impl Display) {
        let Some(suppressed) = self.admit(clock::now() / SECOND) else {
            return;
        };
        let note = match suppressed {
            0 => String::new(),
            count => format!(" ({count} earlier lines were left out)"),
        };
        // Nothing can be done about a stderr that is gone.
        let _ = writeln!(io::stderr(), "streaming-daemon: {message}{note}");
    }

    /// Whether a line may be written in this second, and how many were not before it.
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
