//! What happened in one turn of the loop: counting by name costs more than adding, so names are looked up once a turn.

use harness::recorder::Recorder;

use crate::outcome::count;

/// What one turn adds up.
#[derive(Debug, Default)]
pub(super) struct Turn {
    started: u64,
    warmup: u64,
    pub(super) ok: u64,
    answers: u64,
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

    /// An answer came whole.
    pub(super) fn answer(&mut self, body: u64) {
        self.answers += 1;
        self.body_bytes += body;
    }

    /// Counts it all, and begins anew.
    pub(super) fn hand_over(&mut self, record: &Recorder) {
        let turn = std::mem::take(self);
        let counts = [
            (count::WARMUP, turn.warmup),
            (count::ANSWERS, turn.answers),
            (count::BYTES, turn.bytes),
            (count::BODY_BYTES, turn.body_bytes),
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
