//! What happened in one turn of the loop: counting by name costs more than adding, so names are looked up once a turn.

use harness::recorder::Recorder;
use measure::audit::count as audit;

use crate::checks::Seen;
use crate::driver::HttpLoad;
use crate::judge::{Complete, Judge};
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

/// What one turn adds up, and the checks that are asked of each answer.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    driver: &'a HttpLoad,
    judge: Option<Judge<'a>>,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    started: u64,
    warmup: u64,
    ok: u64,
    answers: u64,
    served: u64,
    bytes: u64,
    body_bytes: u64,
    expected_body_bytes: u64,
    bytes_sent: u64,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(driver: &'a HttpLoad) -> Self {
        Self {
            driver,
            judge: Judge::new(&driver.checks),
            sums: Sums::default(),
        }
    }

    /// An operation begins.
    pub(crate) fn begin(&mut self, counted: bool) {
        match counted {
            true => self.sums.started += 1,
            false => self.sums.warmup += 1,
        }
    }

    /// So many bytes came for operations that count, heads included.
    pub(crate) fn received(&mut self, bytes: u64) {
        self.sums.bytes += bytes;
    }

    /// So many bytes were sent for them.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.sums.bytes_sent += bytes;
    }

    /// An operation was answered: it is as it should be, or not. `seen` is what checks ask of the answer, where they do.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        record: &Recorder,
        operation: &Operation,
        answered: Answered,
        seen: Option<&Seen>,
    ) {
        let driver = self.driver;
        let kind = driver.outcome(answered.status, answered.body);
        self.sums.served += 1;
        if !operation.counted {
            return;
        }
        self.sums.answers += 1;
        self.sums.body_bytes += answered.body;
        self.sums.expected_body_bytes += driver.expected_length().unwrap_or(0);
        let now = answered.now;
        let service_ns = now - operation.sent;
        if let Some(judge) = &mut self.judge {
            let complete = Complete {
                status: answered.status,
                length: answered.body,
                service_ns,
                seen,
            };
            judge.judge(complete, kind.is_none());
        }
        if let Some(kind) = kind {
            return record.error(kind);
        }
        self.sums.ok += 1;
        record.value(RESPONSE, now - operation.at);
        record.value(SERVICE, service_ns);
        if driver.settings.phases {
            let waiting = answered.first_byte.saturating_sub(answered.written);
            record.value(WAITING, waiting.max(1));
            record.value(RECEIVING, (now - answered.first_byte).max(1));
        }
    }

    /// Counts it all, and begins anew.
    pub(crate) fn hand_over(&mut self, record: &Recorder) {
        let sums = std::mem::take(&mut self.sums);
        let counts = [
            (count::WARMUP, sums.warmup),
            (count::ANSWERS, sums.answers),
            (count::SERVED, sums.served),
            (count::BYTES, sums.bytes),
            (count::BODY_BYTES, sums.body_bytes),
            (audit::EXPECTED_BODY_BYTES, sums.expected_body_bytes),
            (count::BYTES_SENT, sums.bytes_sent),
        ];
        // What ended first: it was open when the turn began, and what is open at once must not seem to be more.
        record.ok_many(sums.ok);
        if sums.started > 0 {
            record.begin_many(sums.started);
        }
        for (name, number) in counts.into_iter().filter(|(_, number)| *number > 0) {
            record.count(name, number);
        }
        if let Some(judge) = &mut self.judge {
            judge.hand_over(record);
        }
    }
}
