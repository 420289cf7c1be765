//! The fixed response of the sink.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::BUFFER;

/// The response, repeated to fill one write, with the date of the current second.
#[derive(Debug)]
pub(super) struct Answers {
    bytes: Vec<u8>,
    /// Length of one response in bytes.
    pub(super) length: usize,
    body: usize,
    second: u64,
}

impl Answers {
    pub(super) fn new(body: usize) -> Self {
        let mut answers = Self {
            bytes: Vec::new(),
            length: 0,
            body,
            second: u64::MAX,
        };
        answers.renew();
        answers
    }

    /// Updates the date. All dates have one length, so a partly written response continues as it would have.
    pub(super) fn renew(&mut self) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        if now.as_secs() == self.second {
            return;
        }
        self.second = now.as_secs();
        let date = httpdate::fmt_http_date(UNIX_EPOCH + now);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\ndate: {date}\r\n\r\n",
            self.body
        );
        self.length = head.len() + self.body;
        self.bytes.clear();
        for _ in 0..(BUFFER / self.length).max(1) {
            self.bytes.extend_from_slice(head.as_bytes());
            self.bytes.resize(self.bytes.len() + self.body, 0);
        }
    }

    /// Returns the bytes to write next, of `owed` responses of whose first `sent` bytes are written.
    pub(super) fn rest(&self, owed: u32, sent: usize) -> &[u8] {
        let end = (owed as usize * self.length).min(self.bytes.len());
        &self.bytes[sent..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_goes_on_where_it_was_cut() {
        let answers = Answers::new(100);
        assert_eq!(answers.rest(1, 0).len(), answers.length);
        assert_eq!(answers.rest(3, 10).len(), 3 * answers.length - 10);
        // At most one write; the rest follows with the next call.
        assert_eq!(answers.rest(u32::MAX, 7).len(), answers.bytes.len() - 7);
        let large = Answers::new(1_000_000);
        assert_eq!(large.rest(2, 0).len(), large.length);
    }
}
