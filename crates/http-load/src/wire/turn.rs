//! What happened in one turn of the loop: counting by name costs more than adding, so names are looked up once a turn.

use harness::recorder::Recorder;

use measure::audit::count as audit;

use crate::outcome::count;

/// What one turn adds up.
#[derive(Debug, Default)]
pub(super) struct Turn {
    started: u64,
    warmup: u64,
    pub(super) ok: u64,
    answers: u64,
    served: u64,
    expected_body_bytes: u64,
    pub(super) bytes: u64,
    body_bytes: u64,
    pub(super) bytes_sent: u64,
}

impl Turn {
    /// An operation begins.
    pub(super) fn begin(&mut self, counted: bool) {
        match counted {
            true => self.started += 1,
            false => self.warmup += 1,
        }
    }

    /// An answer came whole, of so many bytes of content, to an operation that counts or not; `expected` were due.
    pub(super) fn answer(&mut self, body: u64, expected: Option<u64>, counted: bool) {
        self.served += 1;
        if counted {
            self.answers += 1;
            self.body_bytes += body;
            self.expected_body_bytes += expected.unwrap_or(0);
        }
    }

    /// Counts it all, and begins anew.
    pub(super) fn hand_over(&mut self, record: &Recorder) {
        let turn = std::mem::take(self);
        let counts = [
            (count::WARMUP, turn.warmup),
            (count::ANSWERS, turn.answers),
            (count::BYTES, turn.bytes),
            (count::SERVED, turn.served),
            (count::BODY_BYTES, turn.body_bytes),
            (audit::EXPECTED_BODY_BYTES, turn.expected_body_bytes),
            (count::BYTES_SENT, turn.bytes_sent),
        ];
        // What ended first: it was open when the turn began, and what is open at once must not seem to be more.
        record.ok_many(turn.ok);
        if turn.started > 0 {
            record.begin_many(turn.started);
        }
        for (name, number) in counts.into_iter().filter(|(_, number)| *number > 0) {
            record.count(name, number);
        }
    }
}
