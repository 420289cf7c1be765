//! What happened in one turn of the loop: counting by name costs more than adding, so names are looked up once a turn.

use harness::recorder::Recorder;

use crate::driver::HttpLoad;
use crate::operation::Operation;
use crate::outcome::count;
use crate::series::{RECEIVING, RESPONSE, SERVICE, WAITING};

/// A whole answer, and when it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    /// Bytes of its content.
    pub(crate) body: u64,
    /// Where phases are measured, when its request was sent whole.
    pub(crate) written: u64,
    /// Where phases are measured, when its first byte came.
    pub(crate) first_byte: u64,
    /// When its last byte came.
    pub(crate) now: u64,
}

/// What one turn adds up.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    started: u64,
    warmup: u64,
    ok: u64,
    answers: u64,
    pub(crate) bytes: u64,
    body_bytes: u64,
    pub(crate) bytes_sent: u64,
}

impl Turn {
    /// An operation begins.
    pub(crate) fn begin(&mut self, counted: bool) {
        match counted {
            true => self.started += 1,
            false => self.warmup += 1,
        }
    }

    /// An operation was answered: it is as it should be, or not.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        driver: &HttpLoad,
        record: &Recorder,
        operation: &Operation,
        answered: Answered,
    ) {
        if !operation.counted {
            return;
        }
        self.answers += 1;
        self.body_bytes += answered.body;
        if let Some(kind) = driver.judge(answered.status, answered.body) {
            return record.error(kind);
        }
        let now = answered.now;
        self.ok += 1;
        record.value(RESPONSE, now - operation.at);
        record.value(SERVICE, now - operation.sent);
        if driver.settings.phases {
            let waiting = answered.first_byte.saturating_sub(answered.written);
            record.value(WAITING, waiting.max(1));
            record.value(RECEIVING, (now - answered.first_byte).max(1));
        }
    }

    /// Counts it all, and begins anew.
    pub(crate) fn hand_over(&mut self, record: &Recorder) {
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
