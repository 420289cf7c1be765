//! Splits received bytes into lines of a limited length.

use memchr::memchr;

/// The bytes of a line whose end has not arrived.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    unfinished: Vec<u8>,
}

/// A line is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Lines {
    /// Adds received bytes, and passes each finished line to `line`, without its end. Empty lines are passed too.
    ///
    /// # Errors
    /// A line is longer than `limit` bytes. Nothing can be read after that.
    pub(crate) fn push(
        &mut self,
        mut received: &[u8],
        limit: usize,
        mut line: impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        while let Some(end) = memchr(b'\n', received) {
            let (before, after) = (&received[..end], &received[end + 1..]);
            if self.unfinished.len() + before.len() > limit {
                return Err(TooLong);
            }
            if self.unfinished.is_empty() {
                line(before);
            } else {
                self.unfinished.extend_from_slice(before);
                line(&self.unfinished);
                self.unfinished = Vec::new();
            }
            received = after;
        }
        if self.unfinished.len() + received.len() > limit {
            return Err(TooLong);
        }
        self.unfinished.extend_from_slice(received);
        Ok(())
    }

    /// Returns the number of bytes that wait for the end of their line.
    pub(crate) fn unfinished(&self) -> usize {
        self.unfinished.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&str], limit: usize) -> Result<Vec<String>, TooLong> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in pieces {
            lines.push(piece.as_bytes(), limit, |line| {
                found.push(String::from_utf8(line.to_vec()).unwrap());
            })?;
        }
        Ok(found)
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let text = "first\n\nsecond line\nlast";
        let expected = ["first", "", "second line"];
        for at in 0..text.len() {
            let pieces = [&text[..at], &text[at..]];
            assert_eq!(lines(&pieces, 100).unwrap(), expected, "split at {at}");
        }
    }

    #[test]
    fn a_line_may_have_the_limit_and_not_more() {
        assert_eq!(lines(&["12345\n"], 5).unwrap(), ["12345"]);
        assert_eq!(lines(&["123456\n"], 5), Err(TooLong));
        assert_eq!(
            lines(&["123", "456"], 5),
            Err(TooLong),
            "its end is not waited for"
        );
    }
}
